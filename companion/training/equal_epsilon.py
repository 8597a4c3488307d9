"""EqualAlloc at a given epsilon. The addresses of the runs of ``results/mnist/guaranteed.toml`` hash this file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from adascale.accounting import ExactAccountant
from adascale.policies import EqualAlloc, Policy
from adascale.problem import Problem
from adascale.rootfind import solve
from adascale.scenario import FloatArray


@dataclass(frozen=True)
class EqualAllocAt(Policy):
    r"""The even split :math:`w_t = w_{\min,t} + \nu` whose worst device reaches ``epsilon``; it **sees all rounds**.

    :meth:`EqualAlloc.budget_for <adascale.policies.EqualAlloc.budget_for>` has the :math:`\nu` that guarantees epsilon
    on every channel.  Floors add noise, so this one is smaller.
    """

    needs_epsilon: ClassVar[bool] = True

    epsilon: float
    delta: float = 1e-5

    def schedule(self, problem: Problem) -> FloatArray:
        """Return the noise energies of one problem."""
        exact = ExactAccountant()
        floor = problem.min_noise_energy
        most = EqualAlloc.budget_for(problem.scenario, self.epsilon, self.delta)

        def excess(log_budget: float) -> float:
            w = floor + math.exp(log_budget)
            reached = float(problem.epsilon(w, exact, self.delta))
            return math.log(reached / self.epsilon)

        log_budget = solve(excess, math.log(most / 1e3), math.log(most))
        return floor + math.exp(log_budget) * (1 + 1e-9)
