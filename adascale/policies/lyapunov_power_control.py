"""The power control of Shi et al., with a virtual queue of excess privacy spending."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.checks import FloatArray
from adascale.compiled import compiled
from adascale.policies.base import CompiledPolicy, State, in_rows
from adascale.policies.power_control import check_contraction, energy_of
from adascale.scenario import Scenario


@dataclass(frozen=True)
class LyapunovState(State):
    """The virtual queue of excess privacy spending."""

    queue: FloatArray


@dataclass(frozen=True)
class LyapunovPowerControl(CompiledPolicy):
    r"""The Lyapunov power control of Shi et al., without a reconfigurable surface.

    .. math::
        \eta_t = \min\Big(\mathrm{cap}_t, \sqrt{V r^{-t} / Q_t}\Big), \qquad
        Q_{t+1} = \max(Q_t + \eta_t - \bar\eta, 0)

    with :math:`\eta_t = \mathrm{cap}_t` while the queue is empty and :math:`\eta_t = 0` in a skipped round.

    Parameters
    ----------
    penalty, rate : array_like, :math:`V, \bar\eta > 0`, in units of eta cubed and of eta per round
    contraction : float, :math:`r` in (0, 1], see :class:`PowerControl`
    initial_queue : array_like, :math:`Q_0 \ge 0`, in units of eta
    """

    tuned: ClassVar[tuple[str, ...]] = ("penalty", "rate")
    label: ClassVar[str] = "Shi et al."
    kind: ClassVar[str] = "reconstruction"

    penalty: FloatArray
    rate: FloatArray
    contraction: float = 1.0
    initial_queue: ArrayLike = 0.0

    def __post_init__(self) -> None:
        for name in ("penalty", "rate"):
            object.__setattr__(self, name, check.positive(name, getattr(self, name)))
        queue = check.at_least("initial_queue", self.initial_queue, 0)
        object.__setattr__(self, "initial_queue", queue)
        check_contraction(self.contraction)

    def start(self, scenario: Scenario, budget: FloatArray) -> LyapunovState:
        check_contraction(self.contraction, scenario.num_rounds)
        queue = np.broadcast_to(self.initial_queue, np.shape(budget))
        return LyapunovState(scenario, budget, 0, queue)

    def decide_rounds(
        self, state: LyapunovState, floor: FloatArray
    ) -> tuple[LyapunovState, FloatArray]:
        *batch, T = floor.shape
        first = state.round
        scenario = state.scenario
        if first >= scenario.num_rounds:
            # a stream may go on after num_rounds, but the weights r^-t must not overflow
            check_contraction(self.contraction, first)
        weight = np.array(
            [self.contraction ** -float(t) for t in range(first, first + T)]
        )
        penalty, rate, queue = (
            in_rows(value, batch) for value in (self.penalty, self.rate, state.queue)
        )
        cap = in_rows(scenario.noise_scale / floor, batch, T)
        eta = _scalings(cap, penalty, rate, queue, weight)
        energy = energy_of(eta, cap, floor, scenario)
        return state.after(T, queue=queue.reshape(batch)), energy

    def skip(self, state: LyapunovState) -> LyapunovState:
        return state.after(1, queue=np.maximum(state.queue - self.rate, 0.0))


@compiled
def _scalings(
    cap: FloatArray,
    V: FloatArray,
    rate: FloatArray,
    queue: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Return the scalings of each row, and update its queue."""
    eta = np.empty(cap.shape)
    for i in range(cap.shape[0]):
        for t in range(cap.shape[1]):
            # infinite while the queue is empty
            unlimited = math.sqrt(V[i] * weight[t] / queue[i])
            eta[i, t] = min(unlimited, cap[i, t])
            queue[i] = max(queue[i] + eta[i, t] - rate[i], 0.0)
    return eta
