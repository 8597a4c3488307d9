"""Proven bounds on epsilon and delta."""

import math
from collections.abc import Callable

import numpy as np

from adascale.accounting.exact import gaussian
from adascale.accounting.exact.inversion import ADD, REMOVE, Inversion, Tilts, chernoff_offset, look, plan, real_order
from adascale.accounting.exact.rounds import Rounds, cut, proven_log_moment
from adascale.accounting.exact.search import largest_loss, most_apart, one_direction, settled, sharp, solve
from adascale.errors import CannotCertify, RoundingFloor

WIDEST = 0.01  # a certified interval wider than this, relative to its upper end, is an error
NOTHING = 1e-6  # an epsilon proven to be below this needs no lower bound above 0
_WANTED = 9e-4  # the relative width to aim for
_PROVEN = math.log(1e-6)  # ln of the aliases in the bounds, relative to delta
_DIGITS = 27.0  # -ln of the interpolation error
_CUTS = ((0.02, 1e-5), (0.01, 1e-4), (0.01, 1e-3))  # cell width in L, and mass beyond the cells over delta
_FLOOR = math.log(0.9)  # ln of the largest other error of a sum, relative to delta
_OUTWARD = 1e-12  # how far the last roundings may move a bound


Bracket = tuple[float, float, float, str]  # the sharp value, its proven bounds, and the direction that determines it


def bracket(rounds: Rounds, delta: float) -> Bracket:
    """Find the sharp epsilon, its proven bounds, and the direction that determines it."""
    if not rounds.rates:
        return *gaussian.epsilon(rounds.gaussian, delta), ADD
    if most_apart(rounds) <= delta:
        return 0.0, 0.0, 0.0, ADD
    if rounds.size == 1:
        value, lower, upper = gaussian.sampled_epsilon(rounds.rates[0], float(rounds.energies[0][0]), delta)
        return value, lower, _narrow(lower, upper), ADD
    try:
        return by_inversion(rounds, delta)
    except CannotCertify:
        return by_atoms(rounds, delta)


def by_atoms(rounds: Rounds, delta: float) -> Bracket:
    """Compute :func:`bracket` from one discretisation that lowers delta and one that raises it."""
    lower, upper, value, direction, failed = 0.0, math.inf, 0.0, ADD, CannotCertify("no upper bound was found")
    for width, lost in _CUTS:
        try:
            below, above = _cut(rounds, width, math.log(delta) + math.log(lost))
            value, low, _, direction = by_inversion(below, delta)
            lower, upper = max(lower, low), min(upper, by_inversion(above, delta - above.lost)[2])
            if upper - lower <= max(5 * _WANTED * upper, 0.1 * NOTHING):
                break
        except CannotCertify as error:
            failed = error
    if not upper < math.inf:
        raise failed
    return min(max(value, lower), upper), lower, _narrow(lower, upper), direction


def _cut(rounds: Rounds, width: float, log_lost: float) -> tuple[Rounds, Rounds]:
    if max(rounds.rates) > 0.5 or max(float(u[-1]) for u in rounds.energies) > 100.0:
        raise CannotCertify("the moments of a round would take too many nodes, or overflow")
    if sum(u.size for u in rounds.energies) > 2000:
        raise CannotCertify("sampling is rare, and there are more than 2,000 distinct rounds")
    return cut(rounds, False, width, log_lost), cut(rounds, True, width, log_lost)


def by_inversion(rounds: Rounds, delta: float) -> Bracket:
    """Compute :func:`bracket` of sampled rounds, or of atoms that replace them."""
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
    where = plan(tilts, 0.98 * epsilon, 1.02 * epsilon, log_delta, _PROVEN, tau)
    size = float(np.interp(where.tilt, tilts.tilt, tilts.log_moment)) - where.tilt * epsilon - log_delta
    gaussian_part = math.sqrt(rounds.gaussian + tau * tau)
    end = math.sqrt(2 * max(14.0 + size + 0.5 * (tau * where.tilt) ** 2, 2.0)) / gaussian_part
    count = max(int(end * where.period / (2 * math.pi)) + 2, 8)
    found = Inversion(rounds, tilts.direction, where, count, tau, _DIGITS)
    found.prove()
    log_off = math.log(found.error * found.step / math.pi) + found.log_moment - where.tilt * epsilon - log_delta
    if log_off > _FLOOR:
        raise RoundingFloor(f"rounding errors may amount to {math.exp(min(log_off, 700.0)):.2g} times delta")
    return found


def _ends(rounds: Rounds, direction: str, delta: float, value: float) -> tuple[float, float]:
    log_delta, tilts = math.log(delta), look(rounds, direction, None, value)
    slope = float(tilts.tilt[np.argmin(tilts.log_bound(value))])  # approximately -d ln delta / d epsilon
    lower, upper = 0.0, math.inf
    scale, wanted, failed = max(value, 0.1 / slope), 7e-4, CannotCertify("no upper bound was found")
    for _ in range(6):
        tau = min(math.sqrt(wanted * scale / (1.3 * (slope + 1))), 0.5)
        try:
            inversion = _smoothed(rounds, tilts, value, log_delta, tau)
        except CannotCertify as error:
            failed = error
            if upper < math.inf or wanted > 0.5 * WIDEST or isinstance(error, RoundingFloor):
                break
            wanted *= 3.0
            continue
        before, step = upper - lower, max(1e-4 * value, 1e-4 / inversion.where.tilt)
        lower = max(lower, _nearest(inversion.lower, delta, value, step, -1))
        upper = 0.0 if inversion.upper(0.0) <= delta else min(upper, _nearest(inversion.upper, delta, value, step, 1))
        if upper < math.inf and (upper - lower <= max(_WANTED * upper, 0.1 * NOTHING) or upper - lower > 0.9 * before):
            break
        wanted *= 0.8 * min(max(_WANTED * upper / (upper - lower), 0.05), 1.0) if upper < math.inf else 0.05
    if not upper < math.inf:
        raise failed
    return lower * (1 - _OUTWARD), _narrow(lower, upper) * (1 + _OUTWARD)


def _narrow(lower: float, upper: float, nothing: float = NOTHING) -> float:
    if not upper - lower <= max(WIDEST * upper, nothing):
        raise CannotCertify(f"it lies between {lower:.6g} and {upper:.6g}")
    return upper


def _nearest(bound: Callable[[float], float], delta: float, value: float, step: float, way: int) -> float:
    """Find a nearby epsilon above (``way`` 1) or below (-1) that the bound proves; return inf or 0 if there is none."""

    def holds(epsilon: float) -> bool:
        return bound(epsilon) <= delta if way > 0 else bound(epsilon) >= delta

    near = value
    for _ in range(40):
        if (far := near + way * step) <= 0:
            return 0.0
        if holds(far):
            break
        near, step = far, 1.5 * step
    else:
        return math.inf if way > 0 else 0.0
    end = far if holds(near) else solve(lambda x: bound(x) - delta, min(near, far), max(near, far))
    for outward in (0.0, 1e-10, 1e-8, 1e-6):
        if holds(end * (1 + way * outward)):
            return end * (1 + way * outward)
    return far


def is_below(rounds: Rounds, direction: str, delta: float, epsilon: float, value: float | None) -> bool:
    """Check that epsilon in this direction is provably at most the given one."""
    if direction == REMOVE and largest_loss(rounds) <= epsilon:
        return True
    if not rounds.rates or delta <= 0:
        return False
    tilts, log_delta = look(rounds, direction, None, epsilon), math.log(delta)
    i = int(np.argmin(tilts.log_bound(epsilon)))
    a = float(tilts.tilt[i])  # approximately the slope of -ln delta as well
    if tilts.log_bound(epsilon)[i] < log_delta + 0.5:
        log_moment = proven_log_moment(rounds, real_order(direction, a)) + 0.5 * rounds.gaussian * a * (a + 1)
        log_bound = log_moment + chernoff_offset(a) - a * epsilon
        if log_bound + 1e-13 * (abs(log_moment) + a * epsilon + 10) <= log_delta:
            return True
    if value is None or value > 0.998 * epsilon:
        return False
    tau = min(math.sqrt(0.5 * (epsilon - value) / (a + 1)), 0.5)
    try:
        return _smoothed(rounds, tilts, epsilon, log_delta, tau).upper(epsilon) <= delta
    except CannotCertify:
        return False


def delta_bracket(rounds: Rounds, epsilon: float) -> Bracket:
    """Compute the counterpart of :func:`bracket` for delta."""
    if not rounds.rates:
        return *gaussian.delta(rounds.gaussian, epsilon), ADD
    if rounds.size == 1:
        value, lower, upper = gaussian.sampled_delta(rounds.rates[0], float(rounds.energies[0][0]), epsilon)
        return value, lower, _narrow(lower, upper, 1e-290), ADD
    try:
        return delta_by_inversion(rounds, epsilon)
    except CannotCertify:
        return delta_by_atoms(rounds, epsilon)


def delta_by_inversion(rounds: Rounds, epsilon: float) -> Bracket:
    """Compute the counterpart of :func:`by_inversion` for delta."""
    found = [delta_of(rounds, ADD, epsilon)]
    if not is_below(rounds, REMOVE, found[0][1], epsilon, None):
        found.append(delta_of(rounds, REMOVE, epsilon))
    value, lower, upper = (max(each) for each in zip(*found, strict=True))
    return value, lower, upper, ADD if value == found[0][0] else REMOVE


def delta_by_atoms(rounds: Rounds, epsilon: float) -> Bracket:
    """Compute the counterpart of :func:`by_atoms` for delta."""
    about = float(look(rounds, ADD, None, epsilon).log_bound(epsilon).min()) - 3.0
    lower, upper, value, direction, failed = 0.0, math.inf, 0.0, ADD, CannotCertify("no upper bound was found")
    for width, lost in _CUTS:
        try:
            below, above = _cut(rounds, width, about + math.log(lost))
            value, low, _, direction = delta_by_inversion(below, epsilon)
            lower, upper = max(lower, low), min(upper, delta_by_inversion(above, epsilon)[2] + above.lost)
            if upper - lower <= WIDEST * upper:
                return min(max(value, lower), upper), lower, min(upper, 1.0), direction
            about, failed = math.log(upper), CannotCertify(f"it lies between {lower:.6g} and {upper:.6g}")
        except CannotCertify as error:
            failed = failed if upper < math.inf else error
    raise failed


def delta_of(rounds: Rounds, direction: str, epsilon: float) -> tuple[float, float, float]:
    """Compute the sharp delta of one direction and its proven bounds."""
    if direction == REMOVE and largest_loss(rounds) <= epsilon:
        return 0.0, 0.0, 0.0
    tilts = look(rounds, direction, None, epsilon)
    bound = tilts.log_bound(epsilon)
    slope = float(tilts.tilt[np.argmin(bound)])
    log_delta = min(float(bound.min()) - 2.0, -1e-3)
    value, lower, upper = math.nan, 0.0, 1.0
    wanted, failed = 1e-3, CannotCertify("no upper bound was found")
    for _ in range(5):
        tau = min(math.sqrt(wanted / (1.3 * slope * (slope + 1))), 0.5)
        try:
            inversion = _smoothed(rounds, tilts, epsilon, log_delta, tau)
        except CannotCertify as error:
            failed = error
            if not math.isnan(value) or wanted > 0.5 * WIDEST or isinstance(error, RoundingFloor):
                break
            wanted *= 3.0
            continue
        lower, upper = max(lower, inversion.lower(epsilon)), min(upper, inversion.upper(epsilon))
        value = float(inversion.value(epsilon))
        if upper - lower <= 2e-3 * upper:
            break
        wanted *= 0.8 * max(2e-3 * upper / (upper - lower), 0.05)
    if math.isnan(value):
        raise failed
    upper = _narrow(lower, upper, 0.0)
    plain = settled(rounds, tilts, epsilon, epsilon, math.log(upper), 0.0) if upper > 0 else None
    if plain is not None:  # otherwise smoothing has raised it slightly
        value = float(plain.value(epsilon))
    return min(max(value, lower), upper), lower, upper
