"""Methods: policies brought to a budget in hindsight, and how they are found by name."""

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.comparison import TunedOnRealisation, find_method
from adascale.comparison.shi_tuning import kindest_lyapunov

BUDGETS = [2e-3, 8e-3]


@pytest.fixture(scope="module")
def scenario():
    return Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)


def test_a_method_tunes_the_one_parameter_of_its_class(scenario):
    drawn = channel.draw(3, 40, [0, 1])
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), np.array(BUDGETS)[:, None])
    mean_gain = scenario.mean_gain(drawn.path_loss)
    made = TunedOnRealisation(policies.PowerControl, contraction=0.99, estimate="minimum")
    assert made.tuned == ("privacy_budget",)
    policy = made(problem, mean_gain)
    assert (policy.contraction, policy.estimate) == (0.99, "minimum")
    np.testing.assert_allclose(problem.cost(policy.schedule(problem)) / problem.budget, 1, rtol=1e-9)
    with pytest.raises(ValueError, match="PowerControl needs mean_gain"):
        made(problem)


def test_a_class_with_two_parameters_is_refused_by_name():
    with pytest.raises(ValueError, match=r"LyapunovPowerControl .* penalty, rate"):
        TunedOnRealisation(policies.LyapunovPowerControl)


def test_a_parameter_that_is_fixed_is_not_tuned(scenario):
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(channel.draw(3, 40, 0).gain), BUDGETS[0])
    assert TunedOnRealisation(policies.AdaScale, penalty=0.5)(problem).penalty == 0.5
    rate = float(policies.Optimal().schedule(problem).mean())
    tuned = TunedOnRealisation(policies.LyapunovPowerControl, rate=rate)(problem)
    assert problem.cost(tuned.schedule(problem)) == pytest.approx(BUDGETS[0], rel=1e-9)


def test_a_plain_class_with_start_and_step_is_taken_as_it_is(scenario):
    class Plain:
        def start(self, scenario, budget):
            return scenario

        def step(self, scenario, min_gain_t):
            return scenario, scenario.x_max * min_gain_t

    problem = ReceiveScalingProblem(scenario, scenario.min_gain(channel.draw(3, 40, 0).gain), BUDGETS[0])
    np.testing.assert_array_equal(TunedOnRealisation(Plain)(problem).schedule(problem), problem.max_eta)


class Undeclared(policies.EqualAlloc):
    def __init__(self, level):
        self.level = level


class Misspelt(policies.EqualAlloc):
    tuned = "level"


class HalfDone(policies.OnlinePolicy):
    def start(self, scenario, budget):
        return scenario


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (HalfDone, "HalfDone must define start and step"),
        (dict, "start and step"),
        (3, "start and step"),
        (Misspelt, "tuple of names, got 'level'"),
    ],
)
def test_what_is_no_policy_is_refused(policy, said):
    with pytest.raises(ValueError, match=said):
        TunedOnRealisation(policy)


def test_a_parameter_that_is_not_declared_is_asked_for(scenario):
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(channel.draw(3, 40, 0).gain), BUDGETS[0])
    with pytest.raises(ValueError, match=r"Undeclared: .*level.*declared in `tuned`"):
        TunedOnRealisation(Undeclared)(problem)


@pytest.mark.parametrize("name", ["EqualAlloc", "equal-alloc", "equal_alloc", "equalalloc"])
def test_a_method_is_found_however_its_name_is_written(name):
    label, found = find_method(name)
    assert (label, found.policy) == ("EqualAlloc", policies.EqualAlloc)


def test_what_is_registered_as_a_function_is_a_method_itself():
    assert find_method("LyapunovPowerControl") == ("LyapunovPowerControl", kindest_lyapunov)
