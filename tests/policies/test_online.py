"""The online interface: causality, purity, lanes, for every policy that decides round by round."""

import copy
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, policies, tuning

from ..problems import MIXED, MNIST, budgets, gains, make

ONLINE = {
    "equal": lambda problem: policies.EqualAlloc(),
    "adascale": lambda problem: policies.AdaScale(0.01),
    "estim-devices": lambda problem: policies.EstimFuture(means(problem), "devices"),
    "estim-minimum": lambda problem: policies.EstimFuture(means(problem), "minimum"),
    "power": lambda problem: policies.PowerControl(means(problem), 2 * cap(problem)),
    "power-contracting": lambda problem: policies.PowerControl(means(problem), 2 * cap(problem), 0.9, "minimum"),
    "lyapunov": lambda problem: policies.LyapunovPowerControl(0.01 * cap(problem) ** 3, 0.1 * cap(problem)),
}


def cap(problem):
    """A typical cap on eta."""
    return float(np.median(problem.max_eta))


def means(problem):
    """Plausible mean gains of the devices, none like another."""
    devices = problem.scenario.num_devices
    return devices * float(np.median(problem.min_gain)) * np.linspace(0.5, 2, devices)


def past_stands(policy, problem, t, factor):
    """Whether rounds 0 ... t are scheduled the same when everything after round t is multiplied by ``factor``."""
    gain = problem.min_gain.copy()
    gain[..., t + 1 :] *= factor
    changed = ReceiveScalingProblem(problem.scenario, gain, problem.budget)
    before, after = policy.schedule(problem), policy.schedule(changed)
    return np.array_equal(before[..., : t + 1], after[..., : t + 1])


@pytest.mark.parametrize("name", ONLINE)
@settings(max_examples=60, deadline=None)
@given(gains, budgets, st.data())
def test_a_change_in_the_future_leaves_the_past_as_it_was(name, gain, budget, data):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    t = data.draw(st.integers(0, len(gain) - 1))
    factor = data.draw(st.sampled_from([1e-3, 0.5, 2.0, 1e3]))
    assert past_stands(ONLINE[name](problem), problem, t, factor)


class Cheat:
    """Looks at the worst gain of the whole horizon."""

    def schedule(self, problem):
        return np.minimum(problem.max_eta, problem.max_eta.min(axis=-1, keepdims=True))


@pytest.mark.parametrize("policy", [Cheat(), policies.Optimal()], ids=["cheat", "optimal"])
def test_the_causality_check_catches_what_looks_ahead(policy):
    problem = ReceiveScalingProblem(MIXED, np.geomspace(1e-11, 1e-10, 6), 0.01)
    assert not past_stands(policy, problem, 2, 1e-3)


def test_a_policy_is_handed_no_later_round():
    """Not even through the array that the gain is a view of."""
    seen = []

    class Spy(policies.EqualAlloc):
        def step(self, state, min_gain_t):
            reachable = min_gain_t
            while getattr(reachable, "base", None) is not None:
                reachable = reachable.base
            seen.append(np.size(reachable))
            return super().step(state, min_gain_t)

    Spy().schedule(make(MIXED, 0.1))
    assert set(seen) == {1}


@pytest.mark.parametrize("name", ONLINE)
def test_start_and_step_change_nothing_they_are_given(name):
    problem = make(MIXED, np.array([0.01, 0.1]), seeds=[0, 1])
    policy = ONLINE[name](problem)
    state = policy.start(problem.scenario, problem.budget)
    kept, gain = copy.deepcopy(state), problem.min_gain.copy()
    first = policy.step(state, problem.min_gain[..., 0])
    second = policy.step(state, problem.min_gain[..., 0])
    np.testing.assert_array_equal(first[1], second[1])
    np.testing.assert_array_equal(problem.min_gain, gain)
    np.testing.assert_array_equal(problem.budget, [0.01, 0.1])
    for field, old in zip(state._fields, kept, strict=True):
        if isinstance(old, np.ndarray):
            np.testing.assert_array_equal(getattr(state, field), old)


@pytest.mark.parametrize("name", ONLINE)
def test_a_run_can_be_resumed_from_any_state(name):
    problem = make(MIXED, 0.1)
    policy = ONLINE[name](problem)
    eta = policy.schedule(problem)
    state = policy.start(problem.scenario, problem.budget)
    states = []
    for t in range(problem.num_rounds):
        states.append(state)
        state, _ = policy.step(state, problem.min_gain[t])
    for t in (5, 2, 7, 0):  # in any order
        assert policy.step(states[t], problem.min_gain[t])[1] == eta[t]


@pytest.mark.parametrize("name", [*ONLINE, "optimal"])
def test_lanes_do_not_touch_each_other(name):
    min_gain = make(MNIST, 1.0, seeds=[0, 1, 2], rounds=30).min_gain
    nu = np.array([0.01, 0.16])
    problem = ReceiveScalingProblem(MNIST, min_gain, nu[:, None])
    policy = policies.Optimal() if name == "optimal" else ONLINE[name](problem)
    eta = policy.schedule(problem)
    assert eta.shape == (2, 3, 30)
    for k in range(2):
        for r in range(3):
            alone = ReceiveScalingProblem(MNIST, min_gain[r], nu[k])
            np.testing.assert_array_equal(eta[k, r], policy.schedule(alone))


def test_every_lane_has_its_own_penalty():
    problem = make(MNIST, np.array([0.01, 0.16])[:, None], seeds=[0, 1, 2], rounds=30)
    penalty = np.geomspace(1e-4, 10, 6).reshape(2, 3)
    eta = policies.AdaScale(penalty).schedule(problem)
    for k, r in np.ndindex(2, 3):
        alone = ReceiveScalingProblem(MNIST, problem.min_gain[r], problem.budget[k, 0])
        np.testing.assert_array_equal(eta[k, r], policies.AdaScale(penalty[k, r]).schedule(alone))


@dataclass
class Returning:
    """Full power, times a factor in one round."""

    factor: float

    def start(self, scenario, budget):
        return scenario, 0

    def step(self, state, min_gain_t):
        scenario, t = state
        return (scenario, t + 1), scenario.x_max * min_gain_t * (self.factor if t == 3 else 1.0)


@pytest.mark.parametrize("factor", [1 + 1e-15, 2.0, math.nan, 0.0, -1.0, math.inf])
def test_run_refuses_what_the_power_limit_forbids(factor):
    with pytest.raises(ValueError, match=r"^Returning returned eta = \S+ in round 3, expected 0 < eta <= ") as error:
        policies.run(Returning(factor), make(MIXED, 0.1))
    assert "\n" not in str(error.value)


def test_run_takes_any_policy_within_the_power_limit():
    problem = make(MIXED, 0.1)
    np.testing.assert_array_equal(policies.run(Returning(1.0), problem), problem.max_eta)


def test_a_long_horizon_forgets_nothing_of_the_budget():
    """The queue steers the mean cost to the budget within Q_T / T even where the tuning is far off."""
    problem = make(MNIST, 0.04, rounds=2000)
    state_free = problem.cost(policies.AdaScale(100.0).schedule(problem))
    tuned = tuning.match_budget(policies.AdaScale, problem)
    assert tuned < 100
    assert state_free > 0.04
    # a penalty orders of magnitude too large still spends within a few budgets
    assert state_free < 0.04 * 20
