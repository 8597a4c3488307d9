"""The power control of Liu and Simeone, with a budget on the sum of scalings."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.base import CompiledPolicy, HorizonState, in_rows
from adascale.policies.estim_future import estimated_min_gain
from adascale.policies.optimal import Optimal
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import FloatArray, Scenario


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
        object.__setattr__(
            self,
            "privacy_budget",
            check.positive("privacy_budget", self.privacy_budget),
        )
        check_contraction(self.contraction)
        check.one_of("subtract", self.subtract, True, False)
        estimated_min_gain(self.mean_gain, self.estimate)

    @classmethod
    def guess(cls, problem: ReceiveScalingProblem) -> FloatArray:
        return np.asarray(problem.eta(Optimal().schedule(problem)).sum(axis=-1))

    def start(self, scenario: Scenario, budget: FloatArray) -> HorizonState:
        check_contraction(self.contraction, scenario.num_rounds)
        later_gain = estimated_min_gain(self.mean_gain, self.estimate)
        check.within("mean_gain", later_gain, *scenario.gain_limits)
        batch = np.broadcast_shapes(
            np.shape(budget), self.privacy_budget.shape, later_gain.shape
        )
        left = np.broadcast_to(self.privacy_budget, batch)
        return HorizonState(
            scenario, np.broadcast_to(budget, batch), scenario.num_rounds - 1, left
        )

    def decide_rounds(
        self, state: HorizonState, floor: FloatArray
    ) -> tuple[HorizonState, FloatArray]:
        *batch, rounds = floor.shape
        scenario, left = state.scenario, in_rows(state.left, batch)
        cap = in_rows(scenario.noise_scale / floor, batch, rounds)
        later_cap = in_rows(
            scenario.x_max * estimated_min_gain(self.mean_gain, self.estimate), batch
        )
        growth = float(self.contraction) ** -0.5
        eta = _rounds(cap, later_cap, left, state.later, growth, bool(self.subtract))
        energy = np.where(eta < cap, scenario.noise_scale / eta, 0.0).reshape(
            floor.shape
        )
        return state.after(rounds, left=left.reshape(batch)), np.maximum(energy, floor)


@njit(cache=True, nogil=True)
def _rounds(
    cap: FloatArray,
    ahead: FloatArray,
    left: FloatArray,
    later: int,
    growth: float,
    less: bool,
) -> FloatArray:
    eta = np.empty(cap.shape)
    for i in range(cap.shape[0]):
        for t in range(cap.shape[1]):
            tau = _first_scaling(cap[i, t], ahead[i], later - t, left[i], growth)
            eta[i, t] = min(tau, cap[i, t])
            if less:
                rest = left[i] - eta[i, t]
                # the rest must stay positive even if full power in later rounds is smaller than its rounding error
                left[i] = rest if rest > 0 else (later - t) * ahead[i]
    return eta


@njit(cache=True, nogil=True)
def _first_scaling(
    cap: float, later_cap: float, later: int, left: float, growth: float
) -> float:
    """Return tau with min(tau, cap) + sum_{j=1}^n min(tau g^j, cap') = S, or the cap."""
    if cap + later * later_cap <= left:
        return cap
    low, high = 0, later
    while (
        low < high
    ):  # the largest number u of later rounds below their cap that spends the whole budget
        middle = (low + high + 1) // 2
        tau = later_cap / growth ** float(
            middle
        )  # at this tau, exactly u later rounds are below (or at) their cap
        spent = (
            min(tau, cap)
            + tau * _geometric(middle, growth)
            + (later - middle) * later_cap
        )
        if spent >= left:
            low = middle
        else:
            high = middle - 1
    weight = _geometric(low, growth)
    rest = left - (later - low) * later_cap
    if (
        low < later
    ):  # otherwise one more round would be below its cap; the difference may have lost all digits
        least = later_cap / growth ** float(low + 1)
        rest = max(rest, (min(cap, least) + least * weight) * (1 - 1e-9))
    alone = rest / (1 + weight)
    return (rest - cap) / weight if alone > cap and weight > 0 else alone


@njit(cache=True, nogil=True)
def _geometric(u: int, growth: float) -> float:
    return (
        float(u) if growth == 1.0 else growth * (growth ** float(u) - 1) / (growth - 1)
    )


def check_contraction(value: float, rounds: int = 1) -> None:
    """Raise a ``ValueError`` unless a contraction is in (0, 1] and its weights do not overflow."""
    if -rounds * np.log(check.sampling_rate("contraction", value)) > 600:
        raise ValueError(
            f"contraction must be at least {np.exp(-600 / rounds):.3g} over {rounds} rounds, got {value}"
        )
