"""What is said of a budget that cannot be met: whether the floors drown it, or the policy never spends it."""

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, policies, tuning

from .problems import MNIST, OnlySome, make


def test_a_budget_under_the_rounding_of_a_floor_is_told_from_one_that_a_policy_never_spends():
    problem = make(MNIST, 1.0)
    floor = problem.floor.max()
    drowned = float(np.spacing(floor)) * 1e3  # 1e-9 of it is far below what a floor is rounded by
    with pytest.raises(tuning.BudgetNotReached, match="is rounded by more than 1e-09 of it"):
        tuning.match_budget(policies.AdaScale, ReceiveScalingProblem(problem.scenario, problem.min_gain, drowned))
    with pytest.raises(tuning.BudgetNotReached, match=r"to its budget, nu = 1$"):
        tuning.match_budget(OnlySome, problem)
