"""A server that is handed one gain a round: what is no gain is refused, and the round is repeated or left out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, policies
from adascale.channel import EmpiricalFloors
from adascale.errors import InvalidInput
from adascale.streaming import Stream
from adascale.streaming.journal import Journal

from ..problems import MIXED, FullPower, budgets, gains, make
from .test_online import ONLINE


class Mine(policies.OnlinePolicy):
    """A policy of one's own, which looks at nothing it is given."""

    def start(self, scenario, budget):
        """Begin."""
        return scenario

    def step(self, scenario, gain):
        return scenario, np.minimum(scenario.noise_scale / 0.1, scenario.x_max * gain)


class Halved(policies.AdaScale):
    """A step around the parent's."""

    def step(self, state, min_gain_t):
        return super().step(state, min_gain_t)


Joined = type("Joined", (FullPower, policies.OnlinePolicy), {})  # as `TunedOnRealisation` takes such a class
EVERY = {name: lambda problem, made=made: made for name, made in (("own", Mine()), ("joined", Joined()))} | ONLINE
EVERY["around"] = lambda problem: Halved(0.01)
NO_GAIN = [math.nan, 0.0, -1e-10, math.inf, 1e308, 5e-324, "1e-10", None, True, 1e-10 + 0j]
NO_GAIN.append(np.ma.masked_array(1e-10, True))


@pytest.mark.parametrize("name", EVERY)
def test_after_a_bad_gain_the_round_is_repeated_and_nothing_has_happened(name):
    problem = make(MIXED, np.array([0.01, 0.1, 1.0]), seeds=[0, 1, 2])
    policy = EVERY[name](problem)
    undisturbed = policies.run(policy, problem)
    state, eta = policy.start(problem.scenario, problem.budget), np.empty((problem.num_rounds, 3))
    for t, gain in enumerate(problem.min_gain.T):
        for bad in (np.where(np.arange(3) == 1, math.nan, gain), gain[:2])[: 2 if name in ONLINE else 1]:
            with pytest.raises(ValueError, match="min_gain_t"):
                policy.step(state, bad)
        state, eta[t] = policy.step(state, gain.copy())
    np.testing.assert_array_equal(eta.T, undisturbed)
    for bad in (math.nan, [0.1, -1.0]):
        with pytest.raises(InvalidInput) as error:
            policy.start(MIXED, bad)
        assert error.value.argument == "budget"


def test_what_is_no_gain_of_every_instance_is_named():
    """Of one policy, as all have one check; a value of NumPy's too where Python's is refused."""
    one, many = policies.EqualAlloc().start(MIXED, 0.1), policies.EqualAlloc().start(MIXED, [0.01, 0.1, 1.0])
    kinds = np.float64, np.array, lambda x: np.array([x])
    kinds = [kind(bad) for kind in kinds for bad in NO_GAIN if type(bad) is float]
    gains = [(one, bad) for bad in (*NO_GAIN, *kinds, [1e-10])]
    gains += [(many, bad) for bad in (1e-10, np.full(2, 1e-10), np.full((3, 1), 1e-10), np.empty(0))]
    for state, gain in gains:
        with pytest.raises(ValueError, match="min_gain_t"):
            policies.EqualAlloc().step(state, gain)


def test_what_is_checked_keeps_its_name_its_words_and_its_arguments():
    assert Mine.start.__doc__ == "Begin."
    assert Mine.step.__name__ == "step"

    class Wider(Mine):
        def start(self, scenario, budget, offset=0, *, scale=1):
            return scenario, offset, scale

    assert Wider().start(MIXED, 0.1, 3, scale=4) == (MIXED, 3, 4)
    assert policies.AdaScale(0.1).step(policies.AdaScale(0.1).start(MIXED, budget=0.1), min_gain_t=1e-10)[1] > 0


PLANNING = [name for name in ONLINE if name.startswith(("estim", "power", "resolve", "learn", "programme"))]


@pytest.mark.parametrize("name", PLANNING)
def test_a_plan_for_t_rounds_ends_with_them(name):
    problem = make(MIXED, 0.1)
    policy = ONLINE[name](problem)
    state = policy.start(problem.scenario, problem.budget)
    for gain in problem.min_gain:
        state, _ = policy.step(state, gain)
    for after in (lambda: policy.step(state, 1e-10), lambda: policy.skip(state)):
        with pytest.raises(ValueError, match=r"8 rounds"):
            after()


def played(policy, problem, absent):
    """What each round spends when nobody transmits in some of them, and the state after all."""
    state = policy.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
    spend = np.zeros((*problem.lanes, problem.num_rounds))
    for t in range(problem.num_rounds):
        if absent[t]:
            state = policy.skip(state)
        else:
            state, eta = policy.step(state, problem.min_gain[..., t])
            assert (eta > 0).all()
            assert (eta <= problem.max_eta[..., t]).all()
            spend[..., t] = problem.scenario.noise_scale / eta - problem.min_noise_energy[..., t]
    return spend, state


absences = st.lists(st.booleans(), min_size=12, max_size=12)


@pytest.mark.parametrize("name", ["equal", "estim-devices", "estim-minimum", "resolve-hard", "learn-hard", "programme"])
@given(gains, budgets, absences)
def test_with_rounds_left_out_no_more_than_nu_is_spent(name, gain, budget, absent):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    spend, _ = played(ONLINE[name](problem), problem, absent)
    rounding = 1e-14 * problem.min_noise_energy.max()  # w and the floor are known to a few units in the last place
    assert spend.mean() <= budget * (1 + 1e-12) + rounding


@given(gains, budgets, absences)
def test_violation_bound_and_privacy_budget_hold_with_rounds_left_out(gain, budget, absent):
    """Cost <= nu + Q_T / T, for the queue that skip lets fall; and a sum of scalings."""
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    spend, state = played(policies.AdaScale(0.01), problem, absent)
    rounding, queue = 1e-13 * (problem.min_noise_energy.max() + spend.sum()), 0.0
    assert spend.sum() <= budget * len(gain) + state.queue + rounding
    for y in spend:
        queue = max(queue + y - budget, 0.0)
    assert state.queue == pytest.approx(queue, rel=1e-12, abs=rounding)
    spend, _ = played(ONLINE["power"](problem), problem, absent)
    eta = np.where(absent[: len(gain)], 0.0, problem.scenario.noise_scale / (spend + problem.min_noise_energy))
    assert eta.sum() <= 2 * float(np.median(problem.max_eta)) * (1 + 1e-12)


def test_each_policy_does_with_a_gap_what_it_says():
    problem = make(MIXED, 0.1)
    gain = problem.min_gain
    states = {name: ONLINE[name](problem).step(ONLINE[name](problem).start(MIXED, 0.1), gain[0])[0] for name in ONLINE}
    after = {name: ONLINE[name](problem).skip(state) for name, state in states.items()}
    assert after["equal"] is states["equal"]
    assert after["adascale"].queue == max(states["adascale"].queue - 0.1, 0)
    for name in PLANNING:
        assert after[name].later == states[name].later - 1
        assert after[name].left == states[name].left
        assert not hasattr(after[name], "seen") or after[name].seen is states[name].seen  # no floor is shown
    assert after["lyapunov"].queue == max(states["lyapunov"].queue - ONLINE["lyapunov"](problem).rate, 0)
    assert Mine().skip(MIXED) is MIXED  # the default: the state as it was


def test_former_names_are_deprecated_and_work():
    problem, law = make(MIXED, 0.1), EmpiricalFloors([0.2])
    level, former = policies.water_level(problem.min_noise_energy, 0.1), {"promise": "hard", "reserve": 3.0}
    for call, expected, names in (
        (lambda: policies.Learn(**former), policies.Learn("hard", 3.0), 2),
        (lambda: policies.ReSolve(None, law, **former), policies.ReSolve(None, law, "hard", 3.0), 2),
        (lambda: policies.water_level(floor=problem.min_noise_energy, budget=0.1), level, 1),
        (lambda: problem.floor.tolist(), problem.min_noise_energy.tolist(), 1),
    ):
        with pytest.warns(DeprecationWarning, match="deprecated") as warned:
            assert call() == expected
        assert len(warned) == names
    for kind in (policies.Learn, policies.ReSolve):
        with pytest.raises(TypeError):
            kind(promise="hard", budget_mode="hard")


def test_a_state_with_former_names_goes_on(tmp_path):
    policy, (first, second) = policies.Learn("hard", 3.0), make(MIXED, 0.1).min_gain[:2]
    with Stream(policy, MIXED, 0.1, tmp_path / "new") as stream:
        wanted = [stream.answer(first), stream.answer(second)]
    new = Journal(tmp_path / "new", "")
    old = Journal(tmp_path / "old", new.heading.replace("budget_mode", "promise").replace("safety_margin", "reserve"))
    old.append(new.lines[0])
    old.done()
    new.close(), old.close()
    with Stream(policy, MIXED, 0.1, tmp_path / "old") as stream:
        assert [stream.last, stream.answer(second)] == wanted
    with pytest.raises(ValueError, match=r"safety_margin is 3.0 there, and 2.0 here"):
        Stream(policies.Learn("hard"), MIXED, 0.1, tmp_path / "old")
