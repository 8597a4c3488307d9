"""Sums on the line: converged ones, whose root is epsilon without proof, and smoothed ones, which prove bounds."""

import contextlib
import math
from collections.abc import Callable
from functools import cache

import numpy as np

from adascale.accounting.exact.inversion import (
    Inversion,
    Tilts,
    choose_line,
    gaussian_log_moment,
    largest_smoothing,
    log_chernoff,
    proven_log_moment_at,
    scan_tilts,
)
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.interval import ADD, DIRECTIONS, REMOVE, WIDEST
from adascale.errors import CannotCertify, RoundingFloor
from adascale.rootfind import solve

Bounding = tuple[Rounds, ...]
"""A schedule alone, or discrete rounds that leak less, and others that leak more."""
_LOG_ALIASES = math.log(1e-7)  # of a sum without proof, relative to delta
_ACCURACY = 20.0  # -ln of its interpolation error
_MOST_POINTS = 600  # on the line, after which a sum that has not converged is smoothed
_LOG_PROVEN_ALIASES = math.log(1e-6)  # in the bounds, relative to delta
_PROVEN_ACCURACY = 27.0  # -ln of the interpolation error
_MOST_STEPS = 100  # each twice as long as the one before: from 1e-6 to 1e24
_FLOOR = math.log(0.9)  # ln of the largest other error of a sum, relative to delta


def converged_sum(
    rounds: Rounds, tilts: Tilts, low: float, high: float, log_delta: float, tau: float
) -> Inversion:
    """Find a converged sum for these epsilons, smoothed by ``tau``; without smoothing, raise an error if it is slow."""
    line = choose_line(tilts, low, high, log_delta, _LOG_ALIASES)
    tilt = line.tilt
    step = 2 * math.pi / line.period
    log_size = log_delta + _LOG_ALIASES
    if tau:
        lead = tilts.log_size(tilt, low) - log_size
        lead += gaussian_log_moment(tau * tau, tilt)
        count = int(math.sqrt(2 * max(lead, 2.0)) / tau / step) + 2
        return Inversion(rounds, tilts.direction, line, count, tau, _ACCURACY)
    count = int(math.sqrt(2 * 20 / line.curvature) / step) + 12
    while count < _MOST_POINTS:
        plain = Inversion(rounds, tilts.direction, line, count, 0.0, _ACCURACY)
        with np.errstate(divide="ignore"):  # the last terms may be zero
            last = np.log(np.abs(plain.terms[-3:]).max() * count * step)
        if last < log_size + tilt * low - plain.log_moment:
            return plain
        count = int(1.6 * count)
    raise CannotCertify("the plain sum is slow to converge")


def sharp_in_direction(rounds: Rounds, tilts: Tilts, delta: float) -> float:
    """Compute the sharp epsilon in one direction, from two smoothed sums if the plain one is slow to converge."""
    try:
        return _root(rounds, tilts, delta, 0.0, (0.8, 0.55, 0.3, 0.0))
    except CannotCertify:
        rough = rough_epsilon(rounds, tilts, delta, 1.0)
        try:
            finer = rough_epsilon(rounds, tilts, delta, 0.5)
        except CannotCertify:
            return rough
        # the effect of smoothing grows with its square
        return max(finer + (finer - rough) / 3, 0.0)


def rough_epsilon(
    rounds: Rounds, tilts: Tilts, delta: float, share: float = 1.0
) -> float:
    """Find epsilon in one direction by one sum, whose smoothing, times a share, raises it by about a thousandth."""
    slope = tilts.best(tilts.renyi_epsilon)
    tau = min(
        math.sqrt(0.002 * max(tilts.renyi_epsilon, 0.01 / slope) / slope),
        largest_smoothing(max(tilts.renyi_epsilon, 0.0), slope),
    )
    return _root(rounds, tilts, delta, share * tau, (0.2, 0.0))


def _root(
    rounds: Rounds, tilts: Tilts, delta: float, tau: float, parts: tuple[float, ...]
) -> float:
    """Find where the sum equals delta, above the first part of the Renyi value that will do; return 0 if below 0."""
    # the Renyi value is too large by a few over the tilt; the thinned rounds approximate it within one per cent
    top = max(tilts.renyi_epsilon, 0.0)
    high = 1.02 * top
    for part in parts:
        low = max(part * top, top - 10.0 / tilts.best(top)) if part else 0.0
        total = converged_sum(rounds, tilts, low, high, math.log(delta), tau)
        if total.value(low) > delta:
            break
    else:
        return 0.0
    if total.value(high) > delta:
        raise CannotCertify("the sum does not converge")
    return solve(lambda epsilon: float(total.value(epsilon)) - delta, low, high)


def sharp(rounds: Rounds, delta: float) -> dict[str, float]:
    """Compute the sharp epsilon of each direction that can determine it."""
    rest = {name: delta - rounds.infinite_mass(name) for name in DIRECTIONS}
    tilts = scan_tilts(rounds, ADD, math.log(rest[ADD]))
    epsilons = {ADD: sharp_in_direction(rounds, tilts, rest[ADD])}
    if rounds.largest_loss > epsilons[ADD]:
        tilts = scan_tilts(rounds, REMOVE, math.log(rest[REMOVE]))
        if tilts.renyi_epsilon > 0.99 * epsilons[ADD]:
            epsilons[REMOVE] = sharp_in_direction(rounds, tilts, rest[REMOVE])
    return epsilons


def refine(
    prove: Callable[[float], tuple[float, float]],
    width: float,
    aim: float,
    negligible: float,
) -> tuple[float, float]:
    """Return two near bounds, by sums of smaller and smaller relative widths, in which smoothing has a part.

    ``prove`` maps a width to bounds, and ``aim`` is the relative distance of bounds that are near.
    """
    error = CannotCertify("no upper bound was found")
    lower = 0.0
    upper = math.inf
    for _ in range(7):
        try:
            low, high = prove(width)
        except CannotCertify as failure:
            error = failure
            has_floor = isinstance(failure, RoundingFloor)
            if upper < math.inf or width > 0.5 * WIDEST or has_floor:
                break
            width *= 3.0  # a sum of too many points
            continue
        before = upper - lower
        lower = max(lower, low)
        upper = min(upper, high)
        gap = upper - lower
        near = aim * upper
        if gap > 0.75 * before or gap <= max(near, negligible):
            break
        width *= 0.8 * max(near / gap, 0.05)
    if not upper < math.inf:
        raise error
    return lower, upper


def smoothed_sums(
    rounds: Bounding, tilts: list[Tilts], epsilon: float, log_delta: float, tau: float
) -> list[Inversion]:
    """Make the sums of the rounds on either side around epsilon, smoothed by tau."""
    pairs = zip(rounds, tilts, strict=True)
    return [smoothed_sum(*pair, epsilon, log_delta, tau) for pair in pairs]


def smoothed_sum(
    rounds: Rounds, tilts: Tilts, epsilon: float, log_delta: float, tau: float
) -> Inversion:
    """Make the sum around epsilon, smoothed by tau; raise an error if rounding is not small beside delta."""
    near = min(0.02 * epsilon, 2 / tilts.best(epsilon))
    line = choose_line(
        tilts, epsilon - near, epsilon + near, log_delta, _LOG_PROVEN_ALIASES, tau
    )
    tilt = line.tilt
    log_size = tilts.log_size(tilt, epsilon) - log_delta
    log_size = 14.0 + log_size + 0.5 * (tau * tilt) ** 2
    end = math.sqrt(2 * max(log_size, 2.0)) / math.sqrt(rounds.gaussian + tau * tau)
    count = max(int(end * line.period / (2 * math.pi)) + 2, 8)
    total = Inversion(rounds, tilts.direction, line, count, tau, _PROVEN_ACCURACY)
    total.prepare_bounds()
    log_error = math.log(total.error * total.step / math.pi)
    log_off = log_error + total.log_moment - tilt * epsilon - log_delta
    if not log_off <= _FLOOR:  # also if it is not a number
        size = math.exp(min(log_off, 700.0))
        raise RoundingFloor(f"rounding errors may amount to {size:.2g} times delta")
    return total


def nearest(
    bound: Callable[[float], float],
    delta: float,
    start: float,
    step: float,
    sign: int,
) -> float:
    """Find the least epsilon (``sign`` 1) or the largest (-1) that the bound proves, or inf or 0 if there is none."""
    at = cache(bound)

    def holds(epsilon: float) -> bool:
        return at(epsilon) <= delta if sign > 0 else at(epsilon) >= delta

    proven = holds(start)
    here = start
    for _ in range(_MOST_STEPS):
        there = max(here + (-sign if proven else sign) * step, 0.0)
        if holds(there) != proven:
            break
        if there == 0:
            return 0.0
        here = there
        step = 2 * step
    else:
        return here if proven else math.inf if sign > 0 else 0.0
    root = solve(lambda x: at(x) - delta, min(here, there), max(here, there))
    for outward in (0.0, 1e-10, 1e-8, 1e-6):
        end = root * (1 + sign * outward)
        if holds(end):
            return end
    return here if proven else there


def is_below(rounds: Rounds, direction: str, delta: float, epsilon: float) -> bool:
    """Check whether epsilon in this direction is provably at most the given one, by one moment."""
    if direction == REMOVE and rounds.largest_loss <= epsilon:
        return True
    if delta <= 0:
        return False
    log_delta = math.log(delta)
    tilts = scan_tilts(rounds, direction, None, epsilon, log_delta - 0.1)
    if not tilts.log_bound(epsilon).min() < log_delta + 0.5:
        return False
    a = tilts.best(epsilon)
    log_moment = proven_log_moment_at(rounds, direction, a)
    log_moment += gaussian_log_moment(rounds.gaussian, a)
    return bool(log_chernoff(a, log_moment, epsilon) <= log_delta)


def sharp_delta(
    rounds: Bounding, direction: str, epsilon: float
) -> tuple[float, float, float]:
    """Compute the sharp delta of one direction and its proven bounds, by sums that are smoothed less and less."""
    below = rounds[0]
    above = rounds[-1]
    if direction == REMOVE and above.largest_loss <= epsilon:
        return 0.0, 0.0, 0.0
    is_exact = len(rounds) == 1
    value = math.nan
    tilts = [scan_tilts(each, direction, None, epsilon) for each in rounds]
    slope = tilts[0].best(epsilon)
    log_delta = min(float(tilts[0].log_bound(epsilon).min()) - 2.0, -1e-3)
    largest_tau = largest_smoothing(epsilon, slope)

    def prove(width: float) -> tuple[float, float]:
        nonlocal value, log_delta
        tau = min(math.sqrt(width / (1.3 * slope * (slope + 1))), largest_tau)
        totals = smoothed_sums(rounds, tilts, epsilon, log_delta, tau)
        value = float(totals[0].value(epsilon))
        if 0 < value < 0.3 * math.exp(log_delta):
            log_delta = math.log(value)
        upper = totals[-1].upper(epsilon) + above.infinite_mass(direction)
        lower = totals[0].lower(epsilon) + below.infinite_mass(direction, -1)
        return lower, min(upper, 1.0)

    aim = 2e-3 if is_exact else 5e-3
    lower, upper = refine(prove, 0.5 * aim, aim, 0.0)
    if is_exact and upper > 0:  # smoothing has raised it slightly
        with contextlib.suppress(CannotCertify):
            log_upper = math.log(upper)
            total = converged_sum(below, tilts[0], epsilon, epsilon, log_upper, 0.0)
            value = float(total.value(epsilon)) + below.infinite_mass(direction)
    return min(max(value, lower), upper), lower, upper
