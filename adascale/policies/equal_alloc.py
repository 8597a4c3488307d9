"""EqualAlloc: the same noise energy above the floor in every round."""

from __future__ import annotations

from typing import NamedTuple

from adascale.policies.base import FloatArray, OnlinePolicy
from adascale.problem import scaling
from adascale.scenario import Scenario


class EqualAllocState(NamedTuple):
    """The constants."""

    scenario: Scenario
    budget: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.budget.shape


class EqualAlloc(OnlinePolicy):
    r"""An even split of the budget: :math:`w_t = w_{\min,t} + \nu` (:eq:`eq:equal-alloc`).

    In the paper, :math:`x_t = x_{\max} / (1 + x_{\max} \nu h_{\min,t}^2 / (d \sigma_n^2))` ("Numerical Experiments").
    """

    def start(self, scenario: Scenario, budget: FloatArray) -> EqualAllocState:
        return EqualAllocState(scenario, budget)

    def step(self, state: EqualAllocState, min_gain_t: FloatArray) -> tuple[EqualAllocState, FloatArray]:
        max_eta = state.scenario.x_max * min_gain_t
        floor = state.scenario.noise_scale / max_eta
        return state, scaling(floor + state.budget, floor, max_eta, state.scenario.noise_scale)
