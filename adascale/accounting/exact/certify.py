"""Proven bounds on epsilon and delta: the best of several proofs, whatever the schedule.

Every proof improves a :class:`Proof`: by inversion of the rounds as they are, by inversion of discrete rounds that
leak less and more, and by bounds on delta in closed form or by real moments.
"""

import contextlib
import math
from collections.abc import Iterator

from adascale.accounting.exact import bounds, gaussian, inversion
from adascale.accounting.exact.discrete import cut
from adascale.accounting.exact.inversion import (
    ADD,
    DIRECTIONS,
    REMOVE,
    Inversion,
    Tilts,
    choose_line,
    gaussian_log_moment,
    largest_smoothing,
    scan_tilts,
)
from adascale.accounting.exact.moments import QUIET
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.search import (
    converged_sum,
    rough_epsilon,
    sharp,
    sharp_in_direction,
)
from adascale.accounting.interval import WIDEST, CertifiedInterval
from adascale.errors import CannotCertify, RoundingFloor
from adascale.rootfind import solve

_NO_EPSILON = 1e-6  # an epsilon proven to be below this needs no lower bound above 0
_NO_DELTA = 1e-290  # nor does such a delta
_WIDTH = 9e-4  # the relative width to aim for
_LOG_ALIASES = math.log(1e-6)  # in the bounds, relative to delta
_DIGITS = 27.0  # -ln of the interpolation error
_CUTS = (
    (0.02, 1e-3),
    (0.01, 1e-4),
)  # cell width in L, and mass beyond the cells over delta
_FLOOR = math.log(0.9)  # ln of the largest other error of a sum, relative to delta
_FAR = 100, 2.0  # steps from an epsilon of 1e-6, and their growth: beyond 1e24
_BEYOND = 1e30  # an epsilon above every loss
_OUTWARD = 1e-12  # how far the last roundings may move a bound
# fewer samples in all, and by as much fewer as the rate is larger: discrete rounds are tried first
_RARE_RATE, _RARE_SAMPLES = 5e-4, 5.0


class Proof:
    """The best bounds proven so far of a number: from below of the larger direction, from above of each.

    ``estimate`` is near the number and not proven, ``direction`` is the one that determines it, and a difference of
    the bounds below ``negligible`` needs not be smaller.
    """

    def __init__(self, largest: float, negligible: float) -> None:
        self.lower, self.upper = 0.0, dict.fromkeys(DIRECTIONS, largest)
        self.names = dict.fromkeys(("lower", *DIRECTIONS), "trivial")
        self.estimate, self.direction = math.nan, ADD
        self.negligible = negligible

    def raise_lower(self, value: float, name: str) -> None:
        """Record a lower bound."""
        if value > self.lower:
            self.lower, self.names["lower"] = value, name

    def reduce_upper(self, value: float, name: str, *directions: str) -> None:
        """Record an upper bound on one direction or on both."""
        for direction in directions or DIRECTIONS:
            if value < self.upper[direction]:
                self.upper[direction], self.names[direction] = value, name

    def is_wide(self, widest: float = WIDEST) -> bool:
        """Check whether the interval is wider than this, relative to its upper end."""
        upper = max(self.upper.values())
        narrow = max(widest * upper, self.negligible)
        return not (upper < math.inf and upper - self.lower <= narrow)

    def interval(self) -> CertifiedInterval:
        """Return the interval."""
        larger = max(DIRECTIONS, key=lambda name: self.upper[name])
        upper = float(self.upper[larger])
        lower = float(min(self.lower, upper))
        estimate = min(max(self.estimate, lower), upper)
        if math.isnan(self.estimate):
            estimate = 0.5 * (lower + upper)
        ends = self.names["lower"], self.names[larger]
        return CertifiedInterval(
            lower, upper, ends, self.direction, estimate, upper, self.negligible
        )


@QUIET
def epsilon_interval(rounds: Rounds, delta: float) -> CertifiedInterval:
    """Bound epsilon from both sides by the best of all proofs."""
    if mechanism := rounds.as_one_gaussian():
        ends = gaussian.epsilon(*mechanism, delta)
        return _known_interval(ends, _NO_EPSILON, "closed form")
    if bounds.total_variation(rounds) <= delta:
        return _known_interval((0.0, 0.0, 0.0), _NO_EPSILON, "total variation")
    proof = EpsilonProof(delta)
    proof.reduce_upper(rounds.largest_loss, "largest loss", REMOVE)
    return _by_all_proofs(rounds, proof)


@QUIET
def delta_interval(rounds: Rounds, epsilon: float) -> CertifiedInterval:
    """Bound delta from both sides by the best of all proofs."""
    if mechanism := rounds.as_one_gaussian():
        ends = gaussian.sampled_delta(*mechanism, epsilon)
        return _known_interval(ends, _NO_DELTA, "closed form")
    proof = DeltaProof(min(epsilon, _BEYOND))
    proof.reduce_upper(bounds.total_variation(rounds), "total variation")
    if epsilon > _BEYOND:  # no schedule of floating point has such losses
        proof.by_bounds(rounds)
        proof.lower = 0.0
        return proof.interval()
    if rounds.largest_loss <= epsilon:
        proof.reduce_upper(0.0, "largest loss", REMOVE)
    if rounds.rates:
        q, u = max(
            (q, float(u[-1]))
            for q, u in zip(rounds.rates, rounds.energies, strict=True)
        )
        lower = gaussian.sampled_delta(q, u * (1 - 1e-9), epsilon)[1]
        proof.raise_lower(float(lower), "one round")
    return _by_all_proofs(rounds, proof)


def _known_interval(
    ends: tuple[float, float, float], negligible: float, name: str
) -> CertifiedInterval:
    value, lower, upper = map(float, ends)
    return CertifiedInterval(lower, upper, (name, name), ADD, value, upper, negligible)


class EpsilonProof(Proof):
    """Bounds on epsilon at one delta."""

    narrow = 5 * _WIDTH  # the width at which no finer discrete rounds are tried

    def __init__(self, delta: float) -> None:
        super().__init__(math.inf, _NO_EPSILON)
        self.delta = delta

    def least_delta(self) -> float:
        """Return the delta to which discrete rounds have to be right."""
        return self.delta

    def of_other_rounds(self, rounds: Rounds) -> CertifiedInterval:
        """Bound epsilon of other rounds at this delta."""
        return epsilon_interval(rounds, self.delta)

    def by_bounds(self, rounds: Rounds) -> None:
        """Use every bound on delta in closed form or by real moments."""
        uppers, lowers = bounds.all_bounds(rounds, math.log(self.delta), 0.0)
        for name, directions, bound in uppers:
            end = _nearest(bound, self.delta, 0.0, 1e-6, 1, *_FAR)
            self.reduce_upper(end, name, *directions)
        for name, bound in lowers:
            if bound(self.lower) >= self.delta:
                step = max(self.lower, 1e-6)
                end = _nearest(bound, self.delta, self.lower, step, -1, *_FAR)
                self.raise_lower(end, name)

    def invert(self, below: Rounds, above: Rounds, name: str) -> None:
        """Prove a lower bound by ``below``, and upper bounds by ``above``; delta is between those of both."""
        is_exact, log_delta = below is above, math.log(self.delta)
        if is_exact:
            value, direction, epsilons = sharp(below, self.delta)
            self.estimate, self.direction = value, direction
        else:
            direction, tilts = ADD, scan_tilts(below, ADD, log_delta)
            value = rough_epsilon(below, tilts, self.delta)
            epsilons = {ADD: value}
        self._invert_direction(below, above, direction, value, name)
        other = REMOVE if direction == ADD else ADD
        upper, rest = self.upper[direction], self.delta - above.lost
        # delta(0) is the same in both directions
        if (
            upper == 0
            or self.upper[other] <= upper
            or is_below(above, other, rest, upper, epsilons.get(other))
        ):
            self.reduce_upper(upper, name, other)
            return
        if other not in epsilons:
            find = sharp_in_direction if is_exact else rough_epsilon
            tilts = scan_tilts(below, other, log_delta)
            epsilons[other] = find(below, tilts, self.delta)
        self._invert_direction(below, above, other, epsilons[other], name)

    def _invert_direction(
        self, below: Rounds, above: Rounds, direction: str, value: float, name: str
    ) -> None:
        """Prove both bounds in one direction by sums around a value, smoothed less and less."""
        tilts = scan_both(below, above, direction, value)
        slope, rest = tilts[0].best(value), self.delta - above.lost
        scale = max(value, 0.1 / slope)
        aim = _WIDTH if below is above else 3 * _WIDTH  # atoms are not nearer
        refinement = Refinement(0.8, aim, 0.1 * _NO_EPSILON)
        for width in refinement.widths():
            tau = min(
                math.sqrt(width * scale / (1.3 * (slope + 1))),
                largest_smoothing(value, slope),
            )
            try:
                low, high = smoothed_sums(
                    below, above, tilts, value, math.log(self.delta), tau
                )
            except CannotCertify as error:
                refinement.record_failure(error)
                continue
            step = max(1e-4 * value, 1e-4 / low.where.tilt)
            lower = _nearest(low.lower, self.delta, value, step, -1)
            upper = 0.0
            if not high.upper(0.0) <= rest:
                upper = _nearest(high.upper, rest, value, step, 1)
            self.raise_lower(lower * (1 - _OUTWARD), name)
            self.reduce_upper(upper * (1 + _OUTWARD), name, direction)
            refinement.record(lower, upper)


class DeltaProof(Proof):
    """Bounds on delta at one epsilon."""

    narrow = WIDEST  # the width at which no finer discrete rounds are tried

    def __init__(self, epsilon: float) -> None:
        super().__init__(1.0, _NO_DELTA)
        self.epsilon = epsilon

    def least_delta(self) -> float:
        """Return the delta to which discrete rounds have to be right."""
        return max(self.lower, 1e-25 * max(self.upper.values()))

    def of_other_rounds(self, rounds: Rounds) -> CertifiedInterval:
        """Bound delta of other rounds at this epsilon."""
        return delta_interval(rounds, self.epsilon)

    def by_bounds(self, rounds: Rounds) -> None:
        """Use every bound on delta in closed form or by real moments."""
        uppers, lowers = bounds.all_bounds(rounds, None, self.epsilon)
        for name, directions, bound in uppers:
            self.reduce_upper(bound(self.epsilon), name, *directions)
        for name, bound in lowers:
            self.raise_lower(bound(self.epsilon), name)

    def invert(self, below: Rounds, above: Rounds, name: str) -> None:
        """Prove a lower bound by ``below``, and upper bounds by ``above``."""
        epsilon = self.epsilon
        for direction in DIRECTIONS:
            value, lower, upper = sharp_delta(below, above, direction, epsilon)
            if direction == ADD or value > self.estimate:
                self.estimate, self.direction = value, direction
            self.raise_lower(lower, name)
            self.reduce_upper(upper, name, direction)
            # delta(0) is the same in both directions
            if direction == ADD and (
                epsilon == 0
                or is_below(above, REMOVE, lower - above.lost, epsilon, None)
            ):
                self.reduce_upper(upper, name, REMOVE)
                return


def _by_all_proofs(
    rounds: Rounds, proof: EpsilonProof | DeltaProof
) -> CertifiedInterval:
    """Try proofs until the interval is narrow; rounds of both kinds can only be discretised."""
    is_mixed = bool(rounds.rates and rounds.atoms)
    attempts = [by_discretisation] if rounds.rates else []
    if not is_mixed:
        attempts.insert(0, by_inversion)
    # where few samples are expected, discrete rounds are faster and nearer
    largest = max(rounds.rates, default=0.0)
    if rounds.expected * max(1.0, largest / _RARE_RATE) < _RARE_SAMPLES:
        attempts.reverse()
    for attempt in attempts:
        with contextlib.suppress(ArithmeticError):
            attempt(rounds, proof)
        if not proof.is_wide():
            return proof.interval()
    if is_mixed:
        by_other_rounds(rounds, proof)
    else:
        proof.by_bounds(rounds)
    return proof.interval()


def by_inversion(rounds: Rounds, proof: EpsilonProof | DeltaProof) -> None:
    """Prove bounds by the moments of the sampled rounds, or of the atoms if there are no others."""
    proof.invert(rounds, rounds, "minus one" if rounds.atoms else "inversion")


def by_discretisation(rounds: Rounds, proof: EpsilonProof | DeltaProof) -> None:
    """Prove bounds by discrete rounds that lower delta and by others that raise it."""
    largest = max(float(u[-1]) for u in rounds.energies)
    if largest > 100.0:
        raise CannotCertify(
            "the moments of a round would take too many nodes, or overflow"
        )
    for width, lost in _CUTS:
        log_lost = math.log(proof.least_delta()) + math.log(lost)
        below, above = (cut(rounds, up, width, log_lost) for up in (False, True))
        proof.invert(below, above, "minus one")
        if not proof.is_wide(proof.narrow):
            break


def by_other_rounds(rounds: Rounds, proof: EpsilonProof | DeltaProof) -> None:
    """Leave out the sampled rounds, which lowers delta, or their sampling, which raises it."""
    energy = sum(
        float((n * u).sum())
        for u, n in zip(rounds.energies, rounds.counts, strict=True)
    )
    without = rounds._replace(rates=(), energies=(), counts=())
    unsampled = without._replace(gaussian=(rounds.gaussian + energy) * (1 + 1e-12))
    below = proof.of_other_rounds(without)
    above = proof.of_other_rounds(unsampled)
    proof.raise_lower(below.lower, below.ends[0])
    proof.reduce_upper(above.upper, above.ends[1])


class Refinement:
    """A search for two near bounds, by sums of smaller and smaller relative widths, in which smoothing has a part."""

    def __init__(self, first: float, aim: float, negligible: float) -> None:
        self.width, self.aim, self.negligible = first * aim, aim, negligible
        self.lower, self.upper, self.is_done = 0.0, math.inf, False
        self.error = CannotCertify("no upper bound was found")

    def widths(self) -> Iterator[float]:
        """Yield widths until both bounds are near or come no nearer; raise an error if there is no upper one."""
        for _ in range(7):
            yield self.width
            if self.is_done:
                break
        if not self.upper < math.inf:
            raise self.error

    def record(self, lower: float, upper: float, is_first_plan: bool = False) -> None:
        """Take bounds; after a first plan for too large a delta the next ones are nearer for sure."""
        before = self.upper - self.lower
        self.lower, self.upper = max(self.lower, lower), min(self.upper, upper)
        if not self.upper < math.inf:
            self.width *= 0.05
            return
        gap, near = self.upper - self.lower, self.aim * self.upper
        is_stuck = gap > 0.9 * before and not is_first_plan
        self.is_done = gap <= max(near, self.negligible) or is_stuck
        if not self.is_done:
            self.width *= 0.8 * max(near / gap, 0.05)

    def record_failure(self, error: CannotCertify) -> None:
        """Try a larger width after a sum of too many points, unless bounds are known or it is too large."""
        self.error = error
        self.is_done = (
            self.upper < math.inf
            or self.width > 0.5 * WIDEST
            or isinstance(error, RoundingFloor)
        )
        self.width *= 3.0


def scan_both(
    below: Rounds, above: Rounds, direction: str, epsilon: float
) -> tuple[Tilts, Tilts]:
    """Evaluate ln G of both rounds around the best tilts for this epsilon."""
    tilts = scan_tilts(below, direction, None, epsilon)
    if below is above:
        return tilts, tilts
    return tilts, scan_tilts(above, direction, None, epsilon)


def smoothed_sums(
    below: Rounds,
    above: Rounds,
    tilts: tuple[Tilts, Tilts],
    epsilon: float,
    log_delta: float,
    tau: float,
) -> tuple[Inversion, Inversion]:
    """Make the sums of both rounds around epsilon, smoothed by tau."""
    low = smoothed_sum(below, tilts[0], epsilon, log_delta, tau)
    if below is above:
        return low, low
    return low, smoothed_sum(above, tilts[1], epsilon, log_delta, tau)


def smoothed_sum(
    rounds: Rounds, tilts: Tilts, epsilon: float, log_delta: float, tau: float
) -> Inversion:
    """Make the sum around epsilon, smoothed by tau; raise an error if rounding is not small beside delta."""
    near = min(0.02 * epsilon, 2 / tilts.best(epsilon))
    line = choose_line(
        tilts, epsilon - near, epsilon + near, log_delta, _LOG_ALIASES, tau
    )
    tilt = line.tilt
    log_size = tilts.log_size(tilt, epsilon) - log_delta
    log_size = 14.0 + log_size + 0.5 * (tau * tilt) ** 2
    end = math.sqrt(2 * max(log_size, 2.0)) / math.sqrt(rounds.gaussian + tau * tau)
    count = max(int(end * line.period / (2 * math.pi)) + 2, 8)
    total = Inversion(rounds, tilts.direction, line, count, tau, _DIGITS)
    total.prove()
    log_error = math.log(total.error * total.step / math.pi)
    log_off = log_error + total.log_moment - tilt * epsilon - log_delta
    if not log_off <= _FLOOR:  # also if it is not a number
        size = math.exp(min(log_off, 700.0))
        raise RoundingFloor(f"rounding errors may amount to {size:.2g} times delta")
    return total


def _nearest(
    bound: bounds.Bound,
    delta: float,
    start: float,
    step: float,
    sign: int,
    most: int = 40,
    growth: float = 1.5,
) -> float:
    """Find the least epsilon (``sign`` 1) or the largest (-1) that the bound proves, or inf or 0 if there is none."""

    def holds(epsilon: float) -> bool:
        return bound(epsilon) <= delta if sign > 0 else bound(epsilon) >= delta

    proven, here = holds(start), start
    for _ in range(most):
        there = max(here + (-sign if proven else sign) * step, 0.0)
        if holds(there) != proven:
            break
        if there == 0:
            return 0.0
        here, step = there, growth * step
    else:
        return here if proven else math.inf if sign > 0 else 0.0
    root = solve(lambda x: bound(x) - delta, min(here, there), max(here, there))
    for outward in (0.0, 1e-10, 1e-8, 1e-6):
        end = root * (1 + sign * outward)
        if holds(end):
            return end
    return here if proven else there


def is_below(
    rounds: Rounds,
    direction: str,
    delta: float,
    epsilon: float,
    believed: float | None,
) -> bool:
    """Check that epsilon in this direction, which is believed to be near a value, is provably at most the given one."""
    if direction == REMOVE and rounds.largest_loss <= epsilon:
        return True
    if delta <= 0:
        return False
    tilts, log_delta = scan_tilts(rounds, direction, None, epsilon), math.log(delta)
    a = tilts.best(epsilon)  # approximately the slope of -ln delta as well
    if tilts.log_bound(epsilon).min() < log_delta + 0.5:
        log_moment = inversion.proven_log_moment_at(rounds, direction, a)
        log_moment += gaussian_log_moment(rounds.gaussian, a)
        log_bound = log_moment + inversion.chernoff_offset(a) - a * epsilon
        rounding = 1e-13 * (abs(log_moment) + a * epsilon + 10)
        if log_bound + rounding <= log_delta:
            return True
    if believed is None or believed > 0.998 * epsilon:
        return False
    tau = min(
        math.sqrt(0.5 * (epsilon - believed) / (a + 1)), largest_smoothing(epsilon, a)
    )
    with contextlib.suppress(CannotCertify):
        total = smoothed_sum(rounds, tilts, epsilon, log_delta, tau)
        return total.upper(epsilon) <= delta
    return False


def sharp_delta(
    below: Rounds, above: Rounds, direction: str, epsilon: float
) -> tuple[float, float, float]:
    """Compute the sharp delta of one direction and its proven bounds, by sums that are smoothed less and less."""
    if direction == REMOVE and above.largest_loss <= epsilon:
        return 0.0, 0.0, 0.0
    is_exact, value = below is above, math.nan
    tilts = scan_both(below, above, direction, epsilon)
    slope = tilts[0].best(epsilon)
    log_delta = min(float(tilts[0].log_bound(epsilon).min()) - 2.0, -1e-3)
    refinement = Refinement(0.5, 2e-3 if is_exact else 5e-3, 0.0)
    for width in refinement.widths():
        tau = min(
            math.sqrt(width / (1.3 * slope * (slope + 1))),
            largest_smoothing(epsilon, slope),
        )
        try:
            low, high = smoothed_sums(below, above, tilts, epsilon, log_delta, tau)
        except CannotCertify as error:
            refinement.record_failure(error)
            continue
        value = float(low.value(epsilon))
        is_first_plan = 0 < value < 0.3 * math.exp(log_delta)
        if is_first_plan:
            log_delta = math.log(value)
        upper = min(high.upper(epsilon) + above.lost, 1.0)
        refinement.record(low.lower(epsilon), upper, is_first_plan)
    lower, upper = refinement.lower, refinement.upper
    if is_exact and upper > 0:  # smoothing has raised it slightly
        with contextlib.suppress(CannotCertify):
            log_upper = math.log(upper)
            total = converged_sum(below, tilts[0], epsilon, epsilon, log_upper, 0.0)
            value = float(total.value(epsilon))
    return min(max(value, lower), upper), lower, upper
