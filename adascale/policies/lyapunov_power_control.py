r"""The power control of Shi et al.: a virtual queue of the privacy spent beyond its rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.base import OnlinePolicy, in_rows, within_limit
from adascale.policies.privacy_budget import check_contraction
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class LyapunovPowerControlState(NamedTuple):
    """The virtual queue of privacy spent beyond its rate."""

    scenario: Scenario
    round: int
    queue: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.queue.shape


@dataclass(frozen=True)
class LyapunovPowerControl(OnlinePolicy):
    r"""The standard Lyapunov construction of Shi et al., without a reconfigurable surface.

    .. math::
        \eta_t = \min\Big(\mathrm{cap}_t, \sqrt{V r^{-t} / Q_t}\Big), \qquad
        Q_{t+1} = \max(Q_t + \eta_t - \bar\eta, 0)

    with full power while the queue is empty.  Units are those of eta: :math:`\bar\eta` is the privacy budget a round,
    and the constants of its accounting are inside :math:`V`.

    Parameters
    ----------
    penalty : array_like
        :math:`V > 0`, in units of eta cubed; broadcasts against the lanes.
    rate : array_like
        :math:`\bar\eta > 0`, the privacy budget of a round in units of eta; broadcasts against the lanes.
    contraction : float
        :math:`r \in (0, 1]`; 1 is neutral.
    initial_queue : array_like
        :math:`Q_0 \ge 0`, in units of eta; broadcasts against the lanes.  Zero, the customary start, puts the first
        round at full power.
    """

    tuned: ClassVar[tuple[str, ...]] = ("penalty", "rate")
    label: ClassVar[str] = "Shi et al."

    penalty: FloatArray
    rate: FloatArray
    contraction: float = 1.0
    initial_queue: ArrayLike = 0.0

    def __post_init__(self) -> None:
        for name in ("penalty", "rate"):
            object.__setattr__(self, name, check.positive(name, getattr(self, name)))
        object.__setattr__(self, "initial_queue", check.at_least("initial_queue", self.initial_queue, 0))
        check_contraction(self.contraction)

    def start(self, scenario: Scenario, budget: FloatArray) -> LyapunovPowerControlState:
        check_contraction(self.contraction, scenario.num_rounds)
        shapes = {name: getattr(self, name).shape for name in ("penalty", "rate", "initial_queue")}
        shape = check.broadcast(**shapes, lanes=np.shape(budget))
        return LyapunovPowerControlState(scenario, 0, np.broadcast_to(self.initial_queue, shape))

    def step(
        self, state: LyapunovPowerControlState, min_gain_t: FloatArray
    ) -> tuple[LyapunovPowerControlState, FloatArray]:
        if state.round >= state.scenario.num_rounds:
            check_contraction(self.contraction, state.round)  # no horizon ends it, but the weights grow on
        cap = state.scenario.x_max * min_gain_t
        with np.errstate(divide="ignore", over="ignore"):
            eta = np.sqrt(self.penalty * self.contraction ** -float(state.round) / state.queue)
        eta = np.minimum(eta, cap)
        queue = np.maximum(state.queue + eta - self.rate, 0.0)
        return LyapunovPowerControlState(state.scenario, state.round + 1, queue), eta

    def skip(self, state: LyapunovPowerControlState) -> LyapunovPowerControlState:
        r"""A round that spends nothing: the queue falls by the rate, never below 0, so later rounds may spend more."""
        return state._replace(round=state.round + 1, queue=np.maximum(state.queue - self.rate, 0.0))

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r""":math:`\eta_t`, shape (..., T): all rounds in one compiled loop; errors as ``start``."""
        state = self.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
        lanes, T = state.queue.shape, problem.num_rounds
        growth = np.array([self.contraction ** -float(t) for t in range(T)])
        penalty, rate, start = (in_rows(one, lanes) for one in (self.penalty, self.rate, state.queue))
        eta = _rounds(in_rows(problem.max_eta, lanes, T), penalty, rate, start, growth)
        return within_limit(eta.reshape(*lanes, T), problem, type(self).__name__)


@njit(cache=True, nogil=True, error_model="numpy")
def _rounds(
    cap: FloatArray, penalty: FloatArray, rate: FloatArray, start: FloatArray, growth: FloatArray
) -> FloatArray:
    eta = np.empty(cap.shape)
    for lane in range(cap.shape[0]):
        queue = start[lane]
        for t in range(cap.shape[1]):
            eta[lane, t] = min(math.sqrt(penalty[lane] * growth[t] / queue), cap[lane, t])
            queue = max(queue + eta[lane, t] - rate[lane], 0.0)
    return eta
