r"""EqualAlloc: the same extra noise energy in every round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.policies.base import OnlinePolicy
from adascale.problem import scaling
from adascale.scenario import Scenario


class EqualAllocState(NamedTuple):
    """Nothing is remembered but the constants."""

    scenario: Scenario
    budget: NDArray[np.float64]

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.budget.shape


class EqualAlloc(OnlinePolicy):
    r"""Spend :math:`\nu` in every round: :math:`w_t = w_{\min,t} + \nu` (:eq:`eq:equal-alloc`).

    In the paper's variables :math:`x_t = x_{\max} / (1 + x_{\max} \nu h_{\min,t}^2 / (d \sigma_n^2))` (Section
    "Numerical Experiments").  It meets the budget by construction.
    """

    def start(self, scenario: Scenario, budget: NDArray[np.float64]) -> EqualAllocState:
        return EqualAllocState(scenario, budget)

    def step(
        self, state: EqualAllocState, min_gain_t: NDArray[np.float64]
    ) -> tuple[EqualAllocState, NDArray[np.float64]]:
        max_eta = state.scenario.x_max * min_gain_t
        floor = state.scenario.noise_scale / max_eta
        return state, scaling(floor + state.budget, floor, max_eta, state.scenario.noise_scale)

    def skip(self, state: EqualAllocState) -> EqualAllocState:
        r"""A round that spends nothing; its :math:`\nu` is not passed on to others."""
        return state
