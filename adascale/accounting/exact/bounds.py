"""Proven bounds on delta in closed form or by real moments, where an inversion is not enough (:ref:`app-exact`)."""

import contextlib
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import erf

from adascale.accounting.exact import discrete, gaussian
from adascale.accounting.exact.inversion import (
    DIRECTIONS,
    chernoff_offset,
    gaussian_log_moment,
    lost_in,
    proven_log_moment_at,
    scan_tilts,
)
from adascale.accounting.exact.rounds import Rounds
from adascale.checks import FloatArray

Bound = Callable[[float], float]
"""A function of epsilon that bounds delta from one side."""
_SAFE = 1e-9  # relative margin for the rounding of closed forms


def total_variation(rounds: Rounds) -> float:
    """Bound the total variation delta(0) between both outputs, by that of each round."""
    apart = math.erf(math.sqrt(rounds.gaussian / 8)), discrete.apart(rounds)
    log_equal = float(np.log1p(-np.array(apart)).sum())
    for q, u, n in rounds.by_rate():
        log_equal += float((n * np.log1p(-q * erf(np.sqrt(u / 8)))).sum())
    return -math.expm1(log_equal) * (1 + 1e-9)


def all_bounds(
    rounds: Rounds, log_delta: float | None, epsilon: float
) -> tuple[list[tuple[str, tuple[str, ...], Bound]], list[tuple[str, Bound]]]:
    """Return the upper bounds, each with the directions for which it holds, and the lower bounds."""
    energy = rounds.gaussian
    lowers: list[tuple[str, Bound]] = [("Gaussian", partial(_gaussian, energy, 1))]
    uppers: list[tuple[str, tuple[str, ...], Bound]] = []
    if not rounds.atoms:
        energy += sum(u * n for _, u, n in rounds.kinds)
        uppers.append(("Gaussian", DIRECTIONS, partial(_gaussian, energy, 2)))
    if rounds.rates:
        lowers.append(("one round", partial(one_round, rounds)))
    for direction in DIRECTIONS:
        with contextlib.suppress(ArithmeticError):
            tilt = scan_tilts(rounds, direction, log_delta, epsilon).tilt
            proven = [proven_log_moment_at(rounds, direction, a) for a in tilt.tolist()]
            log_moment = proven + gaussian_log_moment(rounds.gaussian, tilt)
            lost = lost_in(rounds, direction)
            bound = partial(_renyi, tilt, log_moment, lost)
            uppers.append(("Renyi", (direction,), bound))
    return uppers, lowers


def _gaussian(energy: float, side: int, epsilon: float) -> float:
    """Bound delta by that of all rounds without sampling, or of those that have none; side 1 is below, 2 above."""
    margin = _SAFE if side == 2 else -_SAFE
    return float(gaussian.delta(energy * (1 + margin), epsilon)[side])


def one_round(rounds: Rounds, epsilon: float) -> float:
    """Bound delta from below by that of the sampled round that leaks most; it has the least noise at its rate."""
    return max(
        gaussian.sampled_delta(q, float(u[-1]) * (1 - _SAFE), epsilon)[1]
        for q, u, _ in rounds.by_rate()
    )


def _renyi(
    tilt: FloatArray, log_moment: FloatArray, lost: float, epsilon: float
) -> float:
    """Bound delta by the best Chernoff bound, and by what is lost."""
    rounding = 1e-13 * (np.abs(log_moment) + tilt * epsilon + 10)
    log_bound = log_moment + chernoff_offset(tilt) - tilt * epsilon + rounding
    return min(math.exp(min(float(log_bound.min()), 0.0)) + lost, 1.0)
