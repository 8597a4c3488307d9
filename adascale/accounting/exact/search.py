"""The sharp epsilon of a schedule, without proof: the root of a converged sum."""

import math

import numpy as np

from adascale.accounting.exact.inversion import (
    ADD,
    DIRECTIONS,
    REMOVE,
    Inversion,
    Tilts,
    choose_line,
    gaussian_log_moment,
    largest_smoothing,
    lost_in,
    scan_tilts,
)
from adascale.accounting.exact.rounds import Rounds
from adascale.errors import CannotCertify
from adascale.rootfind import solve

_LOG_ALIASES = math.log(1e-7)  # relative to delta
_DIGITS = 20.0  # -ln of the interpolation error
_MOST_POINTS = 600  # on the line, after which a sum that has not converged is smoothed


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
        return Inversion(rounds, tilts.direction, line, count, tau, _DIGITS)
    count = int(math.sqrt(2 * 20 / line.curvature) / step) + 12
    while count < _MOST_POINTS:
        plain = Inversion(rounds, tilts.direction, line, count, 0.0, _DIGITS)
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
    slope = tilts.best(tilts.top)
    tau = min(
        math.sqrt(0.002 * max(tilts.top, 0.01 / slope) / slope),
        largest_smoothing(max(tilts.top, 0.0), slope),
    )
    return _root(rounds, tilts, delta, share * tau, (0.2, 0.0))


def _root(
    rounds: Rounds, tilts: Tilts, delta: float, tau: float, parts: tuple[float, ...]
) -> float:
    """Find where the sum equals delta, above the first part of the Renyi value that will do; return 0 if below 0."""
    # the Renyi value is too large by a few over the tilt; the thinned rounds approximate it within one per cent
    top = max(tilts.top, 0.0)
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


def sharp(rounds: Rounds, delta: float) -> tuple[float, str, dict[str, float]]:
    """Compute the sharp epsilon, its direction, and the epsilon of each direction that can determine it."""
    rest = {name: delta - lost_in(rounds, name) for name in DIRECTIONS}
    tilts = scan_tilts(rounds, ADD, math.log(rest[ADD]))
    epsilons = {ADD: sharp_in_direction(rounds, tilts, rest[ADD])}
    if rounds.largest_loss > epsilons[ADD]:
        tilts = scan_tilts(rounds, REMOVE, math.log(rest[REMOVE]))
        if tilts.top > 0.99 * epsilons[ADD]:
            epsilons[REMOVE] = sharp_in_direction(rounds, tilts, rest[REMOVE])
    direction = max(epsilons, key=lambda name: epsilons[name])
    return epsilons[direction], direction, epsilons
