r"""The power control of Liu and Simeone: accuracy first, under a budget of privacy.

It spends :math:`\eta`: a round of scaling :math:`\eta_t` costs privacy in proportion to :math:`\eta_t` (composition
without subsampling), and leaves noise in proportion to :math:`1/\eta_t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.base import OnlinePolicy, Policy, in_rows, rounds_left, within_limit
from adascale.policies.estim_future import estimated_min_gain
from adascale.policies.optimal import Optimal
from adascale.policies.privacy_budget import check_contraction
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class PowerControlState(NamedTuple):
    """What is left of the privacy budget, in units of eta, and of the horizon."""

    scenario: Scenario
    round: int
    left: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.left.shape


@dataclass(frozen=True)
class PowerControl(OnlinePolicy):
    r"""The method of Liu and Simeone: plan the rest of the horizon from mean channels, apply the first step.

    .. math::
        \min_\eta \sum_{j \ge t} r^{-j} \frac{d \sigma_n^2}{\eta_j} \quad \text{s.t.} \quad
        \sum_{j \ge t} \eta_j \le S_t, \quad 0 < \eta_j \le \mathrm{cap}_j
        \qquad\Rightarrow\qquad \eta_j = \min(\tau r^{-j/2}, \mathrm{cap}_j)

    with this round's cap known and the later ones estimated, and :math:`S_{t+1} = S_t - \eta_t`.

    Parameters
    ----------
    mean_gain : array_like
        :math:`\mathbb E|h_m|^2 / k_m^2`, shape (..., M).
    privacy_budget : array_like
        :math:`S > 0`, the largest sum of :math:`\eta_t`; broadcasts against the lanes.
    contraction : float
        :math:`r \in (0, 1]`, the factor by which the loss gap shrinks in a round; 1 is neutral.
    estimate : {"devices", "minimum"}
        See :func:`adascale.policies.estimated_min_gain`.
    subtract : bool
        Whether what a round spent is taken off the budget, as sound accounting must.
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
        r"""Where to look first for the budget that costs :math:`\nu`: the optimum's, the least possible one."""
        total: FloatArray = Optimal().schedule(problem).sum(axis=-1)
        return total

    def start(self, scenario: Scenario, budget: FloatArray) -> PowerControlState:
        check_contraction(self.contraction, scenario.num_rounds)
        check.within("mean_gain", estimated_min_gain(self.mean_gain, self.estimate), *scenario.gain_limits)
        shape = check.broadcast(
            privacy_budget=self.privacy_budget.shape,
            lanes_of_mean_gain=np.shape(self.mean_gain)[:-1],
            lanes=np.shape(budget),
        )
        return PowerControlState(scenario, 0, np.broadcast_to(self.privacy_budget, shape))

    def step(self, state: PowerControlState, min_gain_t: FloatArray) -> tuple[PowerControlState, FloatArray]:
        later = state.scenario.num_rounds - 1 - state.round
        rounds_left(self, state.scenario, later + 1)
        cap = np.asarray(state.scenario.x_max * min_gain_t)[..., None]
        eta, left = self._run(cap, state.left, state.scenario, later)
        return state._replace(round=state.round + 1, left=left), eta[..., 0]

    def skip(self, state: PowerControlState) -> PowerControlState:
        """A round that spends nothing: its share of the privacy budget is for the rounds that are left."""
        rounds_left(self, state.scenario, state.scenario.num_rounds - state.round)
        return state._replace(round=state.round + 1)

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r""":math:`\eta_t`, shape (..., T): all rounds in one compiled loop; errors as ``start``."""
        state = self.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
        eta, _ = self._run(problem.max_eta, state.left, problem.scenario, problem.num_rounds - 1)
        return within_limit(eta, problem, type(self).__name__)

    def _run(self, cap: FloatArray, left: FloatArray, scenario: Scenario, later: int) -> tuple[FloatArray, FloatArray]:
        """The rounds of these caps, with ``later`` rounds to come after the first of them; and what is left then."""
        later_cap = scenario.x_max * estimated_min_gain(self.mean_gain, self.estimate)
        lanes = np.broadcast_shapes(cap.shape[:-1], later_cap.shape, np.shape(left))
        T, rest = cap.shape[-1], in_rows(left, lanes)
        growth = float(self.contraction) ** -0.5
        eta = _rounds(in_rows(cap, lanes, T), in_rows(later_cap, lanes), rest, later, growth, bool(self.subtract))
        return eta.reshape(*lanes, T), rest.reshape(lanes)


@njit(cache=True, nogil=True)
def _rounds(
    cap: FloatArray, later_cap: FloatArray, left: FloatArray, later: int, growth: float, subtract: bool
) -> FloatArray:
    """Every round of every lane; ``left`` becomes what the last one leaves."""
    eta = np.empty(cap.shape)
    for lane in range(cap.shape[0]):
        for t in range(cap.shape[1]):
            tau = _first_scaling(cap[lane, t], later_cap[lane], later - t, left[lane], growth)
            eta[lane, t] = min(tau, cap[lane, t])
            if subtract:
                rest = left[lane] - eta[lane, t]
                # where the later rounds' full power is below the rounding of what is left, it remains all the same
                left[lane] = rest if rest > 0 else (later - t) * later_cap[lane]
    return eta


@njit(cache=True, nogil=True)
def _first_scaling(cap: float, later_cap: float, later: int, left: float, growth: float) -> float:
    r"""What the plan gives this round: the :math:`\tau` at which it spends all that is left, or its cap.

    .. math:: \min(\tau, \mathrm{cap}) + \sum_{j=1}^n \min(\tau g^j, \mathrm{cap}') = S

    With u of the later rounds below their cap the sum is linear in tau; u is found by bisection.
    """
    if cap + later * later_cap <= left:
        return cap
    low, high = 0, later
    if growth == 1.0:
        low = later if min(later_cap, cap) + later * later_cap >= left else 0
    else:
        while low < high:  # the largest u that still spends all that is left
            middle = (low + high + 1) // 2
            tau = later_cap / growth ** float(middle)  # exactly u later rounds are below (or at) their cap
            spent = min(tau, cap) + tau * _geometric(middle, growth) + (later - middle) * later_cap
            if spent >= left:
                low = middle
            else:
                high = middle - 1
    weight = _geometric(low, growth)
    rest = left - (later - low) * later_cap
    if low < later:  # or one more round would be below its cap; the difference may have lost all of it
        least = later_cap / growth ** float(low + 1)
        rest = max(rest, (min(cap, least) + least * weight) * (1 - 1e-9))
    alone = rest / (1 + weight)
    return (rest - cap) / weight if alone > cap and weight > 0 else alone


@njit(cache=True, nogil=True)
def _geometric(u: int, growth: float) -> float:
    """g + g^2 + ... + g^u."""
    return float(u) if growth == 1.0 else growth * (growth ** float(u) - 1) / (growth - 1)


@dataclass(frozen=True)
class OfflinePowerControl(Policy):
    r"""Liu & Simeone with the channels of all rounds known: :math:`\eta_t = \min(\tau r^{-t/2}, \mathrm{cap}_t)`.

    With r = 1 and the sum of Optimal's scalings as the budget this is Optimal.

    Parameters
    ----------
    privacy_budget : array_like
        :math:`S > 0`, the largest sum of :math:`\eta_t`; broadcasts to the lanes.
    contraction : float
        :math:`r \in (0, 1]`; 1 is neutral.
    """

    tuned: ClassVar[tuple[str, ...]] = ("privacy_budget",)

    privacy_budget: FloatArray
    contraction: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "privacy_budget", check.positive("privacy_budget", self.privacy_budget))
        check_contraction(self.contraction)

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r""":math:`\eta_t`, shape (..., T).

        Raises
        ------
        ValueError
            If the budget does not broadcast to the lanes, or the contraction is too small for so many rounds.
        """
        check_contraction(self.contraction, problem.num_rounds)
        if check.broadcast(privacy_budget=self.privacy_budget.shape, lanes=problem.lanes) != problem.lanes:
            shape = self.privacy_budget.shape
            raise ValueError(f"privacy_budget must broadcast to lanes {problem.lanes}, got shape {shape}")
        weight = self.contraction ** (-0.5 * np.arange(problem.num_rounds))
        cap = problem.max_eta
        full_at = cap / weight  # round t is at its cap from this tau on
        order = np.argsort(full_at, axis=-1)
        capped = np.cumsum(np.take_along_axis(cap, order, -1), axis=-1)
        weights = weight[order]
        later = np.cumsum(np.flip(weights, -1), axis=-1)[..., :-1]
        free = np.flip(np.concatenate([np.zeros_like(weights[..., :1]), later], axis=-1), -1)
        spent = capped + np.sort(full_at, axis=-1) * free  # at tau = the k-th breakpoint
        shape = (*problem.lanes, problem.num_rounds)
        budget = np.broadcast_to(self.privacy_budget, problem.lanes)[..., None]
        spent, capped, free, weights = (np.broadcast_to(a, shape) for a in (spent, capped, free, weights))
        k = np.sum(spent < budget, axis=-1, keepdims=True)  # rounds at their cap
        at = np.minimum(np.maximum(k - 1, 0), problem.num_rounds - 1)
        fixed = np.where(k > 0, np.take_along_axis(capped, at, -1), 0.0)
        slope = np.where(k > 0, np.take_along_axis(free, at, -1), weights.sum(axis=-1, keepdims=True))
        with np.errstate(divide="ignore"):
            tau = np.where(k < problem.num_rounds, (budget - fixed) / slope, np.inf)
        eta: FloatArray = np.minimum(tau * weight, cap)
        return eta
