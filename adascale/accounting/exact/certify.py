"""Proven bounds on epsilon and delta: the best of several proofs, whatever the schedule."""

import contextlib
import math
from collections.abc import Callable

import numpy as np

from adascale.accounting.exact import bounds, gaussian, inversion
from adascale.accounting.exact.inversion import (
    ADD,
    DIRECTIONS,
    REMOVE,
    Inversion,
    Tilts,
    look,
    plan,
)
from adascale.accounting.exact.minus_one import cut
from adascale.accounting.exact.moments import QUIET
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.search import (
    about,
    largest_loss,
    most_apart,
    one_direction,
    settled,
    sharp,
)
from adascale.accounting.interval import WIDEST, CertifiedInterval
from adascale.errors import CannotCertify, RoundingFloor
from adascale.rootfind import solve

NOTHING = 1e-6  # an epsilon proven to be below this needs no lower bound above 0
NO_DELTA = 1e-290  # nor does such a delta
_WANTED = 9e-4  # the relative width to aim for
_PROVEN = math.log(1e-6)  # ln of the aliases in the bounds, relative to delta
_DIGITS = 27.0  # -ln of the interpolation error
_CUTS = (
    (0.02, 1e-5),
    (0.01, 1e-4),
    (0.01, 1e-3),
)  # cell width in L, and mass beyond the cells over delta
_FLOOR = math.log(0.9)  # ln of the largest other error of a sum, relative to delta
_FAR = 100, 2.0  # steps from an epsilon of 1e-6, and their growth: beyond 1e24
_BEYOND = 1e30  # an epsilon above every loss
_OUTWARD = 1e-12  # how far the last roundings may move a bound
_RARE = (
    5e-4,
    5.0,
)  # a smaller rate and fewer samples in all: discrete rounds are tried first


class Proof:
    """The best bounds proven so far: from below of the larger direction, from above of each."""

    def __init__(self, most: float, nothing: float) -> None:
        self.lower, self.upper, self.nothing = (
            0.0,
            dict.fromkeys(DIRECTIONS, most),
            nothing,
        )
        self.names = dict.fromkeys(("lower", *DIRECTIONS), "trivial")
        self.value, self.direction = math.nan, ADD

    def raise_lower(self, value: float, name: str) -> None:
        """Record a lower bound."""
        if value > self.lower:
            self.lower, self.names["lower"] = value, name

    def reduce_upper(self, value: float, name: str, *directions: str) -> None:
        """Record an upper bound on one direction or on both."""
        for direction in directions or DIRECTIONS:
            if value < self.upper[direction]:
                self.upper[direction], self.names[direction] = value, name

    def wide(self, most: float = WIDEST) -> bool:
        """Check whether the interval is wider than this, relative to its upper end."""
        upper = max(self.upper.values())
        return not (
            upper < math.inf and upper - self.lower <= max(most * upper, self.nothing)
        )

    def interval(self) -> CertifiedInterval:
        """Return the interval."""
        larger = max(DIRECTIONS, key=lambda name: self.upper[name])
        upper = self.upper[larger]
        lower, upper = float(min(self.lower, upper)), float(upper)
        value = (
            0.5 * (lower + upper)
            if math.isnan(self.value)
            else min(max(self.value, lower), upper)
        )
        names = (self.names["lower"], self.names[larger])
        return CertifiedInterval(
            lower, upper, names, self.direction, value, upper, self.nothing
        )


def _known(
    found: tuple[float, float, float], nothing: float, name: str = "closed form"
) -> CertifiedInterval:
    value, lower, upper = map(float, found)
    return CertifiedInterval(lower, upper, (name, name), ADD, value, upper, nothing)


def _one(rounds: Rounds) -> tuple[float, float] | None:
    """Return rate and energy of a schedule that is one Gaussian mechanism."""
    if rounds.atoms or (rounds.rates and rounds.size > 1):
        return None
    return (
        (rounds.rates[0], float(rounds.energies[0][0]))
        if rounds.rates
        else (1.0, rounds.gaussian)
    )


Attempt = Callable[[Rounds, float, Proof], None]
Invert = Callable[[Rounds, Rounds, float, Proof, str], None]
Interval = Callable[[Rounds, float], CertifiedInterval]
_FAILURES = (
    ArithmeticError,
    ValueError,
)  # of an attempt to prove something, at the ends of floating point


@QUIET
def epsilon_interval(rounds: Rounds, delta: float) -> CertifiedInterval:
    """Bound epsilon from both sides by the best of all proofs."""
    if one := _one(rounds):
        return _known(gaussian.epsilon(*one, delta), NOTHING)
    if most_apart(rounds) <= delta:
        return _known((0.0, 0.0, 0.0), NOTHING, "total variation")
    proof = Proof(math.inf, NOTHING)
    proof.reduce_upper(largest_loss(rounds), "largest loss", REMOVE)
    return _by_all(rounds, delta, proof, invert, by_bounds, epsilon_interval)


@QUIET
def delta_interval(rounds: Rounds, epsilon: float) -> CertifiedInterval:
    """Bound delta from both sides by the best of all proofs."""
    if one := _one(rounds):
        return _known(gaussian.sampled_delta(*one, epsilon), NO_DELTA)
    proof = Proof(1.0, NO_DELTA)
    proof.reduce_upper(most_apart(rounds), "total variation")
    if epsilon > _BEYOND:  # no schedule of floating point has such losses
        delta_by_bounds(rounds, _BEYOND, proof)
        proof.lower = 0.0
        return proof.interval()
    if largest_loss(rounds) <= epsilon:
        proof.reduce_upper(0.0, "largest loss", REMOVE)
    if rounds.rates:
        q, u = max(
            (q, float(u[-1]))
            for q, u in zip(rounds.rates, rounds.energies, strict=True)
        )
        proof.raise_lower(
            float(gaussian.sampled_delta(q, u * (1 - 1e-9), epsilon)[1]), "one round"
        )
    return _by_all(
        rounds, epsilon, proof, invert_delta, delta_by_bounds, delta_interval
    )


def _by_all(
    rounds: Rounds, at: float, proof: Proof, way: Invert, ends: Attempt, whole: Interval
) -> CertifiedInterval:
    """Try proofs until the interval is narrow; rounds of both kinds can only be discretised."""
    both = bool(rounds.rates and rounds.atoms)
    # where few samples are expected, discrete rounds are faster and nearer
    is_rare = max(rounds.rates, default=0.0) < _RARE[0] and rounds.expected < _RARE[1]
    for attempt in (
        (by_atoms,)
        if both
        else (by_atoms, by_inversion)
        if is_rare
        else (by_inversion, by_atoms)
    ):
        with contextlib.suppress(*_FAILURES):
            attempt(way, rounds, at, proof)
        if not proof.wide():
            return proof.interval()
    if both:
        # leave out the sampled rounds, which lowers delta, or their sampling, which raises it
        energy = sum(
            float((n * u).sum())
            for u, n in zip(rounds.energies, rounds.counts, strict=True)
        )
        less = rounds._replace(rates=(), energies=(), counts=())
        below, above = (
            whole(less, at),
            whole(less._replace(gaussian=(rounds.gaussian + energy) * (1 + 1e-12)), at),
        )
        proof.raise_lower(below.lower, below.ends[0])
        proof.reduce_upper(above.upper, above.ends[1])
    else:
        ends(rounds, at, proof)
    return proof.interval()


def by_bounds(rounds: Rounds, delta: float, proof: Proof) -> None:
    """Improve the bounds on epsilon by every bound on delta in closed form or by real moments."""
    uppers, lowers = bounds.all_of(rounds, math.log(delta), 0.0)
    for name, directions, bound in uppers:
        proof.reduce_upper(
            _nearest(bound, delta, 0.0, 1e-6, 1, *_FAR), name, *directions
        )
    for name, bound in lowers:
        if bound(proof.lower) >= delta:
            proof.raise_lower(
                _nearest(bound, delta, proof.lower, max(proof.lower, 1e-6), -1, *_FAR),
                name,
            )


def delta_by_bounds(rounds: Rounds, epsilon: float, proof: Proof) -> None:
    """Improve the bounds on delta by every one of them."""
    uppers, lowers = bounds.all_of(rounds, None, epsilon)
    for name, directions, bound in uppers:
        proof.reduce_upper(bound(epsilon), name, *directions)
    for name, bound in lowers:
        proof.raise_lower(bound(epsilon), name)


def by_inversion(way: Invert, rounds: Rounds, at: float, proof: Proof) -> None:
    """Prove bounds by the moments of the sampled rounds, or of the atoms if there are no others."""
    way(rounds, rounds, at, proof, "minus one" if rounds.atoms else "inversion")


def by_atoms(way: Invert, rounds: Rounds, at: float, proof: Proof) -> None:
    """Prove bounds by one discretisation that lowers delta and one that raises it."""
    if (
        max(rounds.rates, default=1.0) > 0.5
        or max(float(u[-1]) for u in rounds.energies) > 100.0
    ):
        raise CannotCertify(
            "the moments of a round would take too many nodes, or overflow"
        )
    if sum(u.size for u in rounds.energies) > 2000:
        raise CannotCertify(
            "sampling is rare, and there are more than 2,000 distinct rounds"
        )
    for width, lost in _CUTS:
        delta = (
            at if way is invert else max(proof.lower, 1e-25 * max(proof.upper.values()))
        )
        below, above = (
            cut(rounds, raised, width, math.log(delta) + math.log(lost))
            for raised in (False, True)
        )
        way(below, above, at, proof, "minus one")
        if not proof.wide(5 * _WANTED if way is invert else WIDEST):
            break


def invert(below: Rounds, above: Rounds, delta: float, proof: Proof, name: str) -> None:
    """Prove a lower bound on epsilon by ``below``, and upper bounds by ``above``; delta is between those of both."""
    if below is above:
        value, direction, found = sharp(below, delta)
        proof.value, proof.direction = value, direction
    else:
        direction, found = (
            ADD,
            {ADD: about(below, look(below, ADD, math.log(delta)), delta)},
        )
        value = found[ADD]
    _ends(below, above, direction, delta, value, proof, name)
    other = REMOVE if direction == ADD else ADD
    upper, rest = proof.upper[direction], delta - above.lost
    # delta(0) is the same in both directions
    if (
        upper == 0
        or proof.upper[other] <= upper
        or is_below(above, other, rest, upper, found.get(other))
    ):
        proof.reduce_upper(upper, name, other)
        return
    if other not in found:
        found[other] = (one_direction if below is above else about)(
            below, look(below, other, math.log(delta)), delta
        )
    _ends(below, above, other, delta, found[other], proof, name)


def _smoothed(
    rounds: Rounds, tilts: Tilts, epsilon: float, log_delta: float, tau: float
) -> Inversion:
    where = plan(tilts, 0.98 * epsilon, 1.02 * epsilon, log_delta, _PROVEN, tau)
    size = (
        float(np.interp(where.tilt, tilts.tilt, tilts.log_moment))
        - where.tilt * epsilon
        - log_delta
    )
    gaussian_part = math.sqrt(rounds.gaussian + tau * tau)
    end = (
        math.sqrt(2 * max(14.0 + size + 0.5 * (tau * where.tilt) ** 2, 2.0))
        / gaussian_part
    )
    count = max(int(end * where.period / (2 * math.pi)) + 2, 8)
    found = Inversion(rounds, tilts.direction, where, count, tau, _DIGITS)
    found.prove()
    log_off = (
        math.log(found.error * found.step / math.pi)
        + found.log_moment
        - where.tilt * epsilon
        - log_delta
    )
    if not log_off <= _FLOOR:  # also if it is not a number
        raise RoundingFloor(
            f"rounding errors may amount to {math.exp(min(log_off, 700.0)):.2g} times delta"
        )
    return found


def _ends(
    below: Rounds,
    above: Rounds,
    direction: str,
    delta: float,
    value: float,
    proof: Proof,
    name: str,
) -> None:
    log_delta, tilts = math.log(delta), look(below, direction, None, value)
    more = tilts if below is above else look(above, direction, None, value)
    slope = float(
        tilts.tilt[np.argmin(tilts.log_bound(value))]
    )  # approximately -d ln delta / d epsilon
    scale, rest = max(value, 0.1 / slope), delta - above.lost

    def attempt(wanted: float) -> tuple[float, float, bool]:
        tau = min(math.sqrt(wanted * scale / (1.3 * (slope + 1))), 0.5)
        low = _smoothed(below, tilts, value, log_delta, tau)
        high = low if below is above else _smoothed(above, more, value, log_delta, tau)
        step = max(1e-4 * value, 1e-4 / low.where.tilt)
        lower = _nearest(low.lower, delta, value, step, -1)
        upper = (
            0.0
            if high.upper(0.0) <= rest
            else _nearest(high.upper, rest, value, step, 1)
        )
        proof.raise_lower(lower * (1 - _OUTWARD), name)
        proof.reduce_upper(upper * (1 + _OUTWARD), name, direction)
        return lower, upper, False

    _refined(
        attempt, 0.8, _WANTED if below is above else 3 * _WANTED, 0.1 * NOTHING
    )  # atoms are not nearer


def _refined(
    attempt: Callable[[float], tuple[float, float, bool]],
    first: float,
    least: float,
    nothing: float,
) -> tuple[float, float]:
    """Try smaller widths, in which smoothing has a part, until both ends are near or come no nearer."""
    lower, upper, wanted, failed = (
        0.0,
        math.inf,
        first * least,
        CannotCertify("no upper bound was found"),
    )
    for _ in range(7):
        try:
            low, high, planned_for_more = attempt(wanted)
        except CannotCertify as error:
            failed = error
            if (
                upper < math.inf
                or wanted > 0.5 * WIDEST
                or isinstance(error, RoundingFloor)
            ):
                break
            wanted *= 3.0
            continue
        before = upper - lower
        lower, upper = max(lower, low), min(upper, high)
        if upper < math.inf and upper - lower <= max(least * upper, nothing):
            break
        if upper < math.inf and upper - lower > 0.9 * before and not planned_for_more:
            break
        wanted *= (
            0.8 * max(least * upper / (upper - lower), 0.05)
            if upper < math.inf
            else 0.05
        )
    if not upper < math.inf:
        raise failed
    return lower, upper


def _nearest(
    bound: bounds.Bound,
    delta: float,
    value: float,
    step: float,
    way: int,
    most: int = 40,
    growth: float = 1.5,
) -> float:
    """Find the least epsilon (``way`` 1) or the largest (-1) that the bound proves, or inf or 0 if there is none."""

    def holds(epsilon: float) -> bool:
        return bound(epsilon) <= delta if way > 0 else bound(epsilon) >= delta

    proven, here = holds(value), value
    for _ in range(most):
        there = max(here + (-way if proven else way) * step, 0.0)
        if holds(there) != proven:
            break
        if there == 0:
            return 0.0
        here, step = there, growth * step
    else:
        return here if proven else math.inf if way > 0 else 0.0
    end = solve(lambda x: bound(x) - delta, min(here, there), max(here, there))
    for outward in (0.0, 1e-10, 1e-8, 1e-6):
        if holds(end * (1 + way * outward)):
            return end * (1 + way * outward)
    return here if proven else there


def is_below(
    rounds: Rounds, direction: str, delta: float, epsilon: float, value: float | None
) -> bool:
    """Check that epsilon in this direction is provably at most the given one."""
    if direction == REMOVE and largest_loss(rounds) <= epsilon:
        return True
    if delta <= 0:
        return False
    tilts, log_delta = look(rounds, direction, None, epsilon), math.log(delta)
    i = int(np.argmin(tilts.log_bound(epsilon)))
    a = float(tilts.tilt[i])  # approximately the slope of -ln delta as well
    if tilts.log_bound(epsilon)[i] < log_delta + 0.5:
        log_moment = inversion.proven_log_moment_at(
            rounds, direction, a
        ) + 0.5 * rounds.gaussian * a * (a + 1)
        log_bound = log_moment + inversion.chernoff_offset(a) - a * epsilon
        if log_bound + 1e-13 * (abs(log_moment) + a * epsilon + 10) <= log_delta:
            return True
    if value is None or value > 0.998 * epsilon:
        return False
    tau = min(math.sqrt(0.5 * (epsilon - value) / (a + 1)), 0.5)
    with contextlib.suppress(CannotCertify):
        return _smoothed(rounds, tilts, epsilon, log_delta, tau).upper(epsilon) <= delta
    return False


def invert_delta(
    below: Rounds, above: Rounds, epsilon: float, proof: Proof, name: str
) -> None:
    """Prove a lower bound on delta by ``below``, and upper bounds by ``above``."""
    for direction in DIRECTIONS:
        value, lower, upper = delta_of(below, above, direction, epsilon)
        if direction == ADD or value > proof.value:
            proof.value, proof.direction = value, direction
        proof.raise_lower(lower, name)
        proof.reduce_upper(upper, name, direction)
        # delta(0) is the same in both directions
        if direction == ADD and (
            epsilon == 0 or is_below(above, REMOVE, lower - above.lost, epsilon, None)
        ):
            proof.reduce_upper(upper, name, REMOVE)
            return


def delta_of(
    below: Rounds, above: Rounds, direction: str, epsilon: float
) -> tuple[float, float, float]:
    """Compute the sharp delta of one direction and its proven bounds."""
    if direction == REMOVE and largest_loss(above) <= epsilon:
        return 0.0, 0.0, 0.0
    tilts = look(below, direction, None, epsilon)
    bound, more = (
        tilts.log_bound(epsilon),
        tilts if below is above else look(above, direction, None, epsilon),
    )
    slope = float(tilts.tilt[np.argmin(bound)])
    log_delta, value = min(float(bound.min()) - 2.0, -1e-3), math.nan

    def attempt(wanted: float) -> tuple[float, float, bool]:
        nonlocal log_delta, value
        tau = min(math.sqrt(wanted / (1.3 * slope * (slope + 1))), 0.5)
        low = _smoothed(below, tilts, epsilon, log_delta, tau)
        high = (
            low if below is above else _smoothed(above, more, epsilon, log_delta, tau)
        )
        value = float(low.value(epsilon))
        if planned_for_more := 0 < value < 0.3 * math.exp(log_delta):
            log_delta = math.log(value)
        return (
            low.lower(epsilon),
            min(high.upper(epsilon) + above.lost, 1.0),
            planned_for_more,
        )

    lower, upper = _refined(
        attempt, 0.5, 2e-3 if below is above else 5e-3, 0.0
    )  # atoms are not nearer
    if below is above and upper > 0:  # smoothing has raised it slightly
        with contextlib.suppress(CannotCertify):
            value = float(
                settled(below, tilts, epsilon, epsilon, math.log(upper), 0.0).value(
                    epsilon
                )
            )
    return min(max(value, lower), upper), lower, upper
