"""EqualAlloc: the same noise energy above the floor in every round."""

from __future__ import annotations

from adascale.policies.base import FloatArray, RoundsPolicy, State
from adascale.scenario import Scenario


class EqualAlloc(RoundsPolicy):
    r"""An even split of the budget: :math:`w_t = w_{\min,t} + \nu` (:eq:`eq:equal-alloc`).

    In the paper, :math:`x_t = x_{\max} / (1 + x_{\max} \nu h_{\min,t}^2 / (d \sigma_n^2))` ("Numerical Experiments").
    """

    def start(self, scenario: Scenario, budget: FloatArray) -> State:
        return State(scenario, budget)

    def energies(self, state: State, floor: FloatArray) -> tuple[State, FloatArray]:
        return state, floor + state.budget[..., None]
