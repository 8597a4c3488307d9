"""What is said of a budget that cannot be met: whether the floors drown it, or the policy never spends it."""

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, policies, tuning
from adascale.policies.adascale import NoRoot

from .problems import MNIST, OnlySome, make


def test_a_budget_under_the_rounding_of_a_floor_is_told_from_one_that_a_policy_never_spends():
    problem = make(MNIST, 1.0)
    floor = problem.floor.max()
    drowned = float(np.spacing(floor)) * 1e3  # 1e-9 of it is far below what a floor is rounded by
    with pytest.raises(tuning.BudgetNotReached, match="is rounded by more than 1e-09 of it"):
        tuning.match_budget(policies.AdaScale, ReceiveScalingProblem(problem.scenario, problem.min_gain, drowned))
    with pytest.raises(tuning.BudgetNotReached, match=r"to its budget, nu = 1$"):
        tuning.match_budget(OnlySome, problem)


def test_a_round_without_a_root_is_a_budget_that_is_not_reached():
    class Rootless:
        def __init__(self, parameter):
            pass

        def schedule(self, problem):
            raise NoRoot("no root found in round 3")

    with pytest.raises(tuning.BudgetNotReached, match="brings the cost to its budget: no root found in round 3"):
        tuning.match_budget(Rootless, make(MNIST, 1.0))
