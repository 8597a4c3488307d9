"""AdaScale: the paper's online policy (Algorithm 1)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.compiled import compiled, inlined
from adascale.errors import AdaScaleError
from adascale.policies.base import CompiledPolicy, State, check_law, in_rows
from adascale.policies.optimal import water_level
from adascale.problem import LeakageTerms, Problem, RoundLeakage, slopes
from adascale.rootfind import Search, power_law_step, search_from
from adascale.scenario import Scenario


class NoRoot(AdaScaleError, RuntimeError):
    """Failure to find the root of a round of AdaScale in floating point."""


@dataclass(frozen=True)
class AdaScaleState(State):
    """Leakage of a round, virtual queue, and last noise energy (0 before round 0), where the next search starts."""

    leakage: RoundLeakage
    queue: FloatArray
    energy: FloatArray


@dataclass(frozen=True)
class AdaScale(CompiledPolicy):
    r"""The paper's online policy: leakage against a queue and a quadratic term (:eq:`eq:adascale-round`).

    .. math::
        w_t = \arg\min_{w \ge w_{\min,t}} V F(w) + Q_t (w - w_{\min,t}) + \tfrac12 (w - w_{\min,t})^2, \qquad
        Q_{t+1} = \max(Q_t + w_t - w_{\min,t} - \nu, 0),

    the paper's problem (30) and queue (29) in the noise energy.  In (29), a skipped round has :math:`w_t = w_{\min,t}`.

    Parameters
    ----------
    penalty : array_like, > 0
        :math:`V`; exactly one value meets the budget with equality (:prf:ref:`thm-one-penalty`).
    initial_queue : array_like, :math:`Q_0 \ge 0` (0 in the paper)
    """

    tuned: ClassVar[tuple[str, ...]] = ("penalty",)

    penalty: FloatArray
    initial_queue: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        queue = check.at_least("initial_queue", self.initial_queue, 0)
        object.__setattr__(self, "penalty", check.positive("penalty", self.penalty))
        object.__setattr__(self, "initial_queue", queue)

    @classmethod
    def from_law(
        cls,
        scenario: Scenario,
        budget: ArrayLike,
        law: FloorLaw,
        stiffness: float = 30.0,
    ) -> "AdaScale":
        r"""Build AdaScale from the distribution of the floors (:prf:ref:`thm-warm-start`).

        .. math:: V = \frac{s\,\nu}{|F'(\ell)|}, \qquad Q_0 = V |F'(\ell)| - \nu = (s - 1)\,\nu, \qquad g(\ell) = \nu

        The level :math:`\ell` is that of :class:`ConstantLevel`, which AdaScale approaches as the stiffness grows.

        Parameters
        ----------
        scenario : Scenario
        budget : array_like, :math:`\nu > 0`
        law : see :class:`ConstantLevel`
        stiffness : float, :math:`s \ge 1`
            The price of noise reacts to what is spent in proportion to 1 / s.  At 1 the queue starts empty.
        """
        budget = check.positive("budget", budget)
        stiffness = check.number("stiffness", stiffness, 1)
        level = check_law("law", law).level(budget)
        with np.errstate(all="ignore"):
            penalty = -stiffness * budget / RoundLeakage(scenario).slope(level)
        highest = np.max(level, initial=0)
        check.finite(f"the penalty at a level of {highest:.3g}", penalty)
        return cls(penalty, np.broadcast_to((stiffness - 1) * budget, penalty.shape))

    @classmethod
    def guess(cls, problem: Problem) -> FloatArray:
        # in both scenarios of the paper, this is within a factor of 4 of the penalty found
        level = water_level(problem.min_noise_energy, problem.budget)
        slope = RoundLeakage(problem.scenario).slope(level)
        # a negligible leakage gives an infinite penalty
        with np.errstate(all="ignore"):
            return -5 * problem.budget / slope

    def start(self, scenario: Scenario, budget: FloatArray) -> AdaScaleState:
        parts = (budget, self.penalty, self.initial_queue)
        instances = np.broadcast_shapes(*map(np.shape, parts))
        budget = np.broadcast_to(budget, instances)
        queue = np.broadcast_to(self.initial_queue, instances)
        return AdaScaleState(
            scenario, budget, 0, RoundLeakage(scenario), queue, np.zeros(instances)
        )

    def decide_rounds(
        self, state: AdaScaleState, floor: FloatArray
    ) -> tuple[AdaScaleState, FloatArray]:
        *batch, T = floor.shape
        rows = in_rows(floor, batch, T)
        values = (state.queue, state.energy, state.budget, self.penalty)
        queue, start, nu, V = (in_rows(value, batch) for value in values)
        terms = state.leakage.terms
        energy, i, t = all_rounds(rows, queue, start, nu, V, terms)
        if i >= 0:
            instance = tuple(map(int, np.unravel_index(i, batch)))
            place = f"round {t} of instance {instance}" if instance else f"round {t}"
            raise NoRoot(
                f"no root found in {place}: floor {rows[i, t]}, queue {queue[i]}, penalty {V[i]}"
            )
        energy = energy.reshape(floor.shape)
        after = state.after(T, queue=queue.reshape(batch), energy=energy[..., -1])
        return after, energy

    def skip(self, state: AdaScaleState) -> AdaScaleState:
        return state.after(1, queue=np.maximum(state.queue - state.budget, 0.0))


def adascale_energies(
    min_noise_energy: ArrayLike,
    budget: ArrayLike,
    penalty: ArrayLike,
    leakage: RoundLeakage,
    initial_queue: ArrayLike = 0.0,
) -> tuple[FloatArray, FloatArray]:
    r"""Return AdaScale's noise energies, shape (..., T), and last queue :math:`Q_T`.

    Each round is the paper's problem (30): :math:`\arg\min_{w \ge w_{\min}} V F(w) + Q (w - w_{\min}) + \tfrac12 (w -
    w_{\min})^2`.  A ``RuntimeError`` names a round whose root is not found.

    Parameters
    ----------
    min_noise_energy : array_like, shape (..., T), :math:`w_{\min,t} > 0`
    budget, penalty : array_like, :math:`\nu, V > 0`
        They broadcast against the leading axes of ``min_noise_energy``.
    leakage : RoundLeakage, :math:`F`
    initial_queue : array_like, :math:`Q_0 \ge 0`
    """
    floor = check.positive("min_noise_energy", min_noise_energy, "rounds")
    policy = AdaScale(np.asarray(penalty), np.asarray(initial_queue))
    nu = np.broadcast_to(
        budget, np.broadcast_shapes(floor.shape[:-1], np.shape(budget))
    )
    state = replace(policy.start(leakage.scenario, nu), leakage=leakage)
    floor = np.broadcast_to(floor, (*state.budget.shape, floor.shape[-1]))
    after, energy = policy.decide_rounds(state, floor)
    return energy, after.queue


@compiled
def all_rounds(
    floor: FloatArray,
    queue: FloatArray,
    start: FloatArray,
    budget: FloatArray,
    penalty: FloatArray,
    terms: LeakageTerms,
) -> tuple[FloatArray, int, int]:
    """Run all rounds of each row and update its queue; return energies, and where no root is found, or -1, -1."""
    energy = np.empty(floor.shape)
    for i in range(floor.shape[0]):
        V = penalty[i]
        last_energy = start[i]
        for t in range(floor.shape[1]):
            Q = queue[i]
            least = floor[i, t]
            search = search_from(last_energy, 0.0)
            for _ in range(100):  # far more than a search takes
                if not search.x < np.inf:  # V F' overflows
                    break
                slope, curvature = slopes(max(search.x, least), terms)
                search = advance(search, V * slope, V * curvature, Q, least)
                if search.converged:
                    break
            if not search.converged:
                return energy, i, t
            energy[i, t] = last_energy = max(search.x, least)
            queue[i] = max(Q + (last_energy - least) - budget[i], 0.0)
    return energy, -1, -1


@inlined
def advance(
    search: Search, slope: float, curvature: float, Q: float, least: float
) -> Search:
    """Step towards the w >= ``least``, the floor, at which V F'(w) + Q + w - floor is 0, or to the floor if none is.

    ``slope`` and ``curvature`` are V F' and V F'' at w = max(x, floor).
    """
    if search.x > least:
        # the ratio of V |F'(w)| to the price of noise, Q + w - floor, falls to 1 at the root
        price = Q + (search.x - least)
        decay = search.x * (1 / price - curvature / slope)
        return power_law_step(search, -slope / price, decay)
    # V F'' overflows at the floor: there is a root above, but no Newton step, so go to twice the floor
    if -np.inf < slope < -Q and curvature == np.inf:
        return Search(2 * least, least, np.inf, np.inf, False)
    # the sum is concave, as F' is, so a Newton step from the floor does not pass the root; if it is >= 0 at the floor,
    # the floor is the minimiser
    step = least + max(-slope - Q, 0.0) / (1 + curvature)
    return Search(step, least, np.inf, np.inf, step == least)
