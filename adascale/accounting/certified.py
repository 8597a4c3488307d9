"""Certified intervals of events: epsilon, delta, calibration and trade-off curve."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from adascale import checks as check
from adascale.accounting.events import (
    LEAST_NOISE,
    MOST_NOISE,
    Events,
    compose_events,
    schedule,
)
from adascale.accounting.exact.certify import delta_interval, epsilon_interval
from adascale.accounting.exact.inversion import ADD, look
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.search import about
from adascale.accounting.interval import CertifiedInterval
from adascale.checks import FloatArray
from adascale.errors import InvalidInput
from adascale.rootfind import solve

_TOLERANCE = 1e-3  # relative, of calibrate and beta
_LARGEST = 700.0  # largest epsilon of a point of the trade-off curve, as e^epsilon overflows beyond
_MOST_POINTS = 24  # of the trade-off curve


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
        compose_events(events).rounds(), check.fraction("delta", delta)
    )


def delta(events: Events, epsilon: float) -> CertifiedInterval:
    r"""Compute :math:`\delta` at :math:`\varepsilon \ge 0`, between proven bounds; see :func:`epsilon`."""
    return delta_interval(
        compose_events(events).rounds(), check.number("epsilon", epsilon, 0.0)
    )


def advantage(events: Events) -> CertifiedInterval:
    r"""Compute the largest true minus false positive rate of a test for a sample, :math:`\delta(0)`."""
    return delta(events, 0.0)


def beta(events: Events, alpha: float) -> CertifiedInterval:
    r"""Compute the smallest miss rate of a test with false-alarm rate :math:`\alpha`, between proven bounds.

    .. math::
        \beta(\alpha) = \sup_{\varepsilon \ge 0} \max\big\{0,\; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha,\;
        e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\big\}

    Parameters
    ----------
    events
        As in :func:`epsilon`.
    alpha : float, in [0, 1]
    """
    rounds, alpha = (
        compose_events(events).rounds(),
        check.number("alpha", alpha, 0.0, 1.0),
    )
    # m(k) = 1 - delta(ln k) is concave with m(k) = k m(1 / k); the supremum is that of m(k) - alpha k over k > 0
    points, proofs, t, guess = [(0.0, 0.0, 0.0, 0.0)], {0.0: "exact"}, 0.0, None
    while True:
        found = delta_interval(rounds, abs(t))
        for each in {math.exp(t), math.exp(-t)}:
            scale = min(each, 1.0)
            points.append(
                (
                    each,
                    scale * (1 - found.upper),
                    scale * (1 - found.lower),
                    scale * (1 - found.estimate),
                )
            )
            proofs[each] = found.ends[1]
        k, lower, upper, value = np.array(sorted(points)).T
        least = lower - alpha * k - 8 * ULP * (lower + alpha * k)
        best = int(least.argmax())
        most, after = _most(k, lower, upper, alpha)
        wanted = max(
            _TOLERANCE * min(most, 1 - least[best]), 1.5 * (upper[best] - lower[best])
        )
        if most - least[best] <= wanted or len(points) > _MOST_POINTS:
            break
        guess = guess or _Guess(found.estimate, alpha)
        t = min(max(guess.next(k, value, best, after), -_LARGEST), _LARGEST)
        if not np.abs(k / math.exp(t) - 1).min() > 1e-9:
            break
    low, most = (
        max(float(least[best]), 0.0),
        min(most, 1 - alpha),
    )  # a test that guesses misses 1 - alpha
    middle = float((value - alpha * k).max())
    return CertifiedInterval(
        low,
        most,
        (proofs[float(k[best])], "concavity"),
        "both",
        min(max(middle, low), most),
        low,
    )


class _Guess:
    """Where to evaluate delta next, from the Gaussian mechanism of the same advantage."""

    def __init__(self, advantage: float, alpha: float) -> None:
        half, self.z = (
            -float(ndtri(min(max(p, 1e-16), 1 - 1e-16)))
            for p in (0.5 * (1 - advantage), alpha)
        )
        self.mu, rest = max(2 * half, 1e-6), self.z - 2 * half
        miss = min(float(ndtr(rest)), float(ndtr(-rest)))
        density = math.exp(-0.5 * rest * rest) / math.sqrt(2 * math.pi)
        self.first: float | None = self.mu * (self.z - half)
        self.step = min(
            math.sqrt(2 * _TOLERANCE * miss * self.mu / density), 1.0
        )  # of the tolerance by the curvature

    def next(self, k: FloatArray, value: FloatArray, best: int, after: float) -> float:
        """Try the guess, where the slope may be alpha, a point on either side of the best one, and ``after``."""
        if self.first is not None:
            t, self.first = self.first, None
            return t
        if best == 0:
            return after
        logs: list[float] = [*np.log(np.maximum(k, 1e-307)).tolist(), math.inf]
        below, t, above = logs[best - 1 : best + 2]
        other = best + 1 if above - t < t - below else best - 1
        if abs(logs[other] - t) < 1.5 * self.step:
            slope = float(
                (value[other] - value[best]) / (k[other] - k[best])
            )  # the false-alarm rate between the two
            newton = 0.5 * (logs[other] + t) + self.mu * (
                self.z + float(ndtri(min(max(slope, 1e-16), 1 - 1e-16)))
            )
            if min(abs(each - newton) for each in logs) > 2 * self.step:
                return newton
        if above - t > 1.5 * self.step:
            return t + self.step
        return t - self.step if t - below > 1.5 * self.step else after


def _most(
    k: FloatArray, lower: FloatArray, upper: FloatArray, alpha: float
) -> tuple[float, float]:
    """Bound the maximum of m(k) - alpha k from above by concavity; return also ln k of the next point, or NaN."""
    most, after = 0.0, math.nan
    for i in range(k.size):
        # lines through the upper bounds at both ends, with slopes that are bounded by the points beyond them
        left = min([1.0, *((upper[i] - lower[:i]) / (k[i] - k[:i]))])
        if i + 1 == k.size:  # m is at most 1
            x = k[i] + ((1 - upper[i]) / left if left > alpha else 0.0)
            bounds = [(upper[i] + left * (x - k[i]) - alpha * x, x)]
        else:
            j = i + 1
            right = max([0.0, *((lower[j + 1 :] - upper[j]) / (k[j + 1 :] - k[j]))])
            x = (
                k[i] + (upper[j] - upper[i] - right * (k[j] - k[i])) / (left - right)
                if left > right
                else k[i]
            )
            tried = k[i], min(max(x, k[i]), k[j]), k[j]
            bounds = [
                (
                    min(upper[i] + left * (x - k[i]), upper[j] - right * (k[j] - x))
                    - alpha * x,
                    x,
                )
                for x in tried
            ]
        bound, x = max(bounds)
        bound += 16 * ULP * (abs(bound) + 2 * alpha * x)
        if bound > most:
            most, after = float(bound), math.log(x) if x not in k else math.nan
    return most, after


def trade_off(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, alpha: ArrayLike
) -> FloatArray:
    r"""Bound the miss rate :math:`\beta` of every test with false-alarm rate :math:`\alpha` from below.

    It is the supremum of :func:`beta` over 48 values of :math:`\varepsilon`, which are the same for every rate.

    Parameters
    ----------
    sampling_rate, noise_multiplier
        As in :func:`~adascale.accounting.exact_epsilon`.
    alpha : array_like, in [0, 1]
    """
    rate = check.between("alpha", alpha, 0.0, 1.0)
    rounds = compose_events(schedule(sampling_rate, noise_multiplier)).rounds()
    end = epsilon_interval(rounds, 1e-8).upper
    best = np.zeros(rate.shape)
    for at in (
        np.linspace(0.0, end, 48) if end > 0 else (0.0,)
    ):  # every choice gives a valid bound
        left = 1 - delta_interval(rounds, float(at)).upper
        best = np.maximum(
            best, np.maximum(left - math.exp(at) * rate, math.exp(-at) * (left - rate))
        )
    return best


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


def calibrate(events: Events, epsilon: float, delta: float) -> Calibrated:
    r"""Find the least common factor of all noise multipliers with an :math:`\varepsilon` of at most the target.

    The upper bound of :math:`\varepsilon` is at most ``epsilon`` and at least 0.999 of it, unless even the least noise
    multiplier, 1e-6, leaks less than that.

    Parameters
    ----------
    events
        As in :func:`epsilon`; if all noise multipliers are 1, ``scale`` is the noise multiplier.
    epsilon : float, > 0
    delta : float, in (0, 1)

    Examples
    --------
    >>> calibrate([(0.01, 1.0, 1000)], epsilon=1.0, delta=1e-5).scale
    1.41...
    """
    given, delta = compose_events(events), check.fraction("delta", delta)
    target = check.number("epsilon", epsilon, 1e-300)
    if given.discrete or not (given.rate * given.number > 0).any():
        expected = "sampled Gaussian mechanisms, at least one, as others have no noise"
        raise InvalidInput(f"events must be {expected}", "events")
    # logarithms of the factor: the ends of the search, and a first one, by the central limit theorem
    low, high = (
        math.log(LEAST_NOISE / given.sigma.min()),
        math.log(MOST_NOISE / given.sigma.max()),
    )
    root = math.sqrt(-2 * math.log(delta))
    log_mu = math.log(target / (0.5 * root + math.sqrt(0.25 * root**2 + 0.5 * target)))

    def too_much(x: float) -> float:
        u = np.exp(min(-2 * x, _LARGEST)) * given.sigma**-2.0
        each = np.minimum(given.rate**2 * np.expm1(np.minimum(u, _LARGEST)), u)
        return math.log(float((given.number * each).sum()) + 1e-300) - 2 * log_mu

    def roughly(x: float) -> float:
        rounds = given.rounds(math.exp(x))
        return about(rounds, look(rounds, ADD, math.log(delta)), delta)

    proven = cache(lambda x: epsilon_interval(given.rounds(math.exp(x)), delta))
    x, slope = solve(too_much, low, high, 1e-3), -1.5
    with contextlib.suppress(ArithmeticError), np.errstate(all="ignore"):
        x, slope = _search(
            roughly, 1.0012 * target, x, low, high, slope, 8
        )  # smoothing raises it by a thousandth
    x, _ = _search(lambda x: proven(x).upper, target, x, low, high, slope, 200)
    scale = math.exp(x)
    return Calibrated(scale, tuple((scale * given.sigma).tolist()), proven(x))


def _search(
    of: Callable[[float], float],
    target: float,
    x: float,
    low: float,
    high: float,
    slope: float,
    most: int,
) -> tuple[float, float]:
    """Find where the function is the target or less, by the secant of logarithms; return the slope as well."""
    value = last = math.nan
    for _ in range(most):
        if high - low <= 1e-12 * max(abs(x), 1.0):
            return high, slope
        before, value = value, math.log(max(of(x), 1e-300) / target) + 0.5 * _TOLERANCE
        if abs(value) <= 0.5 * _TOLERANCE:
            break
        low, high = (x, high) if value > 0 else (low, x)
        if -20.0 < (found := (value - before) / (x - last)) < -0.1:
            slope = found
        last, x = x, x + min(max(-value / slope, -2.0), 2.0)
        if not low < x < high:
            x = 0.5 * (low + high)
    return x, slope
