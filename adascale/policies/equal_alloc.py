"""EqualAlloc: the same noise energy above the floor in every round."""

import numpy as np

from adascale.accounting import calibrate
from adascale.checks import FloatArray
from adascale.policies.base import CompiledPolicy, State
from adascale.problem import RoundLeakage
from adascale.scenario import Scenario


class EqualAlloc(CompiledPolicy):
    r"""An even split of the budget: :math:`w_t = w_{\min,t} + \nu` (:eq:`eq:equal-alloc`).

    In the paper, :math:`x_t = x_{\max} / (1 + x_{\max} \nu h_{\min,t}^2 / (d \sigma_n^2))` ("Numerical Experiments").
    """

    budget_mode = "hard"

    def start(self, scenario: Scenario, budget: FloatArray) -> State:
        return State(scenario, budget, 0)

    def decide_rounds(
        self, state: State, floor: FloatArray
    ) -> tuple[State, FloatArray]:
        energy = floor + np.asarray(state.budget)[..., None]
        return state.after(floor.shape[-1]), energy

    @staticmethod
    def budget_for(scenario: Scenario, epsilon: float, delta: float = 1e-5) -> float:
        r"""Find the budget that guarantees :math:`\varepsilon` for every device, before round 0 and on every channel.

        As floors are positive, :math:`w_t \ge \nu`, hence :math:`\varepsilon_m \le \varepsilon(q_m, \sigma_m(\nu), T)`.
        The noise multiplier with this epsilon is found for each kind of device; the largest :math:`\nu` is enough for
        all.

        Parameters
        ----------
        scenario : Scenario
        epsilon : float, > 0
            The largest epsilon of any device, by the exact accountant.
        delta : float, in (0, 1)
        """
        leakage = RoundLeakage(scenario)
        T = scenario.num_rounds
        sigma = np.array(
            [calibrate([(q, 1.0, T)], epsilon, delta).scale for q in leakage.rate]
        )
        least = float(np.max(leakage.unit_energy * sigma**2))
        return least * (1 + 1e-12)  # so that no rounding exceeds epsilon
