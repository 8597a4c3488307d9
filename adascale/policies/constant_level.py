"""ConstantLevel: one noise energy for all rounds, whose expected cost is the budget."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale.policies.base import LawPolicy, State
from adascale.scenario import FloatArray, Scenario


@dataclass(frozen=True)
class ConstantLevelState(State):
    """The constant level of every instance."""

    level: FloatArray


@dataclass(frozen=True)
class ConstantLevel(LawPolicy):
    r"""One level for all rounds, from the distribution of the floors.

    .. math:: w_t = \max(\ell, w_{\min,t}), \qquad g(\ell) = \mathbb E \max(\ell - w_{\min}, 0) = \nu

    Parameters
    ----------
    mean_gain : array_like, shape (..., M), optional
        :math:`\mathbb E|h_m|^2 / k_m^2` of independent Rayleigh fading.
    law : FloorLaw, optional
        Any other distribution of the floors; exactly one of the two must be given.
    """

    label: ClassVar[str] = "constant level"

    def start(self, scenario: Scenario, budget: FloatArray) -> ConstantLevelState:
        level = self.known(scenario).level(budget)
        return ConstantLevelState(scenario, np.broadcast_to(budget, level.shape), level)

    def energies(self, state: ConstantLevelState, floor: FloatArray) -> tuple[ConstantLevelState, FloatArray]:
        return state, np.maximum(state.level[..., None], floor)
