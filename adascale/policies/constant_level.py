r"""ConstantLevel: the one noise energy whose expected cost is the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.policies.base import OnlinePolicy, known_law, one_law
from adascale.problem import scaling
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class ConstantLevelState(NamedTuple):
    """The level of every lane, which no round changes."""

    scenario: Scenario
    level: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.level.shape


@dataclass(frozen=True)
class ConstantLevel(OnlinePolicy):
    r"""One level for all rounds, from the law of the floors.

    .. math:: w_t = \max(\ell, w_{\min,t}), \qquad g(\ell) = \mathbb E \max(\ell - w_{\min}, 0) = \nu

    No policy that spends :math:`\nu` on average leaks less on average, one that sees the future included.  What a
    realisation spends scatters about :math:`\nu`, with a variance of order :math:`1/T`; nothing corrects it.

    Parameters
    ----------
    mean_gain : array_like, optional
        :math:`\mathbb E|h_m|^2 / k_m^2`, shape (..., M), of independent Rayleigh fading; its leading axes broadcast
        against the lanes.
    law : FloorLaw, optional
        The law of the floors, if it is another one.  Exactly one of the two is given.
    """

    needs_law: ClassVar[bool] = True
    label: ClassVar[str] = "constant level"

    mean_gain: FloatArray | None = None
    law: FloorLaw | None = None

    def __post_init__(self) -> None:
        one_law(self.mean_gain, self.law)

    def start(self, scenario: Scenario, budget: FloatArray) -> ConstantLevelState:
        law = known_law(scenario, self.mean_gain, self.law)
        check.broadcast(lanes_of_law=law.lanes, lanes=np.shape(budget))
        return ConstantLevelState(scenario, law.level(budget))

    def step(self, state: ConstantLevelState, min_gain_t: FloatArray) -> tuple[ConstantLevelState, FloatArray]:
        max_eta = state.scenario.x_max * min_gain_t
        floor = state.scenario.noise_scale / max_eta
        return state, scaling(np.maximum(state.level, floor), floor, max_eta, state.scenario.noise_scale)
