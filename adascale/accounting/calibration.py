"""The least noise and the most repetitions whose epsilon is proven to be at most a target."""

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from adascale import checks as check
from adascale.accounting.events import (
    LEAST_NOISE,
    MOST_NOISE,
    MOST_ROUNDS,
    Composition,
    Events,
    compose_events,
)
from adascale.accounting.exact.certify import epsilon_interval
from adascale.accounting.exact.inversion import scan_tilts
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.sums import rough_epsilon
from adascale.accounting.interval import ADD, CertifiedInterval
from adascale.errors import InvalidInput
from adascale.rootfind import solve
from adascale.text import shown

_TOLERANCE = 1e-3  # relative, of epsilon


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
        As in :func:`~adascale.accounting.epsilon`; if all noise multipliers are 1, ``scale`` is the noise multiplier.
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
        scaled = varied.scale_noise(math.exp(x)).to_rounds()
        return math.log(scaled.variance + 1e-300) - math.log(variance)

    def roughly(x: float) -> float:
        tilts = scan_tilts(rounds(x), ADD, math.log(delta))
        return rough_epsilon(rounds(x), tilts, delta)

    proven = cache(lambda x: epsilon_interval(rounds(x), delta))
    x = solve(too_much, low, high, 1e-3)
    slope = -1.5
    with contextlib.suppress(ArithmeticError), np.errstate(all="ignore"):
        # smoothing raises epsilon by a thousandth
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
    How many steps remain until epsilon reaches 2, after 500 steps with other noise?

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
    n = int(min(max(variance / once.to_rounds().variance, 1.0), most))
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
    held_rounds = held.to_rounds()
    spent = epsilon_interval(held_rounds, delta)
    if spent.upper >= target:
        raise InvalidInput(
            f"epsilon of fixed must be below the target, {target:g}, got {spent}",
            "fixed",
        )
    root = math.sqrt(-2 * math.log(delta))
    mu = target / (0.5 * root + math.sqrt(0.25 * root**2 + 0.5 * target))
    return varied, held, delta, max(mu * mu - held_rounds.variance, 1e-3 * mu * mu)


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
