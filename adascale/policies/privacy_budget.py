"""PrivacyBudget: as little noise as an epsilon that no channel can exceed permits."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from adascale import checks as check
from adascale.accounting import Accountant, ExactAccountant, epsilon_by
from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.errors import BudgetNotReached
from adascale.policies.base import OnlinePolicy, PlanState, check_law, quantiles
from adascale.problem import RoundLeakage, kinds_that_may_leak_most
from adascale.rootfind import solve
from adascale.scenario import Scenario

# multiple of the level at which the rounds after a block must be able to keep within epsilon
_RESERVE = 4.0
# smallest and largest noise multiplier that a level may give to the kind of device with the least of them
_SIGMAS = 0.05, 1e9
# how far a plan may stay below the target, in ln epsilon: the last plan, and the first one
_CLOSE = 1e-3, 5e-3
_SLOPE = 1.25  # of ln epsilon against its estimate, before two points of it are known
# in the logarithm of the level: if a narrower bracket has no level close to the target, epsilon jumps there
_NARROW = 1e-5

Plan = Callable[[float], FloatArray]
"""The noise energies of all rounds at a level."""


@dataclass(frozen=True)
class PrivacyBudgetState(PlanState):
    """The current plan, and the rounds so far."""

    next_plan: int
    """The round with the next level."""
    level: FloatArray
    floors: FloatArray
    """The floors seen, shape (..., rounds)."""
    w: FloatArray
    """Noise energies of the same rounds, shape (..., rounds)."""


@dataclass(frozen=True)
class PrivacyBudget(OnlinePolicy):
    r"""Spend a privacy budget instead of a noise budget: no channel can exceed ``epsilon``.

    The policy has no :math:`\nu`.  It adds as little noise as it can, and how much that is depends on the channel.

    With n rounds left in round t, the water level :math:`\ell` is the least at which the plan

    .. math::
        w_0, \dots, w_{t-1}, \quad \max(\ell, w_{\min,t}), \quad
        m \text{ rounds at } \max(\ell, W), \qquad m = n - 1 + \varrho \ln n

    has an epsilon of at most the target for every device, where W has the distribution of the floors.  This level stays
    for a block of :math:`\lfloor n / 2 \rfloor` rounds, so there are about :math:`\log_2 T` plans.  Later floors may be
    lower than W.  So the level is raised, if necessary, until the plan with a block at :math:`\ell` and the rest at
    :math:`4 \ell`, without any floor, keeps within the target.  More noise never raises epsilon, hence every block ends
    within the target on every channel, as the next one can always go to :math:`4 \ell`.  The :math:`\varrho \ln n`
    further rounds are a margin for floors that turn out lower than those of the distribution.

    Without a distribution, W is one of the floors seen or, with weight 1 / (t + 2), an imaginary round without a floor.
    A block then has at most t rounds.

    Parameters
    ----------
    epsilon : float, > 0
        The largest epsilon of any device after all rounds, on every channel with an exposure of 1.
    delta : float, in (0, 1)
    law : FloorLaw, optional
        Distribution of the floors; default: that of the floors seen.
    safety_margin : float, :math:`\varrho \ge 0`
    accountant : Accountant, optional
        The accountant of ``epsilon``, by which more noise never leaks more; default
        :class:`~adascale.accounting.ExactAccountant`.
    """

    needs_epsilon: ClassVar[bool] = True
    budget_mode = "epsilon"

    epsilon: float
    delta: float = 1e-5
    law: FloorLaw | None = None
    safety_margin: float = 1.0
    accountant: Accountant = field(default_factory=ExactAccountant)

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, 1e-300)
        check.fraction("delta", self.delta)
        check.number("safety_margin", self.safety_margin, 0)
        if self.law is not None:
            check_law("law", self.law)

    def start(self, scenario: Scenario, budget: FloatArray) -> PrivacyBudgetState:
        # a policy with an epsilon spends no noise budget: its shape alone matters
        instances = np.broadcast_shapes(
            np.shape(budget), () if self.law is None else self.law.batch_shape
        )
        no_rounds = np.empty((*instances, 0))
        return PrivacyBudgetState(
            scenario,
            budget,
            round=0,
            next_plan=0,
            level=np.zeros(instances),
            floors=no_rounds,
            w=no_rounds,
        )

    def decide(
        self, state: PrivacyBudgetState, floor: FloatArray
    ) -> tuple[PrivacyBudgetState, FloatArray]:
        after = state.after(1, floors=_appended(state.floors, floor))
        if state.round >= state.next_plan:
            n = state.later + 1
            longest = n // 2 if self.law is not None else min(n // 2, state.round)
            block = max(longest, 1)
            level = self._levels(replace(state, floors=after.floors), block)
            after = replace(after, level=level, next_plan=state.round + block)
        w = np.maximum(after.level, floor)
        return replace(after, w=_appended(state.w, w)), w

    def _levels(self, state: PrivacyBudgetState, block: int) -> FloatArray:
        """Compute the level of a block of so many rounds for every instance."""
        expected = self._later_floors(state)
        multiples = np.repeat([1.0, _RESERVE], [block, state.later + 1 - block])
        levels = np.empty(state.level.shape)
        search = _Search(self, state)
        for i in np.ndindex(levels.shape):
            floors = np.concatenate([state.floors[i][-1:], expected[i]])
            plan = _expected_plan(state.w[i], floors)
            levels[i] = search.least_level(plan, float(state.level[i]))
            if state.later:
                guard = _guarded_plan(state.w[i], multiples)
                if search.excess(guard(float(levels[i]))) > 0:
                    levels[i] = search.least_level(guard, float(levels[i]))
        return levels

    def _later_floors(self, state: PrivacyBudgetState) -> FloatArray:
        """Return the floors that a plan expects after this round, shape (..., m), at m quantiles; m is rounded up."""
        later = state.later
        m = math.ceil(later + self.safety_margin * math.log(later + 1))
        share = (np.arange(m) + 0.5) / max(m, 1)
        shape = *state.level.shape, m
        if self.law is not None:
            return np.broadcast_to(quantiles(self.law, share), shape)
        imaginary = np.zeros((*state.level.shape, 1))
        floors = np.sort(_appended(state.floors, imaginary[..., 0]), axis=-1)
        return floors[..., (share * floors.shape[-1]).astype(int)]


def _expected_plan(decided: FloatArray, floors: FloatArray) -> Plan:
    """Return the plan with the noise of the rounds decided, and the level or the floor in the others."""
    return lambda level: np.concatenate([decided, np.maximum(level, floors)])


def _guarded_plan(decided: FloatArray, multiples: FloatArray) -> Plan:
    """Return the plan at multiples of the level, whatever the floors: rounds can have its noise on every channel."""
    return lambda level: np.concatenate([decided, level * multiples])


def _appended(rounds: FloatArray, new: FloatArray) -> FloatArray:
    return np.concatenate([rounds, np.expand_dims(new, -1)], axis=-1)


def _root(
    falling: Callable[[float], float], value: float, low: float, high: float
) -> float:
    """Find where a falling function is ``value`` between ``low`` and ``high``, or else the end that comes nearest."""
    if falling(low) <= value:
        return low
    if falling(high) >= value:
        return high
    return solve(lambda x: falling(x) - value, low, high, 1e-7)


class _Search:
    """The search for the least levels whose plans have the epsilon of a policy."""

    def __init__(self, policy: PrivacyBudget, state: PrivacyBudgetState) -> None:
        self.policy = policy
        leakage = RoundLeakage(state.scenario)
        T = state.scenario.num_rounds
        kinds = kinds_that_may_leak_most(leakage)
        self.rate = leakage.rate[kinds]
        self.unit_energy = leakage.unit_energy[kinds]
        largest = self.unit_energy.max()
        self.log_limits = [math.log(largest * sigma**2) for sigma in _SIGMAS]
        last, first = _CLOSE
        # an early plan may be coarser, since later ones make up for it
        self.close = max(first * (state.later + 1) / T, last)

    def excess(self, w: FloatArray) -> float:
        """Compute ln(epsilon / target) after these rounds, for the device with the largest epsilon."""
        policy = self.policy
        epsilon = max(
            float(epsilon_by(policy.accountant, float(q), sigma, policy.delta))
            for q, sigma in zip(self.rate, self._sigmas(w), strict=True)
        )
        return math.log(max(epsilon, 1e-300) / policy.epsilon)

    def least_level(self, plan: Plan, start: float) -> float:
        """Find a level whose plan has at most the target, and whose ln epsilon is at most ``close`` below it.

        The search is for x, the logarithm of the level.  Epsilon is slow to compute, and its estimate is fast: the next
        x is where the estimate has the value that a straight line predicts for the target.
        """

        def estimate(x: float) -> float:
            return self._estimate(plan(math.exp(x)))

        lowest, highest = low, high = self.log_limits
        x = math.log(start) if start > 0 else math.log(self.unit_energy.max())
        slope = _SLOPE
        last_excess = last_estimated = math.nan
        while high - low > _NARROW:
            excess = self.excess(plan(math.exp(x)))
            if excess <= 0 and (excess >= -self.close or x == lowest):
                return math.exp(x)
            if excess > 0:
                low = x
            else:
                high = x
            estimated = estimate(x)
            with np.errstate(all="ignore"):
                secant = np.divide(excess - last_excess, estimated - last_estimated)
            # other slopes are of points too close together, or at a jump
            if 0.3 < secant < 9:
                slope = float(secant)
            last_excess = excess
            last_estimated = estimated
            aim = estimated - (excess + self.close / 2) / slope
            last_x = x
            x = _root(estimate, aim, low, high)
            # the prediction has run into a point that is known already
            if x == last_x or (x in (low, high) and x not in self.log_limits):
                x = (low + high) / 2
        if low == highest:
            raise BudgetNotReached(
                f"no noise keeps epsilon = {self.policy.epsilon:g}: the rounds so far exceed it"
            )
        return math.exp(high)

    def _estimate(self, w: FloatArray) -> float:
        r"""Estimate ln epsilon by the central limit, :math:`\varepsilon = \mu^2/2 + \mu \sqrt{-2 \ln \delta}`."""
        # mu^2 of a sampled round, q^2 (exp(s) - 1) for s = 1 / sigma^2, which is never above that of one with q = 1;
        # exp(700) does not overflow
        s = self._sigmas(w) ** -2.0
        sampled = self.rate[:, None] ** 2 * np.expm1(np.minimum(s, 700.0))
        divergence = np.minimum(sampled, s)
        mu = math.sqrt(divergence.sum(axis=-1).max())
        tail = math.sqrt(-2 * math.log(self.policy.delta))
        return math.log(mu * (0.5 * mu + tail))

    def _sigmas(self, w: FloatArray) -> FloatArray:
        """Return the noise multipliers of each kind in rounds with these noise energies, shape (kinds, rounds)."""
        return np.sqrt(w / self.unit_energy[:, None])
