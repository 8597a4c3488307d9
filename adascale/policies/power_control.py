"""The power control of Liu and Simeone, with a budget on the sum of scalings."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale import checks as check
from adascale.checks import FloatArray
from adascale.compiled import compiled
from adascale.errors import InvalidInput
from adascale.policies.base import CompiledPolicy, HorizonState, in_rows
from adascale.policies.estim_future import estimated_min_gain
from adascale.policies.optimal import Optimal
from adascale.problem import Problem
from adascale.scenario import Scenario


@dataclass(frozen=True)
class PowerControlState(HorizonState):
    """The estimated cap of each later round; ``remaining`` is what is left of the sum of scalings."""

    later_cap: FloatArray


@dataclass(frozen=True)
class PowerControl(CompiledPolicy):
    r"""The method of Liu and Simeone, which re-plans from mean channels in every round.

    .. math::
        \min_\eta \sum_{j \ge t} r^{-j} \frac{d \sigma_n^2}{\eta_j} \quad \text{s.t.} \quad
        \sum_{j \ge t} \eta_j \le S_t, \quad 0 < \eta_j \le \mathrm{cap}_j
        \qquad\Rightarrow\qquad \eta_j = \min(\tau r^{-j/2}, \mathrm{cap}_j)

    with this cap known, the later caps estimated, and :math:`S_{t+1} = S_t - \eta_t`.

    Parameters
    ----------
    mean_gain, estimate : see :class:`EstimFuture`
    privacy_budget : array_like, :math:`S > 0`, the largest sum of scalings
    contraction : float, :math:`r` in (0, 1]
        Factor by which the loss gap shrinks per round; 1 has no effect.
    subtract : bool
        Whether :math:`S` is reduced by what is spent, as sound accounting requires.
    """

    tuned: ClassVar[tuple[str, ...]] = ("privacy_budget",)
    needs_mean_gain: ClassVar[bool] = True
    label: ClassVar[str] = "Liu & Simeone"

    mean_gain: FloatArray
    privacy_budget: FloatArray
    contraction: float = 1.0
    estimate: str = "devices"
    subtract: bool = True

    def __post_init__(self) -> None:
        budget = check.positive("privacy_budget", self.privacy_budget)
        object.__setattr__(self, "privacy_budget", budget)
        check_contraction(self.contraction)
        check.one_of("subtract", self.subtract, True, False)

    @classmethod
    def guess(cls, problem: Problem) -> FloatArray:
        return problem.eta(Optimal().schedule(problem)).sum(axis=-1)

    def start(self, scenario: Scenario, budget: FloatArray) -> PowerControlState:
        check_contraction(self.contraction, scenario.num_rounds)
        later_gain = estimated_min_gain(self.mean_gain, self.estimate)
        check.between("mean_gain", later_gain, *scenario.gain_limits)
        later_cap = np.asarray(scenario.x_max * later_gain)
        instances = np.broadcast_shapes(
            np.shape(budget), self.privacy_budget.shape, later_cap.shape
        )
        # what remains is of the sum of scalings; the noise budget nu plays no role
        budget, remaining = (
            np.broadcast_to(value, instances) for value in (budget, self.privacy_budget)
        )
        return PowerControlState(scenario, budget, 0, remaining, later_cap)

    def decide_rounds(
        self, state: PowerControlState, floor: FloatArray
    ) -> tuple[PowerControlState, FloatArray]:
        *batch, rounds = floor.shape
        remaining, later_cap = (
            in_rows(value, batch) for value in (state.remaining, state.later_cap)
        )
        cap = in_rows(state.scenario.noise_scale / floor, batch, rounds)
        growth = float(self.contraction) ** -0.5
        eta = _scalings(
            cap, later_cap, remaining, state.later, growth, bool(self.subtract)
        )
        energy = energy_of(eta, cap, floor, state.scenario)
        return state.after(rounds, remaining=remaining.reshape(batch)), energy


def energy_of(
    eta: FloatArray, cap: FloatArray, floor: FloatArray, scenario: Scenario
) -> FloatArray:
    """Return the noise energies of scalings in rows: exactly the floor at the cap."""
    energy = np.where(eta < cap, scenario.noise_scale / eta, 0.0)
    return np.maximum(energy.reshape(floor.shape), floor)


@compiled
def _scalings(
    cap: FloatArray,
    later_cap: FloatArray,
    remaining: FloatArray,
    later: int,
    growth: float,
    subtract: bool,
) -> FloatArray:
    """Return the scalings of each row, and update what is left of its budget."""
    eta = np.empty(cap.shape)
    for i in range(cap.shape[0]):
        for t in range(cap.shape[1]):
            n = later - t
            tau = _first_scaling(cap[i, t], later_cap[i], n, remaining[i], growth)
            eta[i, t] = min(tau, cap[i, t])
            if subtract:
                unspent = remaining[i] - eta[i, t]
                # if the subtraction rounds to zero, what full power in the later rounds needs is left
                remaining[i] = unspent if unspent > 0 else n * later_cap[i]
    return eta


@compiled
def _first_scaling(
    cap: float, later_cap: float, later: int, remaining: float, growth: float
) -> float:
    """Return tau with min(tau, cap) + sum_{j=1}^n min(tau g^j, cap') = S; the cap if S allows full power throughout.

    S is ``remaining``, g ``growth``, n ``later`` and cap' ``later_cap``.
    """
    if cap + later * later_cap <= remaining:
        return cap
    # search for the largest number u of later rounds below their cap that spends the whole budget
    low = 0
    high = later
    while low < high:
        u = (low + high + 1) // 2
        tau = later_cap / growth ** float(u)  # exactly u are below (or at) their cap
        below_cap = min(tau, cap) + tau * _geometric(u, growth)
        if below_cap + (later - u) * later_cap >= remaining:
            low = u
        else:
            high = u - 1
    weight = _geometric(low, growth)
    uncapped = remaining - (later - low) * later_cap
    if low < later:
        # the difference may have lost all digits, but with less than this, one more round would be below its cap
        least = later_cap / growth ** float(low + 1)
        uncapped = max(uncapped, (min(cap, least) + least * weight) * (1 - 1e-9))
    alone = uncapped / (1 + weight)
    if alone > cap and weight > 0:
        return (uncapped - cap) / weight
    return alone


@compiled
def _geometric(u: int, growth: float) -> float:
    """Return g + g^2 + ... + g^u, for g = ``growth``."""
    total = float(u)
    if growth != 1.0:
        total = growth * (growth**total - 1) / (growth - 1)
    return total


def check_contraction(value: float, rounds: int = 1) -> None:
    """Refuse a contraction r unless it is in (0, 1], and its weights over so many rounds do not overflow."""
    check.sampling_rate("contraction", value)
    least = np.exp(-600 / rounds)  # the largest weight, r^-rounds, is at most e^600
    if value < least:
        expected = f"at least {least:.3g} over {rounds} rounds, got {value}"
        raise InvalidInput(f"contraction must be {expected}", "contraction")
