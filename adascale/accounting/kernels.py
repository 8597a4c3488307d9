r"""Compiled kernels: the log-moment of the sampled Gaussian mechanism and its slope, without cancellation.

Everything is a function of :math:`s = 1/\sigma^2`.  With :math:`L \sim \mathcal N(-s/2, s)`, the privacy loss of
the Gaussian mechanism, the log-moment is

.. math::
    A_\alpha(q, s) = \ln \mathbb E\big[(1 - q + q e^{L})^\alpha\big], \qquad \rho_\alpha = A_\alpha / (\alpha - 1).

Because :math:`\mathbb E[1 - q + q e^L] = 1`, the leading 1 can be taken out before anything is rounded:

* integer order: :math:`e^A - 1 = \sum_{k \ge 2} \binom{\alpha}{k} q^k (1-q)^{\alpha-k} (e^{k(k-1)s/2} - 1)`;
* any order: :math:`e^A - 1 = \mathbb E[g(\ell)]` with :math:`\ell = \ln(1 - q + q e^L)` and
  :math:`g(\ell) = e^{\alpha \ell} - 1 - \alpha (e^\ell - 1) \ge 0`, by the trapezoidal rule, which converges
  exponentially: the integrand is analytic up to :math:`|\mathrm{Im}\, L| = \pi`.

All summands are non-negative, so small leakages keep their digits.  The derivations stand in the chapter "Privacy".
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import gammaln, xlog1py, xlogy

_NO_OVERFLOW = 600.0  # exp(600) is still far from the largest double
_REACH = 9.0  # standard deviations kept on each side: exp(-9^2 / 2) = 3e-18
_STEP = 0.6  # trapezoidal step in standard deviations: its error is of order exp(-2 pi^2 / 0.6^2) = 2e-24
# ... and at most 0.6 in L: the branch points at +- i pi give exp(-2 pi^2 / 0.6 + pi^2 / (2 s)) < 1e-12 where it rules
_STEP_LOSS = 0.6
_NEGLIGIBLE = -37.0  # exp(-37) = 9e-17, below one unit in the last place


def log_weights(q: float, alpha: float) -> np.ndarray:
    r"""Logarithms of :math:`\binom{\alpha}{k} q^k (1-q)^{\alpha-k}`, k = 2 ... alpha; empty for a fractional order."""
    if alpha != math.floor(alpha):
        return np.empty(0)
    k = np.arange(2, int(alpha) + 1)
    binomial = gammaln(alpha + 1) - gammaln(k + 1) - gammaln(alpha - k + 1)
    return binomial + xlogy(k, q) + xlog1py(alpha - k, -q)


@njit(cache=True)
def _integer_log_moment(s, weights):
    if 0.5 * (weights.size + 1) * weights.size * s < _NO_OVERFLOW:
        total = 0.0
        for i in range(weights.size):
            total += math.exp(weights[i]) * math.expm1(0.5 * (i + 2) * (i + 1) * s)
        return math.log1p(total)
    if s == np.inf:
        return np.inf
    peak = -np.inf  # the same in logarithms
    for i in range(weights.size):
        peak = max(peak, _log_term(i, s, weights))
    total = 0.0
    for i in range(weights.size):
        total += math.exp(_log_term(i, s, weights) - peak)
    excess = peak + math.log(total)  # ln(e^A - 1)
    return math.log1p(math.exp(excess)) if excess < 30 else excess + math.exp(-excess)


@njit(cache=True)
def _log_term(i, s, weights):
    x = 0.5 * (i + 2) * (i + 1) * s
    return weights[i] + x + math.log(-math.expm1(-x))


@njit(cache=True)
def _integer_slope(s, weights):
    slope = 0.0
    if 0.5 * (weights.size + 1) * weights.size * s < _NO_OVERFLOW:
        moment = 1.0
        for i in range(weights.size):
            pairs, weight = 0.5 * (i + 2) * (i + 1), math.exp(weights[i])
            grown = weight * math.expm1(pairs * s)
            moment += grown
            slope += pairs * (weight + grown)
        return slope / moment
    log_moment = _integer_log_moment(s, weights)
    for i in range(weights.size):
        pairs = 0.5 * (i + 2) * (i + 1)
        slope += pairs * math.exp(weights[i] + pairs * s - log_moment)
    return slope


@njit(cache=True)
def _gaussian_alone(s, q, alpha):
    """Whether every term but q^alpha exp(alpha (alpha - 1) s / 2) is below the last place (small sigma)."""
    slack = math.log(alpha) + (alpha - 1) * math.log(2.0)
    top = alpha * math.log(q) + 0.5 * alpha * (alpha - 1) * s
    return slack - top < _NEGLIGIBLE and slack - math.log(q) - (alpha - 1) * s < _NEGLIGIBLE


@njit(cache=True)
def _log_mixture(loss, q):
    """ln(1 - q + q e^loss) to full relative precision, for 0 < q < 1."""
    if loss > 30 and loss > -math.log(q):
        return loss + math.log(q) + math.log1p((1 - q) / q * math.exp(-loss))
    y = q * math.expm1(loss)
    return math.log1p(y) if y > -0.5 else math.log((1 - q) + q * math.exp(loss))


@njit(cache=True)
def _convex_excess(ell, a):
    """expm1(a ell) + a expm1(-ell) = exp(-ell) g(ell) >= 0 for a = alpha - 1, without cancellation."""
    if abs(ell) * max(1.0, a) > 0.1:
        return math.expm1(a * ell) + a * math.expm1(-ell)
    total, power, power_a, sign = 0.0, ell, a, -1.0
    for k in range(2, 13):
        power *= ell / k
        power_a *= a
        sign = -sign
        total += (power_a + sign * a) * power
    return total


@njit(cache=True)
def _grid(s, alpha):
    """Step and number of steps of the trapezoidal rule, from -_REACH on, in standard deviations."""
    root = math.sqrt(s)
    step = min(_STEP, _STEP_LOSS / root)
    return step, int(math.ceil((max(alpha, 2.0) * root + 2 * _REACH) / step))


@njit(cache=True)
def _fractional_log_moment(s, q, alpha):
    top = alpha * math.log(q) + 0.5 * alpha * (alpha - 1) * s
    if _gaussian_alone(s, q, alpha):
        return top
    scale = max(0.0, top)  # ln E is within alpha ln 2 of this
    a, root = alpha - 1, math.sqrt(s)
    step, steps = _grid(s, alpha)
    total = 0.0
    for i in range(steps + 1):
        u = i * step - _REACH
        ell = _log_mixture(root * u - 0.5 * s, q)
        if a * ell > 40:
            total += math.exp(alpha * ell - 0.5 * u * u - scale)
        else:
            total += math.exp(ell - 0.5 * u * u - scale) * _convex_excess(ell, a)
    total *= step / math.sqrt(2 * math.pi)
    return math.log1p(total * math.exp(scale)) if scale < 30 else scale + math.log(total + math.exp(-scale))


@njit(cache=True)
def _fractional_slope(s, q, alpha):
    # heat equation: d/ds E[phi(L)] = E[phi''(L) - phi'(L)] / 2 = alpha (alpha - 1) q^2 E[e^{2L} (..)^{alpha-2}] / 2
    if _gaussian_alone(s, q, alpha):
        return 0.5 * alpha * (alpha - 1)
    log_moment = _fractional_log_moment(s, q, alpha)
    root = math.sqrt(s)
    step, steps = _grid(s, alpha)
    total = 0.0
    for i in range(steps + 1):
        u = i * step - _REACH
        loss = root * u - 0.5 * s
        total += math.exp(2 * loss + (alpha - 2) * _log_mixture(loss, q) - 0.5 * u * u - log_moment)
    return 0.5 * alpha * (alpha - 1) * q * q * total * step / math.sqrt(2 * math.pi)


@njit(cache=True)
def log_moment(s, q, alpha, weights):
    """A_alpha(q, s); ``weights`` from :func:`log_weights` of the same q and alpha."""
    if q == 1.0:
        return 0.5 * alpha * (alpha - 1) * s
    if weights.size > 0:
        return _integer_log_moment(s, weights)
    return _fractional_log_moment(s, q, alpha)


@njit(cache=True)
def log_moment_slope(s, q, alpha, weights):
    """dA_alpha(q, s) / ds."""
    if q == 1.0:
        return 0.5 * alpha * (alpha - 1)
    if weights.size > 0:
        return _integer_slope(s, weights)
    return _fractional_slope(s, q, alpha)


@njit(cache=True)
def map_log_moment(s, q, alpha, weights, slope):
    """:func:`log_moment`, or its slope, of every entry of the 1-d array ``s``."""
    out = np.empty(s.size)
    for i in range(s.size):
        out[i] = log_moment_slope(s[i], q, alpha, weights) if slope else log_moment(s[i], q, alpha, weights)
    return out
