"""Matching the cost to the budget."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from scipy.stats import kstest

from adascale import Scenario, policies, tuning
from adascale.channel import RayleighFloors
from adascale.errors import BudgetNotReached, InvalidInput

from .problems import CIFAR, MNIST, make, with_floors

BUDGETS = np.array([[0.01], [0.16]])
PROBLEM = make(MNIST, BUDGETS, [0, 1])


@pytest.mark.parametrize("tolerance", [1e-3, 1e-11])
def test_tuned_cost_is_the_budget_within_the_tolerance(tolerance):
    problem = make(CIFAR, [[0.01], [0.32]], [0, 1])
    penalty = tuning.match_budget(policies.AdaScale, problem, tolerance=tolerance)
    cost = problem.cost(policies.AdaScale(penalty).schedule(problem))
    assert np.abs(cost / problem.budget - 1).max() <= tolerance
    alone = make(CIFAR, 0.32, 1)
    found = tuning.match_budget(policies.AdaScale, alone, tolerance=tolerance)
    assert found == pytest.approx(penalty[1, 1], rel=10 * tolerance)


@pytest.mark.parametrize("guess", [1e-6, 1e6])
def test_the_guess_does_not_matter(guess):
    penalty = tuning.match_budget(policies.AdaScale, PROBLEM)
    other = tuning.match_budget(policies.AdaScale, PROBLEM, guess=guess)
    np.testing.assert_allclose(other, penalty, rtol=1e-7)


@dataclass
class Spending:
    """Spends a share of its budget that is a function of its parameter."""

    share: Callable
    parameter: np.ndarray

    def schedule(self, problem):
        spent = self.share(self.parameter) * problem.budget
        return problem.min_noise_energy + spent[..., None]


def double(parameter):
    return 2.0


def bounded(parameter):
    return 0.9 * parameter / (1 + parameter)


def jumps(parameter):
    return np.where(parameter < 3.7, 0.5, 2.0)


def test_any_policy_with_one_positive_parameter_can_be_tuned():
    policy = partial(Spending, lambda parameter: parameter)
    parameter = tuning.match_budget(policy, PROBLEM, guess=30.0)
    np.testing.assert_allclose(parameter, 1.0, rtol=1e-9)


@pytest.mark.parametrize("share", [double, bounded, jumps])
def test_a_policy_that_cannot_reach_its_budget_is_refused(share):
    with pytest.raises(BudgetNotReached, match=r"instance \(0, 0\).* nu = 0\.01"):
        tuning.match_budget(partial(Spending, share), PROBLEM)


def test_each_instance_has_its_own_statistics():
    share = np.linspace(1, 2, 20).reshape(2, 10)
    mean_gain = share * np.median(PROBLEM.min_gain) * 10
    guess = policies.PowerControl.guess(PROBLEM)
    counts = []

    def policy(privacy_budget, mean_gain):
        assert mean_gain.shape == (len(privacy_budget), 10)
        counts.append(len(privacy_budget))
        return policies.PowerControl(mean_gain, privacy_budget)

    sums = tuning.match_budget(policy, PROBLEM, mean_gain, guess=guess)
    cost = PROBLEM.cost(policies.PowerControl(mean_gain, sums).schedule(PROBLEM))
    np.testing.assert_allclose(cost / PROBLEM.budget, 1.0, rtol=1e-9)
    assert min(counts) < 4  # instances that are done are not run again


SHORT = Scenario("short", 3, 60, 1000, 20, 400, 1.0, 0.2, 1e-12)
LAW = RayleighFloors([1e-3, 4e-3])


def test_the_mean_cost_over_draws_of_the_law_is_the_budget():
    budgets = np.array([[2e-3], [8e-3]])
    how = {"draws": 5, "seed": 3, "tolerance": 1e-9}
    penalty = tuning.match_law(policies.AdaScale, SHORT, budgets, LAW, **how)
    floor = tuning.draw_floors(SHORT, LAW, 5, 3)
    for k, r in np.ndindex(2, 2):
        draws = with_floors(SHORT, floor[r], budgets[k, 0])
        cost = draws.cost(policies.AdaScale(penalty[k, r]).schedule(draws))
        assert cost.mean() == pytest.approx(budgets[k, 0], rel=1e-9)


def test_draws_are_of_the_law_and_independent_from_round_to_round():
    floor = tuning.draw_floors(SHORT, LAW, 200, 1)
    share = LAW.cdf(np.moveaxis(floor, 0, -1)).ravel()
    assert kstest(share, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(share[:-2:2], share[2::2])[0, 1]
    assert abs(correlation) < 0.05  # five standard errors
    # the same quantiles in every instance
    np.testing.assert_allclose(floor[1], 4 * floor[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [("draws", 0), ("seed", -1), ("tolerance", [1e-3, 1e-3]), ("guess", -1.0)],
)
def test_a_bad_argument_is_named(name, value):
    with pytest.raises(InvalidInput) as error:
        tuning.match_law(policies.AdaScale, SHORT, 4e-3, LAW, **{name: value})
    assert error.value.argument == name


def test_more_draws_than_fit_into_memory_are_refused():
    with pytest.raises(InvalidInput, match="got 2 x 1000000000 x 60"):
        tuning.draw_floors(SHORT, LAW, 10**9, 0)


@pytest.mark.parametrize(
    ("law", "place"),
    [(LAW, r"mean cost of instance \(0,\)"), (RayleighFloors(1e-3), "")],
)
def test_a_law_whose_mean_cost_cannot_be_the_budget_is_refused(law, place):
    with pytest.raises(BudgetNotReached, match=f"{place}.* nu = 0.004"):
        tuning.match_law(partial(Spending, double), SHORT, 4e-3, law)
