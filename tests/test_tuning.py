"""Matching the cost to the budget."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest

from adascale import ReceiveScalingProblem, Scenario, policies, tuning
from adascale.channel import RayleighFloors
from adascale.errors import BudgetNotReached, FlatCost, InvalidInput

from .problems import CIFAR, MNIST
from .problems import make as one_budget


def make(scenario, budgets, seeds=(0, 1)):
    return one_budget(scenario, np.array(budgets)[:, None], [*seeds])


def root(excess, found):
    """The root by Brent's method, around the parameter that was found."""
    centre = np.log(found)
    return np.exp(
        brentq(
            lambda log_parameter: excess(np.exp(log_parameter)),
            centre - 3,
            centre + 3.3,
            xtol=1e-14,
        )
    )


@pytest.mark.parametrize("scenario", [MNIST, CIFAR], ids=lambda scenario: scenario.name)
def test_tuned_cost_is_the_budget_within_the_tolerance(scenario):
    problem = make(scenario, [0.01, 0.16, 0.32])
    for tolerance in (1e-3, 1e-6, None, 1e-11):
        given = {} if tolerance is None else {"tolerance": tolerance}
        penalty = tuning.match_budget(policies.AdaScale, problem, **given)
        assert penalty.shape == problem.lanes == (3, 2)
        cost = problem.cost(policies.AdaScale(penalty).schedule(problem))
        assert np.abs(cost / problem.budget - 1).max() <= (tolerance or 1e-9)


def test_matching_agrees_with_a_generic_root_finder_at_each_lane():
    problem = make(MNIST, [0.01, 0.16])
    found = tuning.match_budget(policies.AdaScale, problem)
    for k, r in np.ndindex(problem.lanes):
        alone = ReceiveScalingProblem(
            problem.scenario, problem.min_gain[r], problem.budget[k, 0]
        )
        exact = root(
            lambda V, one=alone: (
                one.cost(policies.AdaScale(V).schedule(one)) / one.budget - 1
            ),
            found[k, r],
        )
        # the penalty moves a few times as much as the cost, which is found to 1e-12
        assert found[k, r] == pytest.approx(exact, rel=1e-10)
    assert tuning.match_budget(policies.AdaScale, alone).shape == ()
    for guess in (1e-6, 1e6):
        np.testing.assert_allclose(
            tuning.match_budget(policies.AdaScale, problem, guess=guess),
            found,
            rtol=1e-7,
        )


@dataclass
class Spending:
    """Spends a share of its budget that depends on its parameter."""

    parameter: np.ndarray
    share = staticmethod(lambda parameter: parameter)

    def schedule(self, problem):
        spent = (self.share(self.parameter) * problem.budget)[..., None]
        return problem.min_noise_energy + spent


def spending(share):
    return type("Other", (Spending,), {"share": staticmethod(share)})


Overspender = spending(lambda parameter: 2.0)
NEVER = {
    "twice the budget": (Overspender, r"lane \(0, 0\).* nu = 0\.01$"),
    "below 0.9 of it": (
        spending(lambda parameter: 0.9 * parameter / (1 + parameter)),
        r"lane \(0, 0\).* nu = 0\.01$",
    ),
    "half or twice of it": (
        spending(lambda parameter: np.where(parameter < 3.7, 0.5, 2.0)),
        r"lane \(0, 0\)",
    ),
}


def test_any_policy_with_one_positive_parameter_can_be_tuned():
    found = tuning.match_budget(Spending, make(MNIST, [0.01, 0.16]), guess=30.0)
    np.testing.assert_allclose(
        found, np.ones((2, 2)), rtol=1e-9
    )  # its cost is linear in the parameter


@pytest.mark.parametrize("spent", NEVER)
def test_a_policy_that_cannot_reach_its_budget_is_named_lane_and_all(spent):
    policy, said = NEVER[spent]
    with pytest.raises(BudgetNotReached, match=said):
        tuning.match_budget(policy, make(MNIST, [0.01, 0.16]))


def test_one_lane_that_cannot_reach_its_budget_is_the_one_named():
    def policy(parameter):
        """Right, but for the lanes of the larger budget."""
        chosen, wasteful = policies.AdaScale(parameter), Overspender(parameter)

        class Mixed:
            def schedule(self, part):
                return np.where(
                    part.budget[..., None] > 0.1,
                    wasteful.schedule(part),
                    chosen.schedule(part),
                )

        return Mixed()

    problem = make(MNIST, [0.01, 0.16])
    with pytest.raises(BudgetNotReached, match=r"lane \(1, 0\)"):
        tuning.match_budget(policy, problem, guess=policies.AdaScale.guess(problem))


class Stopping(policies.OnlinePolicy):
    """Adds a multiple of the floor, and stops at the budget, or only above it."""

    most = 1.0

    def __init__(self, scale):
        self.scale = np.asarray(scale)

    def start(self, scenario, budget):
        return self.most * budget * scenario.num_rounds

    def decide(self, left, floor):
        extra = np.minimum(self.scale * floor, left)
        return left - extra, floor + extra


@pytest.mark.parametrize("guess", [0.01, 1.0, 6310.0])
def test_a_budget_that_does_not_determine_the_parameter_is_warned_of(guess):
    """The negative control stops at twice the budget, so that its cost crosses it once."""
    problem = make(MNIST, [0.01, 0.16])
    with pytest.warns(
        FlatCost, match=r"lane \(\d, \d\) of Stopping is the budget for .* and .* alike"
    ):
        scale = tuning.match_budget(Stopping, problem, guess=guess)
    beyond = Stopping(1.5 * scale).schedule(problem)
    np.testing.assert_allclose(
        problem.cost(beyond) / problem.budget, np.ones((2, 2)), rtol=1e-9
    )
    later = type("Later", (Stopping,), {"most": 2.0})
    np.testing.assert_allclose(
        tuning.match_budget(later, problem, guess=guess) > 0, True
    )
    with pytest.warns(FlatCost, match="the mean cost of Stopping"):
        tuning.match_law(
            Stopping, SHORT, 2e-3, RayleighFloors(1e-3), draws=3, guess=1e3
        )


def power_control(privacy_budget, mean_gain):
    return policies.PowerControl(mean_gain, privacy_budget)


def test_statistics_are_handed_over_lane_by_lane():
    problem = make(MNIST, [0.01, 0.16])
    mean_gain = np.linspace(1, 2, 20).reshape(2, 10) * np.median(problem.min_gain) * 10
    seen = []

    def policy(privacy_budget, mean_gain):
        seen.append((len(privacy_budget), mean_gain.shape))
        return power_control(privacy_budget, mean_gain)

    found = tuning.match_budget(
        policy, problem, mean_gain, guess=policies.PowerControl.guess(problem)
    )
    assert found.shape == (2, 2)
    assert all(shape == (count, 10) for count, shape in seen)
    assert min(seen)[0] < 4  # lanes that are done are not run again
    cost = problem.cost(policies.PowerControl(mean_gain, found).schedule(problem))
    np.testing.assert_allclose(cost, np.broadcast_to(problem.budget, (2, 2)), rtol=1e-9)


SHORT = Scenario("short", 3, 60, 1000, 20, 400, 1.0, 0.2, 1e-12)
LAW = RayleighFloors([1e-3, 4e-3])


def problem_of(floor, budget):
    return ReceiveScalingProblem(
        SHORT, SHORT.noise_scale / (SHORT.x_max * floor), budget
    )


def test_the_mean_cost_over_draws_of_the_law_is_the_budget():
    """By Brent's method on each lane alone, with the draws one by one."""
    budgets, how = (
        np.array([[2e-3], [8e-3]]),
        {"draws": 5, "seed": 3, "tolerance": 1e-9},
    )
    found = tuning.match_law(policies.AdaScale, SHORT, budgets, LAW, **how)
    far = tuning.match_law(policies.AdaScale, SHORT, budgets, LAW, guess=1e5, **how)
    np.testing.assert_allclose(far, found, rtol=1e-7)
    floor = tuning.draw_floors(SHORT, LAW, 5, 3)
    assert found.shape == (2, 2)
    assert floor.shape == (2, 5, 60)
    for k, r in np.ndindex(2, 2):
        budget = (2e-3, 8e-3)[k]
        alone = [problem_of(drawn, budget) for drawn in floor[r]]

        def excess(penalty, alone=alone, budget=budget):
            return (
                np.mean(
                    [
                        one.cost(policies.AdaScale(penalty).schedule(one))
                        for one in alone
                    ]
                )
                / budget
                - 1
            )

        assert found[k, r] == pytest.approx(
            root(excess, found[k, r]), rel=1e-7
        )  # a few times the tolerance
    assert (
        tuning.match_law(policies.AdaScale, SHORT, 2e-3, RayleighFloors(1e-3)).shape
        == ()
    )


def test_draws_are_of_the_law_and_more_of_them_extend_fewer():
    floor = tuning.draw_floors(SHORT, LAW, 200, 1)
    np.testing.assert_array_equal(tuning.draw_floors(SHORT, LAW, 3, 1), floor[:, :3])
    assert not np.isin(tuning.draw_floors(SHORT, LAW, 3, 2), floor).any()
    np.testing.assert_allclose(
        floor[1], 4 * floor[0], rtol=1e-12
    )  # the same quantiles in every lane
    share = LAW.cdf(np.moveaxis(floor, 0, -1)).ravel()
    assert kstest(share, "uniform").pvalue > 1e-3
    assert (
        abs(np.corrcoef(share[:-2:2], share[2::2])[0, 1]) < 0.05
    )  # from round to round; five standard errors


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_law_s_statistics_come_lane_by_lane(lanes):
    mean_gain = np.array([[1e-9, 2e-9, 3e-9], [4e-9, 5e-9, 6e-9]])[
        :lanes
    ].squeeze()  # one row is that of every lane
    budget, law = 4e-3 * np.arange(1, 4 - lanes), RayleighFloors.of(SHORT, mean_gain)
    found = tuning.match_law(
        power_control, SHORT, budget, law, mean_gain, guess=policies.PowerControl.guess
    )
    floor = np.broadcast_to(tuning.draw_floors(SHORT, law, 30, 0), (2, 30, 60))
    budget = np.broadcast_to(budget, 2)
    for r, gain in enumerate(np.broadcast_to(mean_gain, (2, 3))):
        problem = problem_of(floor[r], budget[r])
        cost = problem.cost(policies.PowerControl(gain, found[r]).schedule(problem))
        assert cost.mean() == pytest.approx(budget[r], rel=1e-6)


def test_what_a_law_cannot_be_matched_with_is_named():
    for name, value in (
        ("draws", 0),
        ("seed", -1),
        ("seed", True),
        ("tolerance", [1e-3, 1e-3]),
        ("guess", -1.0),
    ):
        with pytest.raises(InvalidInput) as error:
            tuning.match_law(policies.AdaScale, SHORT, 4e-3, LAW, **{name: value})
        assert error.value.argument == name
    with pytest.raises(
        InvalidInput,
        match="at most 100,000,000 entries at once, got 2 x 1000000000 x 60",
    ):
        tuning.draw_floors(SHORT, LAW, 10**9, 0)
    for law, said in (
        (LAW, r"lane \(0,\) .* nu = 0.004$"),
        (RayleighFloors(1e-3), "nu = 0.004"),
    ):
        with pytest.raises(BudgetNotReached, match=said):
            tuning.match_law(Overspender, SHORT, 4e-3, law)
