"""Matching the cost to the budget."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest

from adascale import ReceiveScalingProblem, Scenario, channel, policies, tuning
from adascale.channel import RayleighFloors


def make(scenario, budget, seeds=(0, 1)):
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, list(seeds)).gain
    return ReceiveScalingProblem(scenario, scenario.min_gain(gain), np.asarray(budget)[:, None])


@pytest.mark.parametrize("scenario", [Scenario.mnist(), Scenario.cifar10()], ids=lambda scenario: scenario.name)
def test_tuned_cost_is_the_budget(scenario):
    problem = make(scenario, [0.01, 0.16, 0.32])
    penalty = tuning.match_budget(policies.AdaScale, problem)
    assert penalty.shape == problem.lanes == (3, 2)
    cost = problem.cost(policies.AdaScale(penalty).schedule(problem))
    np.testing.assert_allclose(cost, np.broadcast_to(problem.budget, (3, 2)), rtol=1e-9)  # what is promised


def test_lanes_are_tuned_each_on_its_own():
    problem = make(Scenario.mnist(), [0.02, 0.1])
    together = tuning.match_budget(policies.AdaScale, problem)
    for k in range(2):
        for r in range(2):
            alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[r], problem.budget[k, 0])
            single = tuning.match_budget(policies.AdaScale, alone)
            assert single.shape == ()
            # both meet the cost to 1e-9; the penalty moves a few times as much
            assert float(single) == pytest.approx(together[k, r], rel=1e-7)


def test_a_poor_guess_ends_at_the_same_penalty():
    problem = make(Scenario.mnist(), [0.04], [0])
    near = tuning.match_budget(policies.AdaScale, problem)
    for guess in (1e-6, 1e6):
        far = tuning.match_budget(policies.AdaScale, problem, guess=guess)
        np.testing.assert_allclose(far, near, rtol=1e-7)  # as above


def test_cost_rises_with_the_penalty():
    """It is why one root is enough; the proof's own test is in test_problem_theory.py."""
    problem = make(Scenario.mnist(), [0.01, 0.16], range(5))
    grid = np.geomspace(1e-5, 1e3, 25)
    cost = np.stack([problem.cost(policies.AdaScale(penalty).schedule(problem)) for penalty in grid])
    assert (np.diff(cost, axis=0) > 0).all()


@dataclass
class Overspender:
    """Costs twice the budget, whatever its parameter."""

    parameter: np.ndarray

    def schedule(self, problem):
        return problem.scenario.noise_scale / (problem.floor + 2 * problem.budget[..., None])


@dataclass
class Timid:
    """Comes near its budget from below and never reaches 0.9 of it."""

    parameter: np.ndarray

    def schedule(self, problem):
        share = 0.9 * self.parameter / (1 + self.parameter)
        return problem.scenario.noise_scale / (problem.floor + (share * problem.budget)[..., None])


@pytest.mark.parametrize("policy", [Overspender, Timid])
def test_a_policy_that_cannot_reach_its_budget_is_named_lane_and_all(policy):
    problem = make(Scenario.mnist(), [0.01, 0.16])
    with pytest.raises(RuntimeError, match=r"^no parameter .* lane \(0, 0\).* budget") as error:
        tuning.match_budget(policy, problem)
    assert "\n" not in str(error.value)


@dataclass
class Reaching:
    """Spends its parameter times the budget: the right one is 1."""

    parameter: np.ndarray

    def schedule(self, problem):
        return problem.scenario.noise_scale / (problem.floor + (self.parameter * problem.budget)[..., None])


def test_any_policy_with_one_positive_parameter_can_be_tuned():
    problem = make(Scenario.mnist(), [0.01, 0.16])
    found = tuning.match_budget(Reaching, problem, guess=30.0)
    np.testing.assert_allclose(found, np.ones((2, 2)), rtol=1e-9)  # its cost is linear in the parameter


@dataclass
class Jumping:
    """Spends half or twice its budget, never its budget."""

    parameter: np.ndarray

    def schedule(self, problem):
        share = np.where(self.parameter < 3.7, 0.5, 2.0)
        return problem.scenario.noise_scale / (problem.floor + (share * problem.budget)[..., None])


def test_a_cost_that_jumps_over_the_budget_is_no_match():
    with pytest.raises(tuning.BudgetNotReached, match=r"lane \(0, 0\)"):
        tuning.match_budget(Jumping, make(Scenario.mnist(), [0.01, 0.16]))


def test_one_lane_that_cannot_reach_its_budget_is_the_one_named():
    problem = make(Scenario.mnist(), [0.01, 0.16])

    def policy(parameter):
        """Right, but for the lanes of the larger budget."""
        chosen = policies.AdaScale(parameter)

        class Mixed:
            def schedule(self, part):
                wasteful = part.scenario.noise_scale / (part.floor + 2 * part.budget[..., None])
                return np.where(part.budget[..., None] > 0.1, wasteful, chosen.schedule(part))

        return Mixed()

    with pytest.raises(tuning.BudgetNotReached, match=r"lane \(1, 0\)"):
        tuning.match_budget(policy, problem, guess=policies.AdaScale.guess(problem))


def test_matching_agrees_with_a_generic_root_finder_at_each_lane():
    problem = make(Scenario.mnist(), [0.01, 0.16])
    found = tuning.match_budget(policies.AdaScale, problem)
    for k, r in np.ndindex(problem.lanes):
        alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[r], problem.budget[k, 0])

        def excess(log_penalty, alone=alone):
            return alone.cost(policies.AdaScale(np.exp(log_penalty)).schedule(alone)) / alone.budget - 1

        centre = np.log(found[k, r])
        exact = brentq(excess, centre - 3, centre + 3.3, xtol=1e-14)
        # the penalty moves a few times as much as the cost, which is found to 1e-12
        assert found[k, r] == pytest.approx(np.exp(exact), rel=1e-10)


def test_the_tolerance_is_what_is_promised_of_the_cost():
    problem = make(Scenario.cifar10(), [0.02, 0.32])
    for tolerance in (1e-3, 1e-6, 1e-11):
        eta = policies.AdaScale(tuning.match_budget(policies.AdaScale, problem, tolerance=tolerance)).schedule(problem)
        assert np.abs(problem.cost(eta) / problem.budget - 1).max() <= tolerance


def test_statistics_are_handed_over_lane_by_lane():
    problem = make(Scenario.mnist(), [0.01, 0.16])
    mean_gain = np.linspace(1, 2, 20).reshape(2, 10) * np.median(problem.min_gain) * 10
    seen = []

    def policy(privacy_budget, mean_gain):
        seen.append((len(privacy_budget), mean_gain.shape))
        return policies.PowerControl(mean_gain, privacy_budget)

    found = tuning.match_budget(policy, problem, mean_gain, guess=policies.PowerControl.guess(problem))
    assert found.shape == (2, 2)
    assert all(shape == (count, 10) for count, shape in seen)
    assert min(seen)[0] < 4  # lanes that are done are not run again
    cost = problem.cost(policies.PowerControl(mean_gain, found).schedule(problem))
    np.testing.assert_allclose(cost, np.broadcast_to(problem.budget, (2, 2)), rtol=1e-9)


# By the law -----------------------------------------------------------------------------------------------------------

SHORT = Scenario("short", 3, 60, 1000, 20, 400, 1.0, 0.2, 1e-12)
LAW = RayleighFloors([1e-3, 4e-3])


def test_the_mean_cost_over_draws_of_the_law_is_the_budget():
    """By Brent's method on each lane alone, with the draws one by one."""
    found = tuning.match_law(policies.AdaScale, SHORT, np.array([[2e-3], [8e-3]]), LAW, draws=5, seed=3, tolerance=1e-9)
    floor = tuning.draw_floors(SHORT, LAW, 5, 3)
    assert found.shape == (2, 2)
    assert floor.shape == (2, 5, 60)
    for k, r in np.ndindex(2, 2):
        budget = (2e-3, 8e-3)[k]

        def excess(log_penalty, r=r, budget=budget):
            policy, costs = policies.AdaScale(np.exp(log_penalty)), []
            for drawn in floor[r]:
                alone = ReceiveScalingProblem(SHORT, SHORT.noise_scale / (SHORT.x_max * drawn), budget)
                costs.append(float(alone.cost(policy.schedule(alone))))
            return sum(costs) / 5 / budget - 1

        centre = np.log(found[k, r])
        exact = brentq(excess, centre - 3, centre + 3.3, xtol=1e-13)
        assert found[k, r] == pytest.approx(np.exp(exact), rel=1e-7)  # a few times the tolerance of the cost


def test_draws_are_of_the_law_and_more_of_them_extend_fewer():
    floor = tuning.draw_floors(SHORT, LAW, 200, 1)
    np.testing.assert_array_equal(tuning.draw_floors(SHORT, LAW, 3, 1), floor[:, :3])
    assert not np.isin(tuning.draw_floors(SHORT, LAW, 3, 2), floor).any()
    np.testing.assert_allclose(floor[1], 4 * floor[0], rtol=1e-12)  # the same quantiles in every lane
    share = LAW.cdf(np.moveaxis(floor, 0, -1)).ravel()
    assert kstest(share, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(share[:-2:2], share[2::2])[0, 1]) < 0.05  # from round to round; five standard errors


def test_a_lane_is_tuned_the_same_whatever_is_beside_it():
    both = tuning.match_law(policies.AdaScale, SHORT, 4e-3, LAW, tolerance=1e-9)
    alone = tuning.match_law(policies.AdaScale, SHORT, 4e-3, RayleighFloors(4e-3), tolerance=1e-9)
    assert alone.shape == ()
    assert float(alone) == pytest.approx(both[1], rel=1e-7)


def test_the_law_s_guess_may_be_a_number_or_far_off():
    near = tuning.match_law(policies.AdaScale, SHORT, 4e-3, LAW, tolerance=1e-9)
    far = tuning.match_law(policies.AdaScale, SHORT, 4e-3, LAW, guess=1e5, tolerance=1e-9)
    np.testing.assert_allclose(near, far, rtol=1e-7)


def test_the_law_s_statistics_come_lane_by_lane():
    mean_gain = np.array([[1e-9, 2e-9, 3e-9], [4e-9, 5e-9, 6e-9]])
    law = RayleighFloors.of(SHORT, mean_gain)

    def policy(privacy_budget, mean_gain):
        return policies.PowerControl(mean_gain, privacy_budget)

    found = tuning.match_law(policy, SHORT, 4e-3, law, mean_gain, guess=policies.PowerControl.guess)
    floor = tuning.draw_floors(SHORT, law, 30, 0)
    for r in range(2):
        problem = ReceiveScalingProblem(SHORT, SHORT.noise_scale / (SHORT.x_max * floor[r]), 4e-3)
        eta = policies.PowerControl(mean_gain[r], found[r]).schedule(problem)
        assert problem.cost(eta).mean() == pytest.approx(4e-3, rel=1e-6)


def test_one_row_of_statistics_is_that_of_every_lane():
    mean_gain = np.array([1e-9, 2e-9, 3e-9])
    law = RayleighFloors.of(SHORT, mean_gain)
    seen = []

    def policy(privacy_budget, mean_gain):
        seen.append(mean_gain)
        return policies.PowerControl(mean_gain, privacy_budget)

    tuning.match_law(policy, SHORT, [4e-3, 8e-3], law, mean_gain, guess=policies.PowerControl.guess, draws=2)
    assert all((each == mean_gain).all() for each in seen)


def test_a_draw_of_zero_has_a_floor(monkeypatch):
    class Zeros:
        def random(self, count):
            return np.zeros(count)

    monkeypatch.setattr(np.random, "default_rng", lambda stream: Zeros())
    floor = tuning.draw_floors(SHORT, LAW, 2, 0)
    assert ((floor > 0) & (floor < np.inf)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"draws": 0}, "draws must be a whole number >= 1, got 0"),
        ({"draws": 10**9}, "draws"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"seed": True}, "seed must be a whole number >= 0, got True"),
        ({"tolerance": [1e-3, 1e-3]}, "tolerance must be one number"),
        ({"guess": -1.0}, "guess must be"),
    ],
)
def test_what_a_law_cannot_be_matched_with_is_named(change, said):
    with pytest.raises(ValueError, match=said):
        tuning.match_law(policies.AdaScale, SHORT, 4e-3, LAW, **change)


def test_a_mean_cost_that_is_out_of_reach_is_named_with_its_budget():
    with pytest.raises(tuning.BudgetNotReached, match=r"mean cost of lane \(0,\) .* nu = 0.004, over 30 draws"):
        tuning.match_law(Overspender, SHORT, 4e-3, LAW)
    with pytest.raises(tuning.BudgetNotReached, match="the mean cost to its budget"):
        tuning.match_law(Overspender, SHORT, 4e-3, RayleighFloors(1e-3))
