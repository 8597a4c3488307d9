"""Proven bounds on epsilon and delta: the best of several proofs, whatever the schedule.

Every proof improves a :class:`Proof`: by inversion of the rounds as they are, by inversion of discrete rounds that
leak less and more, and by bounds on delta in closed form or by real moments.
"""

import contextlib
import math
from collections.abc import Callable
from functools import partial

from adascale.accounting.exact import bounds, gaussian
from adascale.accounting.exact.discretisation import cut
from adascale.accounting.exact.inversion import (
    ADD,
    DIRECTIONS,
    REMOVE,
    largest_smoothing,
    lost_in,
    scan_tilts,
)
from adascale.accounting.exact.moments import QUIET
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.sums import (
    is_below,
    nearest,
    refine,
    rough_epsilon,
    scan_both,
    sharp,
    sharp_delta,
    sharp_in_direction,
    smoothed_sums,
)
from adascale.accounting.interval import WIDEST, CertifiedInterval
from adascale.errors import CannotCertify

_NO_EPSILON = 1e-6  # an epsilon proven to be below this needs no lower bound above 0
_NO_DELTA = 1e-290  # nor does such a delta
_WIDTH = 9e-4  # the relative width to aim for
# cell width in L, mass beyond the cells over delta, chance of losses that count as one, and distinct rounds
_CUTS = (0.02, 1e-3, 1e-2, 200), (0.01, 1e-4, 1e-4, 600), (0.01, 1e-4, 1e-300, 600)
_FEW_KINDS = 40  # distinct rounds of a first look
_REACH = 2.0  # times epsilon: larger losses may count as one
_MOST_REACHES = 8  # that are tried
_FAR = 100, 2.0  # steps from an epsilon of 1e-6, and their growth: beyond 1e24
_BEYOND = 1e30  # an epsilon above every loss
_OUTWARD = 1e-12  # how far the last roundings may move a bound
# fewer samples in all, and by as much fewer as the rate is larger: discrete rounds are tried first
_RARE_RATE, _RARE_SAMPLES = 5e-4, 5.0


class Proof:
    """The best bounds proven so far of a number: from below of the larger direction, from above of each.

    ``estimate`` is near the number and not proven, ``direction`` is the one that determines it, and a difference of
    the bounds below ``negligible`` need not be smaller.
    """

    def __init__(self, largest: float, negligible: float) -> None:
        self.lower = 0.0
        self.upper = dict.fromkeys(DIRECTIONS, largest)
        self.names = dict.fromkeys(("lower", *DIRECTIONS), "trivial")
        self.estimate = math.nan
        self.direction = ADD
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

    def is_wide(self) -> bool:
        """Check whether the interval is too wide to be certified."""
        upper = max(self.upper.values())
        narrow = max(WIDEST * upper, self.negligible)
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
    if max(lost_in(rounds, name, -1) for name in DIRECTIONS) > delta:
        return _known_interval((math.inf,) * 3, _NO_EPSILON, "infinite losses")
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
    for name in DIRECTIONS:
        proof.raise_lower(lost_in(rounds, name, -1), "infinite losses")
    if epsilon > _BEYOND:  # no schedule of floating point has such losses
        proof.by_bounds(rounds)
        proof.lower = 0.0
        return proof.interval()
    if rounds.largest_loss <= epsilon:
        proof.reduce_upper(0.0, "largest loss", REMOVE)
    if rounds.rates:
        proof.raise_lower(float(bounds.one_round(rounds, epsilon)), "one round")
    return _by_all_proofs(rounds, proof)


def _known_interval(
    ends: tuple[float, float, float], negligible: float, name: str
) -> CertifiedInterval:
    value, lower, upper = map(float, ends)
    return CertifiedInterval(lower, upper, (name, name), ADD, value, upper, negligible)


class EpsilonProof(Proof):
    """Bounds on epsilon at one delta."""

    def __init__(self, delta: float) -> None:
        super().__init__(math.inf, _NO_EPSILON)
        self.delta = delta
        self.near = math.nan

    def least_delta(self) -> float:
        """Return the delta to which discrete rounds have to be right."""
        return self.delta

    def near_epsilon(self, rounds: Callable[[float], Rounds]) -> float:
        """Approximate epsilon by rounds whose losses have less and less reach."""
        before = max(self.upper.values())
        for _ in range(_MOST_REACHES * math.isnan(self.near)):
            near = rounds(_REACH * before)
            tilts = scan_tilts(near, ADD, math.log(self.delta))
            self.near = rough_epsilon(near, tilts, self.delta)
            if self.near > 0.5 * before:
                break
            before = self.near
        return self.near

    def by_bounds(self, rounds: Rounds) -> None:
        """Use every bound on delta in closed form or by real moments."""
        uppers, lowers = bounds.all_bounds(rounds, math.log(self.delta), 0.0)
        for name, directions, bound in uppers:
            end = nearest(bound, self.delta, 0.0, 1e-6, 1, *_FAR)
            self.reduce_upper(end, name, *directions)
        for name, bound in lowers:
            if bound(self.lower) >= self.delta:
                step = max(self.lower, 1e-6)
                end = nearest(bound, self.delta, self.lower, step, -1, *_FAR)
                self.raise_lower(end, name)

    def invert(self, below: Rounds, above: Rounds, name: str) -> None:
        """Prove a lower bound by ``below``, and upper bounds by ``above``; delta is between those of both."""
        if not max(lost_in(above, name) for name in DIRECTIONS) < self.delta:
            raise CannotCertify("infinite losses alone may exceed delta")
        is_exact = below is above
        if is_exact:
            value, direction, epsilons = sharp(below, self.delta)
            self.estimate, self.direction = value, direction
        else:
            direction = ADD
            value = self.near
            epsilons = {ADD: value}
        self._invert_direction(below, above, direction, value, name)
        other = REMOVE if direction == ADD else ADD
        upper = self.upper[direction]
        rest = self.delta - lost_in(above, other)
        # delta(0) is the same in both directions
        if (
            upper == 0
            or self.upper[other] <= upper
            or is_below(above, other, rest, upper)
        ):
            self.reduce_upper(upper, name, other)
            return
        if other not in epsilons:
            find = sharp_in_direction if is_exact else rough_epsilon
            tilts = scan_tilts(below, other, math.log(rest))
            epsilons[other] = find(below, tilts, rest)
        self._invert_direction(below, above, other, epsilons[other], name)

    def _invert_direction(
        self, below: Rounds, above: Rounds, direction: str, value: float, name: str
    ) -> None:
        """Prove both bounds in one direction by sums around a value, smoothed less and less."""
        tilts = scan_both(below, above, direction, value)
        slope = tilts[0].best(value)
        rest = self.delta - lost_in(above, direction)
        least = self.delta - lost_in(below, direction, -1)
        scale = max(value, 0.1 / slope)
        # atoms are not nearer, and longer sums of them are hardly slower
        aim, first = (_WIDTH, 0.8) if below is above else (3 * _WIDTH, 0.5)
        largest_tau = largest_smoothing(value, slope)

        def prove(width: float) -> tuple[float, float, bool]:
            tau = min(math.sqrt(width * scale / (1.3 * (slope + 1))), largest_tau)
            low, high = smoothed_sums(below, above, tilts, value, math.log(rest), tau)
            step = max(0.3 * width * value, 1e-4 / low.where.tilt)
            lower = nearest(low.lower, least, value, step, -1)
            upper = 0.0
            if not high.upper(0.0) <= rest:
                upper = nearest(high.upper, rest, value, step, 1)
            self.raise_lower(lower * (1 - _OUTWARD), name)
            self.reduce_upper(upper * (1 + _OUTWARD), name, direction)
            return lower, upper, True

        refine(prove, first * aim, aim, 0.1 * _NO_EPSILON)


class DeltaProof(Proof):
    """Bounds on delta at one epsilon."""

    def __init__(self, epsilon: float) -> None:
        super().__init__(1.0, _NO_DELTA)
        self.epsilon = epsilon

    def least_delta(self) -> float:
        """Return the delta to which discrete rounds have to be right."""
        return max(self.lower, 1e-25 * max(self.upper.values()))

    def near_epsilon(self, rounds: Callable[[float], Rounds]) -> float:
        """Return epsilon, without a look at the rounds."""
        return self.epsilon

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
            rest = lower - lost_in(above, REMOVE)
            if direction == ADD and (
                epsilon == 0 or is_below(above, REMOVE, rest, epsilon)
            ):
                self.reduce_upper(upper, name, REMOVE)
                return


def _by_all_proofs(
    rounds: Rounds, proof: EpsilonProof | DeltaProof
) -> CertifiedInterval:
    """Try proofs until the interval is narrow; beside atoms, sampled rounds can only be discretised."""
    attempts = [by_discretisation] if rounds.rates else []
    if not (rounds.rates and rounds.atoms):
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
    proof.by_bounds(rounds)
    return proof.interval()


def by_inversion(rounds: Rounds, proof: EpsilonProof | DeltaProof) -> None:
    """Prove bounds by the moments of the sampled rounds, or of the atoms if there are no others."""
    proof.invert(rounds, rounds, "minus one" if rounds.atoms else "inversion")


def by_discretisation(rounds: Rounds, proof: EpsilonProof | DeltaProof) -> None:
    """Prove bounds by discrete rounds that lower delta and by others that raise it."""
    for width, lost, seldom, most in _CUTS:
        log_lost = math.log(proof.least_delta()) + math.log(lost)
        cut_at = partial(cut, rounds, width=width, log_lost=log_lost, seldom=seldom)
        reach = _REACH * proof.near_epsilon(partial(cut_at, False, most=_FEW_KINDS))
        below = cut_at(False, reach, most=most)
        above = cut_at(True, reach, most=most)
        proof.invert(below, above, "minus one")
        if not proof.is_wide():
            break
