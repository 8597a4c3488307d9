"""A server that decides one round after the other, some of which are left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, policies

from ..problems import MIXED, FullPower, budgets, gains, make
from .test_online import ONLINE


class Mine(policies.OnlinePolicy):
    """A policy of one's own, which looks at nothing it is given."""

    def start(self, scenario, budget):
        return scenario

    def decide(self, scenario, floor):
        return scenario, np.maximum(0.1, floor)


class Halved(policies.AdaScale):
    """A decision around the parent's."""

    def decide(self, state, floor):
        return super().decide(state, floor)


EVERY = {
    name: lambda problem, made=made: made
    for name, made in (("own", Mine()), ("full", FullPower()))
} | ONLINE
EVERY["around"] = lambda problem: Halved(0.01)


@pytest.mark.parametrize("name", EVERY)
def test_a_schedule_is_the_decisions_of_each_round(name):
    problem = make(MIXED, np.array([0.01, 0.1, 1.0]), seeds=[0, 1, 2])
    policy = EVERY[name](problem)
    state, energy = (
        policy.start(problem.scenario, problem.budget),
        np.empty((3, problem.num_rounds)),
    )
    for t in range(problem.num_rounds):
        state, energy[:, t] = policy.decide(
            state, problem.min_noise_energy[:, t].copy()
        )
    np.testing.assert_allclose(energy, policy.schedule(problem), rtol=1e-12)


PLANNING = [
    name
    for name in ONLINE
    if name.startswith(("estim", "power", "resolve", "learn", "programme"))
]


@pytest.mark.parametrize("name", PLANNING)
def test_a_plan_for_t_rounds_ends_with_them(name):
    problem = make(MIXED, 0.1)
    policy = ONLINE[name](problem)
    state = policy.start(problem.scenario, problem.budget)
    for floor in problem.min_noise_energy:
        state, _ = policy.decide(state, floor)
    for after in (
        lambda: policy.decide(state, MIXED.floor(1e-10)),
        lambda: policy.skip(state),
    ):
        with pytest.raises(ValueError, match="num_rounds = 8"):
            after()


def played(policy, problem, absent):
    """What each round spends when nobody transmits in some of them, and the state after all."""
    state = policy.start(
        problem.scenario, np.broadcast_to(problem.budget, problem.lanes)
    )
    spend = np.zeros((*problem.lanes, problem.num_rounds))
    for t in range(problem.num_rounds):
        if absent[t]:
            state = policy.skip(state)
        else:
            floor = problem.min_noise_energy[..., t]
            state, energy = policy.decide(state, floor)
            assert (energy >= floor).all()
            assert (energy < np.inf).all()
            spend[..., t] = energy - floor
    return spend, state


absences = st.lists(st.booleans(), min_size=12, max_size=12)


@pytest.mark.parametrize(
    "name",
    [
        "equal",
        "estim-devices",
        "estim-minimum",
        "resolve-hard",
        "learn-hard",
        "programme",
    ],
)
@given(gains, budgets, absences)
def test_with_rounds_left_out_no_more_than_nu_is_spent(name, gain, budget, absent):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    spend, _ = played(ONLINE[name](problem), problem, absent)
    rounding = (
        1e-14 * problem.min_noise_energy.max()
    )  # w and the floor are known to a few units in the last place
    assert spend.mean() <= budget * (1 + 1e-12) + rounding


@given(gains, budgets, absences)
def test_violation_bound_and_privacy_budget_hold_with_rounds_left_out(
    gain, budget, absent
):
    """Cost <= nu + Q_T / T, for the queue that skip lets fall; and a sum of scalings."""
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    spend, state = played(policies.AdaScale(0.01), problem, absent)
    rounding, queue = 1e-13 * (problem.min_noise_energy.max() + spend.sum()), 0.0
    assert spend.sum() <= budget * len(gain) + state.queue + rounding
    for y in spend:
        queue = max(queue + y - budget, 0.0)
    assert state.queue == pytest.approx(queue, rel=1e-12, abs=rounding)
    spend, _ = played(ONLINE["power"](problem), problem, absent)
    eta = np.where(
        absent[: len(gain)],
        0.0,
        problem.scenario.noise_scale / (spend + problem.min_noise_energy),
    )
    assert eta.sum() <= 2 * float(np.median(problem.max_eta)) * (1 + 1e-12)


def test_each_policy_does_with_a_gap_what_it_says():
    problem = make(MIXED, 0.1)
    floor, made = (
        problem.min_noise_energy[0],
        {name: ONLINE[name](problem) for name in ONLINE},
    )
    states = {
        name: policy.decide(policy.start(MIXED, 0.1), floor)[0]
        for name, policy in made.items()
    }
    after = {name: ONLINE[name](problem).skip(state) for name, state in states.items()}
    assert after["equal"] is states["equal"]
    assert after["adascale"].queue == max(states["adascale"].queue - 0.1, 0)
    for name in PLANNING:
        assert after[name].later == states[name].later - 1
        assert after[name].left == states[name].left
        assert (
            not hasattr(after[name], "seen") or after[name].seen is states[name].seen
        )  # no floor is shown
    assert after["lyapunov"].queue == max(
        states["lyapunov"].queue - ONLINE["lyapunov"](problem).rate, 0
    )
    assert Mine().skip(MIXED) is MIXED  # the default: the state as it was
