"""ConstantLevel: one noise energy for all rounds, whose expected cost is the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adascale.policies.base import FloatArray, LawPolicy
from adascale.problem import scaling
from adascale.scenario import Scenario


class ConstantLevelState(NamedTuple):
    """The constant level per instance."""

    scenario: Scenario
    level: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.level.shape


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
        return ConstantLevelState(scenario, self.known(scenario, budget)[0].level(budget))

    def step(self, state: ConstantLevelState, min_gain_t: FloatArray) -> tuple[ConstantLevelState, FloatArray]:
        max_eta = state.scenario.x_max * min_gain_t
        floor = state.scenario.noise_scale / max_eta
        return state, scaling(np.maximum(state.level, floor), floor, max_eta, state.scenario.noise_scale)
