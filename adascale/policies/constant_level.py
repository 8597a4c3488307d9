"""ConstantLevel: one noise energy for all rounds, whose expected cost is the budget."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.policies.base import CompiledPolicy, State, find_law
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
    mean_gain : array_like, shape (..., M), optional
        :math:`\mathbb E|h_m|^2 / k_m^2` of independent Rayleigh fading.
    law : FloorLaw, optional
        Any other distribution of the floors; exactly one of the two must be given.
    """

    needs_law: ClassVar[bool] = True
    label: ClassVar[str] = "constant level"
    budget_mode = "law"

    mean_gain: FloatArray | None = None
    law: FloorLaw | None = None

    def start(self, scenario: Scenario, budget: FloatArray) -> ConstantLevelState:
        level = find_law(scenario, self.mean_gain, self.law).level(budget)
        budget = np.broadcast_to(budget, level.shape)
        return ConstantLevelState(scenario, budget, 0, level)

    def decide_rounds(
        self, state: ConstantLevelState, floor: FloatArray
    ) -> tuple[ConstantLevelState, FloatArray]:
        energy = np.maximum(state.level[..., None], floor)
        return state.after(floor.shape[-1]), energy
