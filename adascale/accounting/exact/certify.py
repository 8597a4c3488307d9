"""Epsilon and delta between proven bounds: the best of several proofs, whatever the schedule.

Every proof improves a :class:`Proof`: by inversion of the rounds as they are, by inversion of discrete rounds that
leak less and more, and by bounds on delta in closed form or by real moments.
"""

import contextlib
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import erf

from adascale import checks as check
from adascale.accounting.events import Events, compose_events
from adascale.accounting.exact import gaussian
from adascale.accounting.exact.discrete import discretised
from adascale.accounting.exact.inversion import (
    gaussian_log_moment,
    largest_smoothing,
    log_chernoff,
    proven_log_moment_at,
    scan_tilts,
)
from adascale.accounting.exact.moments import QUIET
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.sums import (
    Bounding,
    is_below,
    nearest,
    refine,
    rough_epsilon,
    sharp,
    sharp_delta,
    sharp_in_direction,
    smoothed_sums,
)
from adascale.accounting.interval import (
    ADD,
    DIRECTIONS,
    REMOVE,
    CertifiedInterval,
    Proof,
)
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

Bound = Callable[[float], float]
"""A function of epsilon that bounds delta from one side."""
_SAFE = 1e-9  # relative margin for the rounding of closed forms
_NO_EPSILON = 1e-6  # an epsilon proven to be below this needs no lower bound above 0
_NO_DELTA = 1e-290  # nor does such a delta
_WIDTH = 9e-4  # the relative width to aim for
# cell width in L, mass beyond the cells over delta, chance of losses that count as one, and distinct rounds
_GRIDS = (0.02, 1e-3, 1e-2, 200), (0.01, 1e-4, 1e-4, 600), (0.01, 1e-4, 1e-300, 600)
_FEW_KINDS = 40  # distinct rounds of a first look
_REACH = 2.0  # times epsilon: larger losses may count as one
_MOST_REACHES = 8  # that are tried
_BEYOND = 1e30  # an epsilon above every loss
_OUTWARD = 1e-12  # how far the last roundings may move a bound
# fewer samples in all, and by as much fewer as the rate is larger: discrete rounds are tried first
_RARE_RATE, _RARE_SAMPLES = 5e-4, 5.0


def epsilon(events: Events, delta: float) -> CertifiedInterval:
    r"""Compute the smallest :math:`\varepsilon` with :math:`\delta(\varepsilon) \le \delta`, between proven bounds.

    It is for Poisson sampling and add/remove adjacency, in the larger direction (:eq:`eq:inversion`, :ref:`app-exact`).

    Parameters
    ----------
    events : sequence of (sampling_rate, noise_multiplier, count)
        Rates are in [0, 1], noise multipliers > 0, and counts whole and >= 0; without a count it is 1. A group of k
        samples is ``(1, sigma / k, n)``, replaced instead of removed samples without sampling ``(1, sigma / 2, n)``,
        and a Gaussian matrix mechanism of sensitivity s ``(1, sigma / s, 1)``.
    delta : float, in (0, 1)

    Examples
    --------
    >>> float(epsilon([(0.01, 1.0, 500), (0.02, 1.5, 500)], delta=1e-5))  # the upper bound
    1.898...
    >>> float(epsilon([(1, 40.0 / 2, 100)], delta=1e-5))  # for a group of two, or one replaced sample
    1.993...
    """
    return epsilon_interval(
        compose_events(events).to_rounds(), check.fraction("delta", delta)
    )


def delta(events: Events, epsilon: float) -> CertifiedInterval:
    r"""Compute :math:`\delta` at :math:`\varepsilon \ge 0`, between proven bounds; see :func:`epsilon`."""
    return delta_interval(
        compose_events(events).to_rounds(), check.number("epsilon", epsilon, 0.0)
    )


def advantage(events: Events) -> CertifiedInterval:
    r"""Compute the largest true minus false positive rate of a test for a sample, :math:`\delta(0)`."""
    return delta(events, 0.0)


@QUIET
def epsilon_interval(rounds: Rounds, delta: float) -> CertifiedInterval:
    """Bound epsilon from both sides by the best of all proofs."""
    if mechanism := rounds.as_one_gaussian():
        ends = gaussian.epsilon(*mechanism, delta)
        return _known_interval(ends, _NO_EPSILON, "closed form")
    if max(rounds.infinite_mass(name, -1) for name in DIRECTIONS) > delta:
        return _known_interval((math.inf,) * 3, _NO_EPSILON, "infinite losses")
    if total_variation(rounds) <= delta:
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
    proof.reduce_upper(total_variation(rounds), "total variation")
    for name in DIRECTIONS:
        proof.raise_lower(rounds.infinite_mass(name, -1), "infinite losses")
    if epsilon > _BEYOND:  # no schedule of floating point has such losses
        proof.by_bounds(rounds)
        proof.lower = 0.0
        return proof.interval()
    if rounds.largest_loss <= epsilon:
        proof.reduce_upper(0.0, "largest loss", REMOVE)
    if rounds.rate.size:
        proof.raise_lower(float(one_round(rounds, epsilon)), "one round")
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

    def look(self, discretised: Callable[[float], Rounds]) -> None:
        """Approximate epsilon by discrete rounds whose losses have less and less reach."""
        self.near = max(self.upper.values())
        for _ in range(_MOST_REACHES):
            before = self.near
            rounds = discretised(_REACH * before)
            tilts = scan_tilts(rounds, ADD, math.log(self.delta))
            self.near = rough_epsilon(rounds, tilts, self.delta)
            if self.near > 0.5 * before:
                break

    def by_bounds(self, rounds: Rounds) -> None:
        """Use every bound on delta in closed form or by real moments."""
        uppers, lowers = all_bounds(rounds, math.log(self.delta), 0.0)
        for name, directions, bound in uppers:
            end = nearest(bound, self.delta, 0.0, 1e-6, 1)
            self.reduce_upper(end, name, *directions)
        for name, bound in lowers:
            if bound(self.lower) >= self.delta:
                step = max(self.lower, 1e-6)
                end = nearest(bound, self.delta, self.lower, step, -1)
                self.raise_lower(end, name)

    def invert(self, rounds: Bounding, name: str) -> None:
        """Prove a lower bound by the rounds that leak less, and upper bounds by those that leak more."""
        above = rounds[-1]
        if not max(map(above.infinite_mass, DIRECTIONS)) < self.delta:
            raise CannotCertify("infinite losses alone may exceed delta")
        is_exact = len(rounds) == 1
        epsilons = sharp(above, self.delta) if is_exact else {ADD: self.near}
        direction = max(epsilons, key=lambda each: epsilons[each])
        if is_exact:
            self.estimate, self.direction = epsilons[direction], direction
        self._invert_direction(rounds, direction, epsilons[direction], name)
        other = REMOVE if direction == ADD else ADD
        upper = self.upper[direction]
        rest = self.delta - above.infinite_mass(other)
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
            tilts = scan_tilts(rounds[0], other, math.log(rest))
            epsilons[other] = find(rounds[0], tilts, rest)
        self._invert_direction(rounds, other, epsilons[other], name)

    def _invert_direction(
        self, rounds: Bounding, direction: str, value: float, name: str
    ) -> None:
        """Prove both bounds in one direction by sums around a value, smoothed less and less."""
        tilts = [scan_tilts(each, direction, None, value) for each in rounds]
        slope = tilts[0].best(value)
        rest = self.delta - rounds[-1].infinite_mass(direction)
        least = self.delta - rounds[0].infinite_mass(direction, -1)
        scale = max(value, 0.1 / slope)
        # atoms are not nearer, and longer sums of them are hardly slower
        aim, first = (_WIDTH, 0.8) if len(rounds) == 1 else (3 * _WIDTH, 0.5)
        largest_tau = largest_smoothing(value, slope)

        def prove(width: float) -> tuple[float, float]:
            tau = min(math.sqrt(width * scale / (1.3 * (slope + 1))), largest_tau)
            totals = smoothed_sums(rounds, tilts, value, math.log(rest), tau)
            low = totals[0]
            high = totals[-1]
            step = max(0.3 * width * value, 1e-4 / low.where.tilt)
            lower = nearest(low.lower, least, value, step, -1)
            upper = 0.0
            if not high.upper(0.0) <= rest:
                upper = nearest(high.upper, rest, value, step, 1)
            self.raise_lower(lower * (1 - _OUTWARD), name)
            self.reduce_upper(upper * (1 + _OUTWARD), name, direction)
            return lower, upper

        refine(prove, first * aim, aim, 0.1 * _NO_EPSILON)


class DeltaProof(Proof):
    """Bounds on delta at one epsilon."""

    def __init__(self, epsilon: float) -> None:
        super().__init__(1.0, _NO_DELTA)
        self.epsilon = self.near = epsilon

    def least_delta(self) -> float:
        """Return the delta to which discrete rounds have to be right."""
        return max(self.lower, 1e-25 * max(self.upper.values()))

    def by_bounds(self, rounds: Rounds) -> None:
        """Use every bound on delta in closed form or by real moments."""
        uppers, lowers = all_bounds(rounds, None, self.epsilon)
        for name, directions, bound in uppers:
            self.reduce_upper(bound(self.epsilon), name, *directions)
        for name, bound in lowers:
            self.raise_lower(bound(self.epsilon), name)

    def invert(self, rounds: Bounding, name: str) -> None:
        """Prove a lower bound by the rounds that leak less, and upper bounds by those that leak more."""
        epsilon = self.epsilon
        above = rounds[-1]
        for direction in DIRECTIONS:
            value, lower, upper = sharp_delta(rounds, direction, epsilon)
            if direction == ADD or value > self.estimate:
                self.estimate, self.direction = value, direction
            self.raise_lower(lower, name)
            self.reduce_upper(upper, name, direction)
            # delta(0) is the same in both directions
            rest = lower - above.infinite_mass(REMOVE)
            if direction == ADD and (
                epsilon == 0 or is_below(above, REMOVE, rest, epsilon)
            ):
                self.reduce_upper(upper, name, REMOVE)
                return


def _by_all_proofs(
    rounds: Rounds, proof: EpsilonProof | DeltaProof
) -> CertifiedInterval:
    """Try proofs until the interval is narrow; beside atoms, sampled rounds can only be discretised."""
    attempts = [by_discretisation] if rounds.rate.size else []
    if not (attempts and rounds.atoms):
        attempts.insert(0, by_inversion)
    # where few samples are expected, discrete rounds are faster and nearer
    largest = rounds.rate.max(initial=0.0)
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
    proof.invert((rounds,), "minus one" if rounds.atoms else "inversion")


def by_discretisation(rounds: Rounds, proof: EpsilonProof | DeltaProof) -> None:
    """Prove bounds by discrete rounds that lower delta and by others that raise it."""
    for width, lost, seldom, most in _GRIDS:
        log_lost = math.log(proof.least_delta()) + math.log(lost)
        on_grid = partial(
            discretised, rounds, width=width, log_lost=log_lost, seldom=seldom
        )
        if isinstance(proof, EpsilonProof) and math.isnan(proof.near):
            proof.look(partial(on_grid, False, most=_FEW_KINDS))
        reach = _REACH * proof.near
        both = tuple(on_grid(above, reach, most=most) for above in (False, True))
        proof.invert(both, "minus one")
        if not proof.is_wide():
            break


def total_variation(rounds: Rounds) -> float:
    """Bound the total variation delta(0) between both outputs, by that of each round."""
    apart = math.erf(math.sqrt(rounds.gaussian / 8)), rounds.variation_of_atoms
    log_equal = float(np.log1p(-np.array(apart)).sum())
    sampled = rounds.rate * erf(np.sqrt(rounds.u / 8))
    log_equal += float((rounds.number * np.log1p(-sampled)).sum())
    return -math.expm1(log_equal) * (1 + 1e-9)


def all_bounds(
    rounds: Rounds, log_delta: float | None, epsilon: float
) -> tuple[list[tuple[str, tuple[str, ...], Bound]], list[tuple[str, Bound]]]:
    """Return the upper bounds, each with the directions for which it holds, and the lower bounds."""
    energy = rounds.gaussian
    lowers: list[tuple[str, Bound]] = [("Gaussian", partial(_gaussian, energy, 1))]
    uppers: list[tuple[str, tuple[str, ...], Bound]] = []
    if not rounds.atoms:
        energy += float((rounds.number * rounds.u).sum())
        uppers.append(("Gaussian", DIRECTIONS, partial(_gaussian, energy, 2)))
    if rounds.rate.size:
        lowers.append(("one round", partial(one_round, rounds)))
    for direction in DIRECTIONS:
        with contextlib.suppress(ArithmeticError):
            tilt = scan_tilts(rounds, direction, log_delta, epsilon).tilt
            proven = [proven_log_moment_at(rounds, direction, a) for a in tilt.tolist()]
            log_moment = proven + gaussian_log_moment(rounds.gaussian, tilt)
            lost = rounds.infinite_mass(direction)
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
    log_bound = float(log_chernoff(tilt, log_moment, epsilon).min())
    chernoff = math.exp(min(log_bound, 0.0))
    return min(math.nextafter(chernoff, 1.0) + lost, 1.0)  # it may underflow
