r"""Compiled log-moment of the sampled Gaussian mechanism and its slope in :math:`s = 1/\sigma^2`, without cancellation.

:math:`A_\alpha(q, s) = \ln \mathbb E[(1 - q + q e^L)^\alpha]`, :math:`L \sim \mathcal N(-s/2, s)`: for integer orders
to 512 the sum :eq:`eq:sgm-expm1` where no power in it overflows, else the integral :eq:`eq:sgm-any-order` by the
trapezoidal rule (:ref:`app-rdp`).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlog1py, xlogy

from adascale.compiled import njit

FloatArray = NDArray[np.float64]

LARGEST_ORDER = 1e12
"""Largest order; above it, the rounding of q alone may change the leakage by more than 1e-4."""

_NO_OVERFLOW = 600.0  # exp(600) is still far from the largest double
# Trapezoidal step in standard deviations: its error is of order exp(-2 pi^2 / 0.6^2) = 2e-24; and at most 0.6 in L: the
# branch points at +- i pi give exp(-2 pi^2 / 0.6 + pi^2 / (2 s)) < 1e-12 where that step is the smaller one
_STEP = 0.6
_NEGLIGIBLE = -37.0  # exp(-37) = 9e-17, below one unit in the last place
_APART = 9.0  # standard deviations between the upper Gaussian and the bend: exp(-9^2 / 2) = 3e-18
_LARGE = 512.0  # whole orders up to this one are finite sums
_NO_END = 2**62  # a node that no sum reaches
_DEPTH = 60.0  # how far below its peak, in logarithms, an integrand is summed


class MomentTerms(NamedTuple):
    """One order at K sampling rates for the kernels, made by :func:`moment_terms`."""

    order: float
    rate: FloatArray  # shape (K,)
    weight: FloatArray  # C(alpha, k) q^k (1 - q)^(alpha - k) for k = 2 ... alpha, shape (K, alpha - 1), or (K, 0)


def moment_terms(rate: ArrayLike, order: float) -> MomentTerms:
    r"""Make the terms of :math:`A_\alpha(q, \cdot)` for one :math:`q` in (0, 1], or for each of a 1-d array."""
    if order > LARGEST_ORDER:
        raise ValueError(f"order must be at most {LARGEST_ORDER:g}, got {order:g}")
    q = np.atleast_1d(np.asarray(rate, dtype=float))
    log_weight = np.empty((q.size, 0))
    if order == math.floor(order) and order <= _LARGE:
        k = np.arange(2, int(order) + 1)
        binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        log_weight = binomial + xlogy(k, q[:, None]) + xlog1py(order - k, -q[:, None])
    return MomentTerms(float(order), q, np.exp(log_weight))


@njit(cache=True, inline="always")
def _has_finite_sum(s: float, terms: MomentTerms, kind: int) -> bool:
    """Check that neither weights nor powers of exp(s) leave floating point in the sum, if the order has one."""
    count = terms.weight.shape[1]
    if count == 0 or 0.5 * (count + 1) * count * s > _NO_OVERFLOW:
        return False
    # weights that underflow may be left out only where their factors cannot make up for it
    return terms.weight[kind, count - 1] > 1e-300 or terms.weight[kind, 0] * s > 1e-30


@njit(cache=True, inline="always")
def _sum_log_moment(s: float, weight: FloatArray) -> float:
    total = 0.0
    for i in range(weight.size):
        total += weight[i] * math.expm1(0.5 * (i + 2) * (i + 1) * s)
    return math.log1p(total)


@njit(cache=True, inline="always")
def _sum_slopes(s: float, weight: FloatArray) -> tuple[float, float]:
    # with x = k (k-1) / 2, A' is the mean of x and A'' its variance under the weights times exp(x s)
    moment, first, second = 1.0, 0.0, 0.0
    once = math.exp(s)
    grown, power = once, once * once  # exp(k (k-1) s / 2) and exp(k s)
    for i in range(weight.size):
        x, term = 0.5 * (i + 2) * (i + 1), weight[i] * grown
        moment += term - weight[i]
        first += x * term
        second += x * x * term
        grown, power = grown * power, power * once
    slope = first / moment
    return slope, second / moment - slope * slope


@njit(cache=True, nogil=True)
def _log_mixture(loss: float, q: float) -> float:
    """Compute ln(1 - q + q e^loss) to full relative precision, for 0 < q < 1."""
    if q < 1e-300:  # 1 / q and exp(loss) may overflow, and 1 - q rounds to 1
        x = loss + math.log(q)
        return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))
    if loss > 30 and loss > -math.log(q):
        return loss + math.log(q) + math.log1p((1 - q) / q * math.exp(-loss))
    y = q * math.expm1(loss)
    return math.log1p(y) if y > -0.5 else math.log((1 - q) + q * math.exp(loss))


@njit(cache=True, nogil=True)
def _upper_share(loss: float, ell: float, q: float) -> float:
    """Compute r = q e^loss / (1 - q + q e^loss) from the logarithm of the denominator."""
    return (
        q * math.exp(loss - ell) if loss < 700 else math.exp(loss - ell + math.log(q))
    )


@njit(cache=True, nogil=True)
def _excess_term(ell: float, half_square: float, a: float) -> float:
    """Compute (e^{alpha ell} - 1 - alpha (e^ell - 1)) e^{-u^2 / 2} >= 0 for a = alpha - 1, without cancellation."""
    if a * ell > 40:
        return math.exp((a + 1) * ell - half_square)
    if abs(ell) * max(1.0, a) > 0.1:
        return math.exp(ell - half_square) * (
            math.expm1(a * ell) + a * math.expm1(-ell)
        )
    total, power, power_a, sign = 0.0, ell, a, -1.0
    for k in range(2, 13):
        power *= ell / k
        power_a *= a
        sign = -sign
        total += (power_a + sign * a) * power
    return math.exp(ell - half_square) * total


@njit(cache=True, nogil=True)
def _peak(low: float, high: float, root: float, log_odds: float, alpha: float) -> float:
    """Find where u - alpha root r(u) changes sign from - to +, a peak of alpha ell(u) - u^2 / 2, or an end."""
    for _ in range(64):
        if high - low < 0.1:  # its curvature is at most 1
            break
        middle = 0.5 * (low + high)
        x = log_odds - (root * middle - 0.5 * root * root)
        if middle < alpha * root * (1 / (1 + math.exp(x)) if x < 700 else 0.0):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@njit(cache=True, nogil=True)
def _peaks(root: float, log_odds: float, alpha: float) -> tuple[float, float]:
    """Find a point near every peak of alpha ell(u) - u^2 / 2, which is concave on either side of two points."""
    # its second derivative is alpha s r (1 - r) - 1; r is 1 / 2 or the smaller one at which it is 0
    large = alpha * root * root
    r = 0.5 if large <= 4 else 2 / large / (1 + math.sqrt(1 - 4 / large))
    end = alpha * root
    middle = log_odds + 0.5 * root * root
    reach = math.log((1 - r) / r)
    first = min(max((middle - reach) / root, 0.0), end)
    last = min(max((middle + reach) / root, 0.0), end)
    left = _peak(0.0, first, root, log_odds, alpha)
    return left, _peak(last, end, root, log_odds, alpha)


@njit(cache=True, nogil=True)
def _far_gaussians(s: float, q: float, alpha: float) -> tuple[float, float, float]:
    """Compute A, A' and A'' where both Gaussians are far from ln((1 - q) / q)."""
    # the two terms of e^A - 1: q^alpha exp(alpha (alpha - 1) s / 2) - q, and (1 - q)^alpha - (1 - q)
    a, pairs = alpha - 1, 0.5 * alpha * (alpha - 1)
    lift = a * math.log(q) + pairs * s
    lower = (1 - q) * math.expm1(a * math.log1p(-q))
    if lift < _NO_OVERFLOW:
        upper = q * math.expm1(lift)
    else:  # there q is below exp(-560)
        upper = math.exp(alpha * math.log(q) + pairs * s)
    share = (upper + q) / (1 + upper + lower)
    curvature = pairs * pairs * share * (1 - share)
    return math.log1p(upper + lower), pairs * share, curvature


@njit(cache=True, nogil=True)
def _add_run(
    sums: tuple[float, float, float, float],
    s: float,
    q: float,
    alpha: float,
    scale: float,
    depth: float,
    i: int,
    stop: int,
    way: int,
) -> tuple[tuple[float, float, float, float], int]:
    """Add the terms at nodes i, i + way, ... before ``stop`` while they are above the depth, over exp(scale).

    The sums are of e^g - 1 - alpha (..) without its cancellation, and of e^g times 1, r^2 and what E'' has, where
    g = alpha ln(1 - q + q e^L).  Return them and the first node that is left out.
    """
    root, a, b = math.sqrt(s), alpha - 1, alpha - 2
    step = _STEP / max(root, 1.0)
    excess, moment, first, second = sums
    while i != stop:
        u = i * step
        loss = root * u - 0.5 * s
        ell = _log_mixture(loss, q)
        height = alpha * ell - 0.5 * u * u
        if height < depth:
            break
        term, r = math.exp(height - scale), _upper_share(loss, ell, q)
        if scale <= 1:
            excess += _excess_term(ell, 0.5 * u * u, a)
        moment += term
        term *= r * r
        first += term
        second += term * (1 + 2 * b * r + 0.5 * b * (b - 1) * r * r)
        i += way
    return (excess, moment, first, second), i


@njit(cache=True, nogil=True)
def _fractional(s: float, q: float, alpha: float) -> tuple[float, float, float]:
    """Compute A, A' and A'' by the trapezoidal rule where the integrand is not negligible."""
    # heat equation, d/ds E[phi(L)] = E[phi''(L) - phi'(L)] / 2, with r = q e^L / (1 - q + q e^L) and b = alpha - 2:
    # E'  = alpha (alpha - 1) / 2 E[(..)^alpha r^2]
    # E'' = alpha (alpha - 1) / 2 E[(..)^alpha r^2 (1 + 2 b r + b (b - 1) r^2 / 2)]
    pairs = 0.5 * alpha * (alpha - 1)
    if s == 0.0:
        return 0.0, pairs * q * q, 0.0
    root, log_odds = math.sqrt(s), math.log1p(-q) - math.log(q)
    top = alpha * math.log(q) + pairs * s
    slack = math.log(alpha) + (alpha - 1) * math.log(2.0)
    below = slack - math.log(q) - (alpha - 1) * s
    if slack - top < _NEGLIGIBLE and below < _NEGLIGIBLE:
        return top, pairs, 0.0  # one Gaussian, to the last digit
    if 0.5 * s - abs(log_odds) > _APART * root:
        return _far_gaussians(s, q, alpha)
    left, right = _peaks(root, log_odds, alpha)
    lower = alpha * _log_mixture(root * left - 0.5 * s, q) - 0.5 * left * left
    scale = alpha * _log_mixture(root * right - 0.5 * s, q) - 0.5 * right * right
    bend = log_odds + math.log(alpha) - (root * (right - 12) - 0.5 * s)
    if bend < _NEGLIGIBLE and (left == right or lower < scale - _DEPTH):
        return top, pairs, 0.0  # one Gaussian; at exponents of 1e20 no digits are left
    scale = max(lower, scale)
    # e^A - 1 may be as small
    depth = scale - _DEPTH
    depth += min(0.0, math.log(pairs) + 2 * math.log(q) + math.log(s))
    step = _STEP / max(root, 1.0)
    start, sums = int(round(right / step)), (0.0, 0.0, 0.0, 0.0)
    # down and up from the right peak, then up from the left one to where the first run ended, and down
    sums, end = _add_run(sums, s, q, alpha, scale, depth, start, _NO_END, -1)
    sums, _ = _add_run(sums, s, q, alpha, scale, depth, start + 1, _NO_END, 1)
    start = min(int(round(left / step)), end + 1)
    sums, _ = _add_run(sums, s, q, alpha, scale, depth, start, end + 1, 1)
    sums, _ = _add_run(sums, s, q, alpha, scale, depth, start - 1, _NO_END, -1)
    excess, moment, first, second = sums
    mean = pairs * first / moment
    weight = step / math.sqrt(2 * math.pi)
    if scale <= 1:
        value = math.log1p(excess * weight)
    else:
        value = scale + math.log(moment * weight)
    return value, mean, pairs * second / moment - mean * mean


@njit(cache=True, inline="always")
def log_moment(s: float, terms: MomentTerms, kind: int) -> float:
    """Compute A_alpha(q, s) at the rate of index ``kind``: ``inf`` if it overflows, 0 if it underflows."""
    q, alpha = terms.rate[kind], terms.order
    if q == 1.0:
        return 0.5 * alpha * (alpha - 1) * s
    if _has_finite_sum(s, terms, kind):
        return _sum_log_moment(s, terms.weight[kind])
    return _fractional(s, q, alpha)[0]


@njit(cache=True, inline="always")
def log_moment_slopes(s: float, terms: MomentTerms, kind: int) -> tuple[float, float]:
    """Compute dA_alpha(q, s) / ds to eleven digits, and the second derivative to those of a Newton step."""
    q, alpha = terms.rate[kind], terms.order
    if q == 1.0:
        return 0.5 * alpha * (alpha - 1), 0.0
    if _has_finite_sum(s, terms, kind):
        return _sum_slopes(s, terms.weight[kind])
    return _fractional(s, q, alpha)[1:]


@njit(cache=True, nogil=True)
def map_log_moment(
    s: FloatArray, terms: MomentTerms, slope: bool = False
) -> FloatArray:
    """Compute :func:`log_moment`, or its slope, for every entry of the 1-d array ``s``."""
    out = np.empty(s.size)
    only = terms.rate.size - 1  # for a literal 0, all would be compiled a second time
    for i in range(s.size):
        out[i] = (
            log_moment_slopes(s[i], terms, only)[0]
            if slope
            else log_moment(s[i], terms, only)
        )
    return out
