"""The power control of Liu and Simeone, with a budget on the sum of scalings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.base import CompiledPolicy, FloatArray, HorizonPolicy, HorizonState, Policy, fit_lanes, in_rows
from adascale.policies.estim_future import estimated_min_gain
from adascale.policies.optimal import Optimal
from adascale.policies.privacy_budget import check_contraction
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario


@dataclass(frozen=True)
class PowerControl(CompiledPolicy, HorizonPolicy):
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
        object.__setattr__(self, "privacy_budget", check.positive("privacy_budget", self.privacy_budget))
        check_contraction(self.contraction)
        estimated_min_gain(self.mean_gain, self.estimate)

    @classmethod
    def guess(cls, problem: ReceiveScalingProblem) -> FloatArray:
        return np.asarray(Optimal().schedule(problem).sum(axis=-1))

    def start(self, scenario: Scenario, budget: FloatArray) -> HorizonState:
        check_contraction(self.contraction, scenario.num_rounds)
        check.within("mean_gain", estimated_min_gain(self.mean_gain, self.estimate), *scenario.gain_limits)
        shapes = {"privacy_budget": self.privacy_budget.shape, "lanes_of_mean_gain": np.shape(self.mean_gain)[:-1]}
        shape = check.broadcast(**shapes, lanes=np.shape(budget))
        return HorizonState(scenario, scenario.num_rounds - 1, np.broadcast_to(self.privacy_budget, shape))

    def rounds(self, state: HorizonState, max_eta: FloatArray) -> tuple[HorizonState, FloatArray]:
        later = self.count_down(state, max_eta.shape[-1])
        later_cap = state.scenario.x_max * estimated_min_gain(self.mean_gain, self.estimate)
        lanes = np.broadcast_shapes(max_eta.shape[:-1], state.lanes)
        T, left = max_eta.shape[-1], in_rows(state.left, lanes)
        growth = float(self.contraction) ** -0.5
        cap, later_caps = in_rows(max_eta, lanes, T), in_rows(later_cap, lanes)
        eta = _rounds(cap, later_caps, left, state.later, growth, bool(self.subtract))
        return state._replace(later=later, left=left.reshape(lanes)), eta.reshape(*lanes, T)


@njit(cache=True, nogil=True)
def _rounds(
    cap: FloatArray, later_cap: FloatArray, left: FloatArray, later: int, growth: float, subtract: bool
) -> FloatArray:
    eta = np.empty(cap.shape)
    for lane in range(cap.shape[0]):
        for t in range(cap.shape[1]):
            tau = _first_scaling(cap[lane, t], later_cap[lane], later - t, left[lane], growth)
            eta[lane, t] = min(tau, cap[lane, t])
            if subtract:
                rest = left[lane] - eta[lane, t]
                # the rest must stay positive even if full power in later rounds is smaller than its rounding error
                left[lane] = rest if rest > 0 else (later - t) * later_cap[lane]
    return eta


@njit(cache=True, nogil=True)
def _first_scaling(cap: float, later_cap: float, later: int, left: float, growth: float) -> float:
    """Return tau with min(tau, cap) + sum_{j=1}^n min(tau g^j, cap') = S, or the cap."""
    if cap + later * later_cap <= left:
        return cap
    low, high = 0, later
    while low < high:  # the largest number u of later rounds below their cap that spends the whole budget
        middle = (low + high + 1) // 2
        tau = later_cap / growth ** float(middle)  # at this tau, exactly u later rounds are below (or at) their cap
        spent = min(tau, cap) + tau * _geometric(middle, growth) + (later - middle) * later_cap
        if spent >= left:
            low = middle
        else:
            high = middle - 1
    weight = _geometric(low, growth)
    rest = left - (later - low) * later_cap
    if low < later:  # otherwise one more round would be below its cap; the difference may have lost all digits
        least = later_cap / growth ** float(low + 1)
        rest = max(rest, (min(cap, least) + least * weight) * (1 - 1e-9))
    alone = rest / (1 + weight)
    return (rest - cap) / weight if alone > cap and weight > 0 else alone


@njit(cache=True, nogil=True)
def _geometric(u: int, growth: float) -> float:
    return float(u) if growth == 1.0 else growth * (growth ** float(u) - 1) / (growth - 1)


@dataclass(frozen=True)
class OfflinePowerControl(Policy):
    r"""The method of Liu and Simeone with all channels known: :math:`\eta_t = \min(\tau r^{-t/2}, \mathrm{cap}_t)`."""

    tuned: ClassVar[tuple[str, ...]] = ("privacy_budget",)

    privacy_budget: FloatArray
    contraction: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "privacy_budget", check.positive("privacy_budget", self.privacy_budget))
        check_contraction(self.contraction)

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        lanes, T, cap = problem.lanes, problem.num_rounds, problem.max_eta
        check_contraction(self.contraction, T)
        fit_lanes(lanes, privacy_budget=self.privacy_budget.shape)
        budget = np.broadcast_to(self.privacy_budget, lanes)[..., None]
        weight = self.contraction ** (-0.5 * np.arange(T))
        full_at = cap / weight  # round t is at its cap from this tau on
        order = np.argsort(full_at, axis=-1)
        weights, none = weight[order], np.zeros((*cap.shape[:-1], 1))
        # with k rounds at their cap, tau spends the k-th of fixed and tau times the k-th of free
        fixed = np.concatenate([none, np.cumsum(np.take_along_axis(cap, order, -1), axis=-1)], axis=-1)
        others = np.flip(np.cumsum(np.flip(weights, -1), axis=-1)[..., :-1], -1)
        free = np.concatenate([weights.sum(axis=-1, keepdims=True), others, none], axis=-1)
        spent = fixed[..., 1:] + np.sort(full_at, axis=-1) * free[..., 1:]  # spending at the tau of the k-th cap
        k = np.sum(spent < budget, axis=-1, keepdims=True)
        at_k = (np.take_along_axis(np.broadcast_to(each, (*lanes, T + 1)), k, -1) for each in (fixed, free))
        with np.errstate(divide="ignore"):  # if all rounds are at their cap
            tau = (budget - next(at_k)) / next(at_k)
        return np.asarray(np.minimum(tau * weight, cap))
