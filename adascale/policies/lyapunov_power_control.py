"""The power control of Shi et al., with a virtual queue of excess privacy spending."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.base import CompiledPolicy, State, in_rows
from adascale.policies.power_control import check_contraction
from adascale.scenario import FloatArray, Scenario


@dataclass(frozen=True)
class LyapunovState(State):
    """The next round, and the virtual queue of excess privacy spending."""

    round: int
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

    penalty: FloatArray
    rate: FloatArray
    contraction: float = 1.0
    initial_queue: ArrayLike = 0.0

    def __post_init__(self) -> None:
        for name in ("penalty", "rate"):
            object.__setattr__(self, name, check.positive(name, getattr(self, name)))
        object.__setattr__(
            self,
            "initial_queue",
            check.at_least("initial_queue", self.initial_queue, 0),
        )
        check_contraction(self.contraction)

    def start(self, scenario: Scenario, budget: FloatArray) -> LyapunovState:
        check_contraction(self.contraction, scenario.num_rounds)
        return LyapunovState(
            scenario, budget, 0, np.broadcast_to(self.initial_queue, np.shape(budget))
        )

    def decide_rounds(
        self, state: LyapunovState, floor: FloatArray
    ) -> tuple[LyapunovState, FloatArray]:
        (*batch, T), t, noise_scale = (
            floor.shape,
            state.round,
            state.scenario.noise_scale,
        )
        if t >= state.scenario.num_rounds:
            check_contraction(
                self.contraction, t
            )  # there is no horizon, but the weights grow
        weight = np.array(
            [self.contraction ** -float(each) for each in range(t, t + T)]
        )
        penalty, rate, queue = (
            in_rows(one, batch) for one in (self.penalty, self.rate, state.queue)
        )
        cap = in_rows(noise_scale / floor, batch, T)
        eta = _rounds(cap, penalty, rate, queue, weight)
        energy = np.where(eta < cap, noise_scale / eta, 0.0).reshape(floor.shape)
        return state.after(T, round=t + T, queue=queue.reshape(batch)), np.maximum(
            energy, floor
        )

    def skip(self, state: LyapunovState) -> LyapunovState:
        return state.after(
            1, round=state.round + 1, queue=np.maximum(state.queue - self.rate, 0.0)
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _rounds(
    cap: FloatArray,
    V: FloatArray,
    rate: FloatArray,
    queue: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    eta = np.empty(cap.shape)
    for i in range(cap.shape[0]):
        for t in range(cap.shape[1]):
            eta[i, t] = min(math.sqrt(V[i] * weight[t] / queue[i]), cap[i, t])
            queue[i] = max(queue[i] + eta[i, t] - rate[i], 0.0)
    return eta
