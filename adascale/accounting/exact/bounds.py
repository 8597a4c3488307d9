"""Proven bounds on delta in closed form or by real moments, where an inversion is not enough (:ref:`app-exact`)."""

import contextlib
import math
from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
from scipy.special import erf

from adascale.accounting.exact import discrete, gaussian
from adascale.accounting.exact.inversion import (
    DIRECTIONS,
    chernoff_offset,
    gaussian_log_moment,
    lost_in,
    moments_at,
    scan_tilts,
)
from adascale.accounting.exact.rounds import Rounds
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

Bound = Callable[[float], float]
"""A function of epsilon that bounds delta from one side."""
_SAFE = 1e-9  # relative margin for the rounding of closed forms


def total_variation(rounds: Rounds) -> float:
    """Bound the total variation delta(0) between both outputs, by that of each round or by chi-squared."""
    apart = math.erf(math.sqrt(rounds.gaussian / 8)), discrete.apart(rounds)
    log_equal = float(np.log1p(-np.array(apart)).sum())
    divergence = math.inf if rounds.atoms else rounds.gaussian
    for q, u, n in rounds.by_rate():
        log_equal += float((n * np.log1p(-q * erf(np.sqrt(u / 8)))).sum())
        growth = q * q * np.expm1(np.minimum(u, 700.0))
        divergence += float((n * np.log1p(growth)).sum())
    total = -math.expm1(log_equal)
    if divergence < 1e-280:  # it may have lost all its digits
        return total * (1 + 1e-9)
    return min(total, math.sqrt(-math.expm1(-divergence - 1e-290))) * (1 + 1e-9)


def all_bounds(
    rounds: Rounds, log_delta: float | None, epsilon: float
) -> tuple[list[tuple[str, tuple[str, ...], Bound]], list[tuple[str, Bound]]]:
    """Return the upper bounds, each with the directions for which it holds, and the lower bounds."""
    kinds, energy = rounds.kinds, rounds.gaussian
    lowers: list[tuple[str, Bound]] = [("Gaussian", partial(_gaussian, energy, 1))]
    uppers: list[tuple[str, tuple[str, ...], Bound]] = []
    if not rounds.atoms:
        energy += sum(u * n for _, u, n in kinds)
        uppers += [("Gaussian", DIRECTIONS, partial(_gaussian, energy, 2))]
    if kinds:
        lowers += [("one round", partial(_one_round, kinds))]
    for direction in DIRECTIONS:
        with contextlib.suppress(ArithmeticError):
            tilt = scan_tilts(rounds, direction, log_delta, epsilon).tilt
            low, high = _log_moments(rounds, direction, tilt)
            lost = lost_in(rounds, direction)
            uppers += [("Renyi", (direction,), partial(_renyi, tilt, high, lost))]
            lowers += [("tilted", _tilted(tilt, low, high))]
    return uppers, lowers


def _gaussian(energy: float, side: int, epsilon: float) -> float:
    """Bound delta by that of all rounds without sampling, or of those that have none; side 1 is below, 2 above."""
    margin = _SAFE if side == 2 else -_SAFE
    return float(gaussian.delta(energy * (1 + margin), epsilon)[side])


def _one_round(kinds: list[tuple[float, float, float]], epsilon: float) -> float:
    """Bound delta from below by that of the round that leaks most."""
    return max(
        gaussian.sampled_delta(q, u * (1 - _SAFE), epsilon)[1] for q, u, _ in kinds
    )


def _log_moments(
    rounds: Rounds, direction: str, tilt: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound ln G at every tilt from both sides."""
    low, high = np.full(tilt.size, -math.inf), np.full(tilt.size, math.inf)
    for i, a in enumerate(tilt.tolist()):
        with contextlib.suppress(CannotCertify):
            line = moments_at(rounds, direction, a, 1.0, 1, 27.0)
            if line.error < 1:
                middle = line.log_moment + gaussian_log_moment(rounds.gaussian, a)
                off = line.error + 1e-13 * (abs(middle) + 1)
                low[i], high[i] = middle - off, middle + off
    return low, high


def _renyi(
    tilt: FloatArray, log_moment: FloatArray, lost: float, epsilon: float
) -> float:
    """Bound delta by the best Chernoff bound, and by what is lost."""
    rounding = 1e-13 * (tilt * epsilon + 10)
    log_bound = log_moment + chernoff_offset(tilt) - tilt * epsilon + rounding
    return min(math.exp(min(float(log_bound.min()), 0.0)) + lost, 1.0)


def _tilted(tilt: FloatArray, low: FloatArray, high: FloatArray) -> Bound:
    """Bound the mass between two losses under the tilted distribution by Chernoff's bounds at both neighbours."""
    i, j, k = np.array(list(combinations(range(tilt.size), 3))).T
    with np.errstate(invalid="ignore"):
        first = (low[j] - high[i] - math.log(4)) / (tilt[j] - tilt[i])
        first = first * (1 - 1e-12) - 1e-300
        last = (high[k] - low[j] + math.log(4)) / (tilt[k] - tilt[j]) * (1 + 1e-12)
    finite = np.isfinite(first) & np.isfinite(last)
    first, last = first[finite], last[finite]
    a, moment = tilt[j][finite], low[j][finite]

    def bound(epsilon: float) -> float:
        beyond = (first > epsilon) & (last > epsilon)
        if not beyond.any():
            return 0.0
        ends = [
            -a[beyond] * loss
            + np.log(-np.expm1(epsilon - loss))
            - 1e-12 * (a[beyond] * loss + 1)
            for loss in (first[beyond], last[beyond])
        ]
        log_bound = float((moment[beyond] + np.minimum(*ends)).max())
        return 0.5 * math.exp(min(log_bound, 0.0)) * (1 - _SAFE)

    return bound
