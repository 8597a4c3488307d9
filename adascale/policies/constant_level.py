"""ConstantLevel: one noise energy for all rounds, whose expected cost is the budget."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.policies.base import CompiledPolicy, State, check_law
from adascale.scenario import Scenario


@dataclass(frozen=True)
class ConstantLevelState(State):
    """The constant level of every instance."""

    level: FloatArray


@dataclass(frozen=True)
class ConstantLevel(CompiledPolicy):
    r"""One level for all rounds, from the distribution of the floors.

    .. math:: w_t = \max(\ell, w_{\min,t}), \qquad g(\ell) = \mathbb E \max(\ell - w_{\min}, 0) = \nu

    Parameters
    ----------
    law : FloorLaw
        Distribution of the floors: with Rayleigh fading, ``RayleighFloors.of(scenario, mean_gain)``.
    """

    needs_law: ClassVar[bool] = True
    label: ClassVar[str] = "constant level"
    budget_mode = "law"

    law: FloorLaw

    def start(self, scenario: Scenario, budget: FloatArray) -> ConstantLevelState:
        level = check_law("law", self.law).level(budget)
        budget = np.broadcast_to(budget, level.shape)
        return ConstantLevelState(scenario, budget, 0, level)

    def decide_rounds(
        self, state: ConstantLevelState, floor: FloatArray
    ) -> tuple[ConstantLevelState, FloatArray]:
        energy = np.maximum(state.level[..., None], floor)
        return state.after(floor.shape[-1]), energy
