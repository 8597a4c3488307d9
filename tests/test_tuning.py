"""Matching the cost to the budget."""

from dataclasses import dataclass

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies, tuning


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
    """A sample, no proof: it is why one root is enough."""
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
