"""Certified intervals of events: epsilon, delta, calibration and trade-off curve."""

import contextlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting.events import Composition, Events, compose_events
from adascale.accounting.exact.certify import delta_interval, epsilon_interval
from adascale.accounting.exact.inversion import ADD, scan_tilts
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.sums import rough_epsilon
from adascale.accounting.interval import CertifiedInterval
from adascale.accounting.logs import LEAST_NOISE, MOST_NOISE, MOST_ROUNDS
from adascale.checks import FloatArray
from adascale.errors import InvalidInput
from adascale.rootfind import solve
from adascale.text import shown

_TOLERANCE = 1e-3  # relative, of calibrate and beta
_LARGEST = 700.0  # largest epsilon of a point of the trade-off curve, as e^epsilon overflows beyond
_MOST_POINTS = 60  # of the trade-off curve


def epsilon(events: Events, delta: float) -> CertifiedInterval:
    r"""Compute the smallest :math:`\varepsilon` with :math:`\delta(\varepsilon) \le \delta`, between proven bounds.

    It is for Poisson sampling and add/remove adjacency, in the larger direction (:eq:`eq:inversion`, :ref:`app-exact`).

    Parameters
    ----------
    events : sequence of (sampling_rate, noise_multiplier, count)
        Rates are in [0, 1], noise multipliers > 0, and counts whole and >= 0; without a count it is 1. A group of k
        samples is ``(1, sigma / k, n)``, replaced instead of removed samples without sampling ``(1, sigma / 2, n)``,
        and a Gaussian matrix mechanism of sensitivity s ``(1, sigma / s, 1)``.
    delta : float, in (0, 1)

    Examples
    --------
    >>> float(epsilon([(0.01, 1.0, 500), (0.02, 1.5, 500)], delta=1e-5))  # the upper bound
    1.898...
    >>> float(epsilon([(1, 40.0 / 2, 100)], delta=1e-5))  # for a group of two, or one replaced sample
    1.993...
    """
    return epsilon_interval(
        compose_events(events).to_rounds(), check.fraction("delta", delta)
    )


def delta(events: Events, epsilon: float) -> CertifiedInterval:
    r"""Compute :math:`\delta` at :math:`\varepsilon \ge 0`, between proven bounds; see :func:`epsilon`."""
    return delta_interval(
        compose_events(events).to_rounds(), check.number("epsilon", epsilon, 0.0)
    )


def advantage(events: Events) -> CertifiedInterval:
    r"""Compute the largest true minus false positive rate of a test for a sample, :math:`\delta(0)`."""
    return delta(events, 0.0)


@overload
def beta(events: Events, alpha: float) -> CertifiedInterval: ...


@overload
def beta(
    events: Events, alpha: Sequence[float] | FloatArray
) -> NDArray[np.object_]: ...


def beta(events: Events, alpha: ArrayLike) -> CertifiedInterval | NDArray[np.object_]:
    r"""Compute the smallest miss rate of a test with false-alarm rate :math:`\alpha`, between proven bounds.

    .. math::
        \beta(\alpha) = \sup_{\varepsilon \ge 0} \max\big\{0,\; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha,\;
        e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\big\}

    Parameters
    ----------
    events
        As in :func:`epsilon`.
    alpha : array_like, in [0, 1]
        With many, the trade-off curve: an array of intervals, whose ``astype(float)`` are the lower bounds.

    Examples
    --------
    >>> beta([(0.01, 1.0, 1000)], alpha=[0.01, 0.1]).astype(float)
    array([0.970..., 0.805...])
    """
    rates = check.between("alpha", alpha, 0.0, 1.0)
    curve = _Curve(compose_events(events).to_rounds())
    intervals = np.array([curve.miss_rate(rate) for rate in rates.ravel().tolist()])
    return intervals.reshape(rates.shape) if rates.ndim else intervals[0]


class _Curve:
    """Proven points of m(k) = 1 - delta(ln k), which is concave with m(k) = k m(1 / k)."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.points: list[tuple[float, ...]] = [(0.0, 0.0, 0.0, 0.0)]
        self.proofs = {0.0: "exact"}
        self.add(0.0)

    def add(self, log_k: float) -> None:
        """Evaluate delta, which gives the points at k and 1 / k."""
        interval = delta_interval(self.rounds, abs(log_k))
        values = (interval.upper, interval.lower, interval.estimate)
        for k in {math.exp(log_k), math.exp(-log_k)}:
            self.points.append((k, *(min(k, 1.0) * (1 - value) for value in values)))
            self.proofs[k] = interval.ends[1]

    def miss_rate(self, alpha: float) -> CertifiedInterval:
        """Bound the supremum of m(k) - alpha k over k > 0, and add points until the bounds are near."""
        if alpha == 0 and math.exp(_LARGEST) not in self.proofs:
            self.add(_LARGEST)
        last = len(self.points) + _MOST_POINTS
        while True:
            k, lower, upper, value = np.array(sorted(self.points)).T
            proven = lower - alpha * k - 8 * ULP * (lower + alpha * k)
            best = int(proven.argmax())
            high, top = _concave_maximum(k, lower, upper, alpha)
            near = _TOLERANCE * min(high, 1 - proven[best])
            near = max(near, 1.5 * (upper[best] - lower[best]))
            if high - proven[best] <= near or len(self.points) > last:
                break
            top = min(max(top, -_LARGEST), _LARGEST)
            if math.isnan(top) or math.exp(top) in self.proofs:
                break
            self.add(top)
        low = max(float(proven[best]), 0.0)
        high = min(high, 1 - alpha)  # a test that guesses misses 1 - alpha
        estimate = min(max(float((value - alpha * k).max()), low), high)
        ends = self.proofs[float(k[best])], "concavity"
        return CertifiedInterval(low, high, ends, "both", estimate, low)


def _concave_maximum(
    k: FloatArray, lower: FloatArray, upper: FloatArray, alpha: float
) -> tuple[float, float]:
    """Bound the maximum of m(k) - alpha k from above; return also ln of its k, or NaN if that is one of the points.

    As m is concave, it lies below lines through the upper bounds at both ends of an interval, whose slopes are
    bounded by the points beyond them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (upper[:, None] - lower) / (k[:, None] - k)
    is_before = np.tri(k.size, k=-1, dtype=bool)
    rise = np.where(is_before, slopes, 1.0).min(axis=1)  # m is at most 1
    fall = np.where(is_before.T, slopes, 0.0).max(axis=1)[1:]
    # of every interval its ends, and where both lines meet
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = k[:-1] + (np.diff(upper) - fall * np.diff(k)) / (rise[:-1] - fall)
    meet = np.where(rise[:-1] > fall, np.clip(meet, k[:-1], k[1:]), k[:-1])
    x = np.array([k[:-1], meet, k[1:]])
    from_left = upper[:-1] + rise[:-1] * (x - k[:-1])
    from_right = upper[1:] - fall * (k[1:] - x)
    x = x.ravel()
    bound = np.minimum(from_left, from_right).ravel()
    # beyond the last point
    last = k[-1]
    if rise[-1] > alpha:
        last += (1 - upper[-1]) / rise[-1]
    x = np.append(x, last)
    bound = np.append(bound, upper[-1] + rise[-1] * (last - k[-1])) - alpha * x
    bound += 16 * ULP * (np.abs(bound) + 2 * alpha * x)
    best = int(bound.argmax())
    is_point = bool((k == x[best]).any())
    return float(bound[best]), math.nan if is_point else math.log(x[best])


@dataclass(frozen=True)
class Calibrated:
    """The noise multipliers of :func:`calibrate`.

    Parameters
    ----------
    scale : float
        The common factor of the noise multipliers.
    noise_multiplier : tuple of float
        The noise multiplier of each event.
    epsilon : CertifiedInterval
        Epsilon with these; its upper bound is at most the target.
    """

    scale: float
    noise_multiplier: tuple[float, ...]
    epsilon: CertifiedInterval


def calibrate(
    events: Events, epsilon: float, delta: float, fixed: Events = ()
) -> Calibrated:
    r"""Find the least common factor of all noise multipliers with an :math:`\varepsilon` of at most the target.

    The upper bound of :math:`\varepsilon` is at most ``epsilon`` and at least 0.999 of it, unless even the least noise
    multiplier, 1e-6, leaks less than that.

    Parameters
    ----------
    events
        As in :func:`epsilon`; if all noise multipliers are 1, ``scale`` is the noise multiplier.
    epsilon : float, > 0
    delta : float, in (0, 1)
    fixed : events, optional
        Events that are also released and keep their noise, such as a phase of the training that is over.

    Warns
    -----
    UserWarning
        If no noise is needed.

    Examples
    --------
    >>> calibrate([(0.01, 1.0, 1000)], epsilon=1.0, delta=1e-5).scale
    1.41...
    >>> calibrate([(0.01, 1.0, 500)], epsilon=1.0, delta=1e-5, fixed=[(0.01, 1.5, 500)]).scale
    1.349...
    """
    varied, held, delta, variance = _to_target(events, fixed, epsilon, delta)
    # x is the logarithm of the factor
    low = math.log(LEAST_NOISE / varied.sigma.min())
    high = math.log(MOST_NOISE / varied.sigma.max())

    def rounds(x: float) -> Rounds:
        return varied.scale_noise(math.exp(x)).join(held).to_rounds()

    def too_much(x: float) -> float:
        scaled = varied.scale_noise(math.exp(x))
        return math.log(scaled.variance + 1e-300) - math.log(variance)

    def roughly(x: float) -> float:
        tilts = scan_tilts(rounds(x), ADD, math.log(delta))
        return rough_epsilon(rounds(x), tilts, delta)

    proven = cache(lambda x: epsilon_interval(rounds(x), delta))
    x = solve(too_much, low, high, 1e-3)
    slope = -1.5
    with contextlib.suppress(ArithmeticError), np.errstate(all="ignore"):
        # smoothing raises it by a thousandth
        x, slope = _by_secants(roughly, 1.0012 * epsilon, x, low, high, slope, 8)
    x, _ = _by_secants(lambda x: proven(x).upper, epsilon, x, low, high, slope, 200)
    scale = math.exp(x)
    if x - low < 1e-9:
        warnings.warn(
            f"the least noise multiplier, {LEAST_NOISE:g}, has epsilon {proven(x)}; "
            "a sample is hardly ever used, compared with delta",
            stacklevel=2,
        )
    return Calibrated(scale, tuple((scale * varied.sigma).tolist()), proven(x))


@dataclass(frozen=True)
class LargestCount:
    """How often events can be repeated, and epsilon with these repetitions; its upper bound is at most the target."""

    count: int
    epsilon: CertifiedInterval


def largest_count(
    events: Events, epsilon: float, delta: float, fixed: Events = ()
) -> LargestCount:
    r"""Find the largest number of repetitions of events with a proven :math:`\varepsilon` of at most the target.

    Once more is not proven to exceed the target, but its upper bound does. The parameters are those of
    :func:`calibrate`.

    Examples
    --------
    How many steps are left until 2, after 500 steps with other noise?

    >>> largest_count([(0.01, 1.0)], epsilon=2.0, delta=1e-5, fixed=[(0.01, 1.5, 500)]).count
    1060
    """
    once, held, delta, variance = _to_target(events, fixed, epsilon, delta)
    most = int(MOST_ROUNDS / once.number.max())

    @cache
    def proven(n: int) -> CertifiedInterval:
        return epsilon_interval(once.repeat(n).join(held).to_rounds(), delta)

    low = 0
    high = most + 1
    n = int(min(max(variance / once.variance, 1.0), most))
    while high - low > 1:
        low, high = (n, high) if proven(n).upper <= epsilon else (low, n)
        n = min(2 * n, most)
        if high <= most:
            ends = proven(low).upper, proven(high).upper
            share = (epsilon - ends[0]) / (ends[1] - ends[0])
            inner = round((high - low) * min(max(share, 0.1), 0.9))
            n = low + min(max(inner, 1), max(high - low - 1, 1))
    return LargestCount(low, proven(low))


def _to_target(
    events: Events, fixed: Events, epsilon: float, delta: float
) -> tuple[Composition, Composition, float, float]:
    """Return the events, what is fixed, delta, and the variance that both leave by the central limit theorem."""
    varied = compose_events(events)
    held = compose_events(fixed)
    delta = check.fraction("delta", delta)
    target = check.number("epsilon", epsilon, 1e-300)
    if varied.discrete or not (varied.rate * varied.number > 0).any():
        expected = (
            "Gaussian mechanisms, at least one of them with a rate and a count above 0"
        )
        got = "discrete losses" if varied.discrete else shown(events)
        raise InvalidInput(f"events must be {expected}, got {got}", "events")
    spent = epsilon_interval(held.to_rounds(), delta)
    if spent.upper >= target:
        raise InvalidInput(
            f"epsilon of fixed must be below the target, {target:g}, got {spent}",
            "fixed",
        )
    root = math.sqrt(-2 * math.log(delta))
    mu = target / (0.5 * root + math.sqrt(0.25 * root**2 + 0.5 * target))
    return varied, held, delta, max(mu * mu - held.variance, 1e-3 * mu * mu)


def _by_secants(
    function: Callable[[float], float],
    target: float,
    x: float,
    low: float,
    high: float,
    slope: float,
    most: int,
) -> tuple[float, float]:
    """Find where a function is the target or less, by the secant of logarithms; return the slope as well."""
    value = last = math.nan
    for _ in range(most):
        if high - low <= 1e-12 * max(abs(x), 1.0):
            return high, slope
        before = value
        value = math.log(max(function(x), 1e-300) / target) + 0.5 * _TOLERANCE
        if abs(value) <= 0.5 * _TOLERANCE:
            break
        low, high = (x, high) if value > 0 else (low, x)
        secant = (value - before) / (x - last)
        if -20.0 < secant < -0.1:
            slope = secant
        last = x
        x = x + min(max(-value / slope, -2.0), 2.0)
        if not low < x < high:
            x = 0.5 * (low + high)
    return x, slope
