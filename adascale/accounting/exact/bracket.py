"""The proven ends of an epsilon and of a delta."""

from __future__ import annotations

import math

import numpy as np

from adascale.accounting.exact import gaussian
from adascale.accounting.exact.inversion import (
    ADD,
    REMOVE,
    CannotCertify,
    Inversion,
    Tilts,
    chernoff_offset,
    look,
    plan,
    real_order,
)
from adascale.accounting.exact.moments import total_log_moment
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.search import largest_loss, most_apart, one_direction, settled, sharp, solve

WIDEST = 0.01
"""A bracket that is wider than this, relative to its upper end, is an error."""

NOTHING = 1e-6
"""An epsilon that is proven to be below this needs no lower end above 0."""

_WANTED = 9e-4  # the relative width that is tried for
_PROVEN = math.log(1e-6)  # aliases of the bounds, relative to delta
_DIGITS = 27.0  # -ln of the error of an interpolation
_OUTWARD = 1e-12  # what the last roundings may move an end


def bracket(rounds: Rounds, delta: float) -> tuple[float, float, float, str]:
    """The sharp epsilon, its proven ends, and the binding direction."""
    if not rounds.rates:
        return *gaussian.epsilon(rounds.gaussian, delta), ADD
    if most_apart(rounds) <= delta:
        return 0.0, 0.0, 0.0, ADD
    value, direction, found = sharp(rounds, delta)
    lower, upper = _ends(rounds, direction, delta, value)
    other = REMOVE if direction == ADD else ADD
    # delta(0) is the same in both directions
    if upper > 0 and not is_below(rounds, other, delta, upper, found.get(other)):
        if other not in found:
            found[other] = one_direction(rounds, look(rounds, other, math.log(delta)), delta)
        ends = _ends(rounds, other, delta, found[other])
        lower, upper = max(lower, ends[0]), max(upper, ends[1])
    return min(max(value, lower), upper), lower, upper, direction


def _smoothed(rounds: Rounds, tilts: Tilts, epsilon: float, log_delta: float, tau: float) -> Inversion:
    """A sum with a Gaussian round of noise 1 / tau, with what bounds it."""
    where = plan(tilts, 0.98 * epsilon, 1.02 * epsilon, log_delta, _PROVEN)
    size = float(np.interp(where.tilt, tilts.tilt, tilts.log_moment)) - where.tilt * epsilon - log_delta
    gaussian_part = math.sqrt(rounds.gaussian + tau * tau)
    end = math.sqrt(2 * max(14.0 + size + 0.5 * (tau * where.tilt) ** 2, 2.0)) / gaussian_part
    count = max(int(end * where.period / (2 * math.pi)) + 2, 8)
    found = Inversion(rounds, tilts.direction, where, count, tau, _DIGITS)
    found.prove()
    return found


def _ends(rounds: Rounds, direction: str, delta: float, value: float) -> tuple[float, float]:
    """The proven ends of one direction, whose sharp epsilon is known."""
    log_delta = math.log(delta)
    tilts = look(rounds, direction, None, value)
    slope = float(tilts.tilt[np.argmin(tilts.log_bound(value))])  # about -d ln delta / d epsilon
    lower, upper = 0.0, math.inf
    scale, wanted = max(value, 0.1 / slope), 7e-4
    for _ in range(5):
        tau = min(math.sqrt(wanted * scale / (1.3 * (slope + 1))), 0.5)
        try:
            inversion = _smoothed(rounds, tilts, value, log_delta, tau)
        except CannotCertify:
            if not (upper < math.inf and upper - lower <= max(WIDEST * upper, NOTHING)):
                raise
            break
        lower = max(lower, _least(inversion, delta, value))
        upper = min(upper, _largest(inversion, delta, value))
        if upper < math.inf and upper - lower <= max(_WANTED * upper, 0.1 * NOTHING):
            break
        wanted *= 0.8 * max(_WANTED * scale / (upper - lower), 0.05)
    if not (upper < math.inf and upper - lower <= max(WIDEST * upper, NOTHING)):
        raise CannotCertify(f"it lies between {lower:.6g} and {upper:.6g}")
    return lower * (1 - _OUTWARD), upper * (1 + _OUTWARD)


def _largest(inversion: Inversion, delta: float, value: float) -> float:
    """An epsilon at which delta is proven to be no larger than the given one; infinite if there is none near."""
    if inversion.upper(0.0) <= delta:
        return 0.0
    low, step = value, max(1e-4 * value, 1e-4 / inversion.where.tilt)
    for _ in range(40):
        if inversion.upper(low + step) <= delta:
            break
        low, step = low + step, 1.5 * step
    else:
        return math.inf
    high = low + step
    if inversion.upper(low) > delta:
        high = solve(lambda x: inversion.upper(x) - delta, low, high)
    for outward in (0.0, 1e-10, 1e-8, 1e-6):
        if inversion.upper(high * (1 + outward)) <= delta:
            return high * (1 + outward)
    return low + step


def _least(inversion: Inversion, delta: float, value: float) -> float:
    """An epsilon at which delta is proven to be no smaller than the given one; 0 if there is none near."""
    high, step = value, max(1e-4 * value, 1e-4 / inversion.where.tilt)
    for _ in range(40):
        if high - step <= 0:
            return 0.0
        if inversion.lower(high - step) >= delta:
            break
        high, step = high - step, 1.5 * step
    else:
        return 0.0
    low = high - step
    if inversion.lower(high) < delta:
        low = solve(lambda x: inversion.lower(x) - delta, low, high)
    for inward in (0.0, 1e-10, 1e-8, 1e-6):
        if inversion.lower(low * (1 - inward)) >= delta:
            return low * (1 - inward)
    return high - step


def is_below(rounds: Rounds, direction: str, delta: float, epsilon: float, value: float | None) -> bool:
    """Whether the epsilon of this direction is proven to be no larger than the given one."""
    if direction == REMOVE and largest_loss(rounds) <= epsilon:
        return True
    if not rounds.rates or delta <= 0:
        return False
    tilts = look(rounds, direction, None, epsilon)
    i = int(np.argmin(tilts.log_bound(epsilon)))
    if tilts.log_bound(epsilon)[i] < math.log(delta) + 0.5:
        a = float(tilts.tilt[i])
        log_bound = 0.5 * rounds.gaussian * a * (a + 1) + chernoff_offset(a) - a * epsilon + 1e-6 + 1e-9 * rounds.size
        for q, u, n in zip(*rounds[:3], strict=True):
            log_bound += total_log_moment(u, np.full(u.size, q), n, real_order(direction, a), 24.0)
        if log_bound <= math.log(delta):
            return True
    if value is None or value > 0.998 * epsilon:
        return False
    slope = float(tilts.tilt[i])
    tau = min(math.sqrt(0.5 * (epsilon - value) / (slope + 1)), 0.5)
    try:
        return _smoothed(rounds, tilts, epsilon, math.log(delta), tau).upper(epsilon) <= delta
    except CannotCertify:
        return False


def delta_of(rounds: Rounds, direction: str, epsilon: float) -> tuple[float, float, float]:
    """The sharp delta of one direction and its proven ends."""
    if not rounds.rates:
        return gaussian.delta(rounds.gaussian, epsilon)
    if direction == REMOVE and largest_loss(rounds) <= epsilon:
        return 0.0, 0.0, 0.0
    tilts = look(rounds, direction, None, epsilon)
    bound = tilts.log_bound(epsilon)
    slope = float(tilts.tilt[np.argmin(bound)])
    log_delta = min(float(bound.min()) - 2.0, -1e-3)
    value, lower, upper = math.nan, 0.0, 1.0
    for wanted in (1e-3, 1e-4, 1e-5):
        tau = min(math.sqrt(wanted / (1.3 * slope * (slope + 1))), 0.5)
        inversion = _smoothed(rounds, tilts, epsilon, log_delta, tau)
        lower, upper = max(lower, inversion.lower(epsilon)), min(upper, inversion.upper(epsilon))
        value = float(inversion.value(epsilon))
        if upper - lower <= 2e-3 * upper:
            break
    if not upper - lower <= WIDEST * upper:
        raise CannotCertify(f"it lies between {lower:.6g} and {upper:.6g}")
    plain = settled(rounds, tilts, epsilon, epsilon, math.log(upper), 0.0) if upper > 0 else None
    if plain is not None:  # else smoothing has raised it by a little
        value = float(plain.value(epsilon))
    return min(max(value, lower), upper), lower, upper
