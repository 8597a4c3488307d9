"""Policies that decide round by round: causal, pure, separate for each instance, also with rounds left out."""

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale import Problem, channel, policies

from ..problems import MIXED, MNIST, budgets, gains, make


def cap(problem):
    """A typical cap on eta."""
    return float(np.median(problem.max_eta))


def means(problem):
    """Plausible mean gains of the devices, none like another."""
    devices = problem.scenario.num_devices
    return devices * float(np.median(problem.min_gain)) * np.linspace(0.5, 2, devices)


def rayleigh(problem):
    """The law of the floors for devices of these mean gains."""
    return channel.RayleighFloors.of(problem.scenario, means(problem))


def nakagami(problem):
    """The law of the floors for devices of these mean gains under Nakagami fading, m = 2."""
    return channel.FadingFloors(
        problem.scenario, means(problem), lambda x: (1 + 2 * x) * np.exp(-2 * x)
    )


class Additive:
    """An accountant whose epsilon is a sum over rounds."""

    def epsilon(self, sampling_rate, noise_multiplier, delta):
        return sampling_rate * (noise_multiplier**-2.0).sum(axis=-1)


def privacy_budget(**options):
    return policies.PrivacyBudget(1.0, accountant=Additive(), **options)


def power_control(problem, *options):
    return policies.PowerControl(means(problem), 2 * cap(problem), *options)


def lyapunov(problem, contraction, queue):
    unit = cap(problem)
    return policies.LyapunovPowerControl(
        0.01 * unit**3, 0.1 * unit, contraction, queue * unit
    )


ONLINE = {
    "equal": lambda problem: policies.EqualAlloc(),
    "adascale": lambda problem: policies.AdaScale(0.01),
    "warm": lambda problem: policies.AdaScale(0.01, initial_queue=0.3),
    "estim-minimum": lambda problem: policies.EstimFuture(means(problem)),
    "power-contracting": lambda problem: power_control(problem, 0.9, "minimum"),
    "power-unsubtracted": lambda problem: power_control(problem, 1, "devices", False),
    "lyapunov-contracting": lambda problem: lyapunov(problem, 0.95, 0.1),
    "level": lambda problem: policies.ConstantLevel(rayleigh(problem)),
    "resolve": lambda problem: policies.ReSolve(rayleigh(problem)),
    "resolve-hard": lambda problem: policies.ReSolve(
        rayleigh(problem), budget_mode="hard"
    ),
    "resolve-seen": lambda problem: policies.ReSolve(
        rayleigh(problem), budget_mode="hard", coherence="seen"
    ),
    "programme": lambda problem: policies.DynamicProgramme(rayleigh(problem)),
    "learn": lambda problem: policies.Learn(),
    "learn-hard": lambda problem: policies.Learn("hard"),
    "learn-seen": lambda problem: policies.Learn(
        prior=nakagami(problem), hold=0.3, coherence="seen"
    ),
    "learn-prior": lambda problem: policies.Learn(
        prior=nakagami(problem), hold=0.3, weight=5
    ),
    "privacy": lambda problem: privacy_budget(),
    "privacy-law": lambda problem: privacy_budget(law=nakagami(problem)),
}
# whose schedule is its rounds
BY_ROUNDS = "equal", "estim", "level", "resolve", "privacy"
COMPILED = [name for name in ONLINE if not name.startswith(BY_ROUNDS)]
# which divide something among T rounds
PLANNING = "estim", "power", "resolve", "programme", "learn", "privacy"
FEW = settings(max_examples=settings.default.max_examples // 3)


def past_stands(policy, problem, t, factor):
    """Whether rounds 0 ... t are scheduled the same when everything after round t is multiplied by ``factor``."""
    gain = problem.min_gain.copy()
    gain[..., t + 1 :] *= factor
    changed = Problem(problem.scenario, gain, problem.budget)
    before = policy.schedule(problem)
    after = policy.schedule(changed)
    return np.array_equal(before[..., : t + 1], after[..., : t + 1])


@pytest.mark.parametrize("name", ONLINE)
@FEW
@given(gains, budgets, st.data())
def test_a_change_in_the_future_leaves_the_past_as_it_was(name, gain, budget, data):
    problem = Problem(MIXED, gain, budget)
    t = data.draw(st.integers(0, len(gain) - 1))
    factor = data.draw(st.sampled_from([1e-3, 0.5, 2.0, 1e3]))
    assert past_stands(ONLINE[name](problem), problem, t, factor)


def test_the_causality_check_catches_what_looks_ahead():
    problem = Problem(MIXED, np.geomspace(1e-11, 1e-10, 6), 0.01)
    assert not past_stands(policies.Optimal(), problem, 2, 1e-3)


def assert_both_ways_agree(policy, problem):
    """The compiled schedule and the one of ``start`` and ``decide``, which must be one."""
    compiled = policy.schedule(problem)
    by_rounds = policies.OnlinePolicy.schedule(policy, problem)
    assert compiled.shape == (*problem.batch_shape, problem.num_rounds)
    np.testing.assert_allclose(compiled, by_rounds, rtol=1e-12)


@pytest.mark.parametrize("name", COMPILED)
@FEW
@given(gains, budgets)
def test_the_compiled_schedule_is_its_rounds_one_at_a_time(name, gain, budget):
    problem = Problem(MIXED, gain, budget)
    assert_both_ways_agree(ONLINE[name](problem), problem)


def test_a_schedule_that_is_not_its_rounds_is_noticed():
    class Off(policies.AdaScale):
        def schedule(self, problem):
            factor = np.ones(problem.num_rounds)
            factor[5] += 1e-10
            return super().schedule(problem) * factor

    with pytest.raises(AssertionError):
        assert_both_ways_agree(Off(0.01), make(MIXED, 0.1))


def test_a_round_without_a_root_is_named_with_its_instance_and_its_values():
    gain = np.full((2, 8), [[1e-9], [1e-3]])  # floors of about 1e-3 and 1e-9
    problem = Problem(MIXED, gain, np.array([0.01, 0.1])[:, None])
    # times F' that is beyond floating point
    penalty = np.array([[1.0, 1e308], [1.0, 1.0]])
    expected = r"no root found in round \d of instance \(0, 1\): .*penalty 1e\+308$"
    with pytest.raises(RuntimeError, match=expected):
        policies.AdaScale(penalty).schedule(problem)


def test_a_policy_is_handed_no_later_round():
    """Not even through the array that the floor is a view of."""
    sizes = set()

    class Spy(policies.EqualAlloc):
        def decide(self, state, floor):
            reachable = floor
            while getattr(reachable, "base", None) is not None:
                reachable = reachable.base
            sizes.add(np.size(reachable))
            return super().decide(state, floor)

    Spy().schedule(make(MIXED, 0.1))
    assert sizes == {1}


@pytest.mark.parametrize("name", ONLINE)
def test_start_and_decide_change_nothing_and_a_run_goes_on_from_any_state(name):
    problem = make(MIXED, np.array([0.01, 0.1]), seeds=[0, 1])
    policy = ONLINE[name](problem)
    floor = problem.min_noise_energy
    given = problem.min_gain.copy(), problem.budget.copy()
    w = policy.schedule(problem)
    states = [policy.start(problem.scenario, problem.budget)]
    for t in range(problem.num_rounds):
        states.append(policy.decide(states[t], floor[..., t])[0])
    for t in (5, 2, 7, 0):  # in any order
        energy = policy.decide(states[t], floor[..., t])[1]
        np.testing.assert_allclose(energy, w[..., t], rtol=1e-12)
    np.testing.assert_array_equal(problem.min_gain, given[0])
    np.testing.assert_array_equal(problem.budget, given[1])


@pytest.mark.parametrize("name", [*ONLINE, "optimal"])
def test_instances_do_not_touch_each_other(name):
    nu = np.array([0.01, 0.16])
    problem = make(MNIST, nu[:, None], seeds=[0, 1, 2], rounds=15)
    policy = policies.Optimal() if name == "optimal" else ONLINE[name](problem)
    w = policy.schedule(problem)
    for k, r in np.ndindex(2, 3):
        alone = Problem(MNIST, problem.min_gain[r], nu[k])
        np.testing.assert_array_equal(w[k, r], policy.schedule(alone))


class Returning(policies.OnlinePolicy):
    """Full power, but for what it returns in round 3."""

    def __init__(self, change):
        self.change = change

    def start(self, scenario, budget):
        return 0

    def decide(self, t, floor):
        return t + 1, self.change(floor) if t == 3 else floor


@pytest.mark.parametrize("factor", [1 - 1e-8, math.nan, math.inf])
def test_schedule_refuses_what_the_power_limit_forbids(factor):
    policy = Returning(lambda floor: factor * floor)
    expected = "noise energy of Returning in round 3 must be finite and at least its"
    with pytest.raises(ValueError, match=expected):
        policy.schedule(make(MIXED, 0.1))


def test_a_noise_energy_is_rounded_up_to_its_floor():
    problem = make(MIXED, 0.1)
    w = Returning(lambda floor: floor * (1 - 1e-15)).schedule(problem)
    np.testing.assert_array_equal(w, problem.min_noise_energy)


@pytest.mark.parametrize("energy", [1e12, ["1e12", "1e12"], [True, True], None])
def test_schedule_refuses_what_is_no_noise_energy_per_instance(energy):
    problem = make(MIXED, np.array([0.1, 0.2]), seeds=[0, 1])
    with pytest.raises(ValueError, match="noise energy of Returning in round 3 must"):
        Returning(lambda floor: energy).schedule(problem)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (policies.AdaScale, (1.0,)),
        (policies.PowerControl, (np.full(10, 1e-11), 1.0)),
        (policies.LyapunovPowerControl, (1.0, 1.0)),
    ],
)
def test_subclass_that_redefines_decide_is_scheduled_by_it(kind, parameters):
    class FullPower(kind):
        def decide(self, state, floor):
            return state, floor

    problem = make(MNIST, 0.04, rounds=5)
    w = FullPower(*parameters).schedule(problem)
    np.testing.assert_array_equal(w, problem.min_noise_energy)


@pytest.mark.parametrize(
    "policy",
    [
        policies.AdaScale(np.ones((3, 1))),
        policies.ConstantLevel(law=channel.RayleighFloors([[1.0]] * 3)),
    ],
)
def test_parameters_for_other_instances_are_refused(policy):
    problem = make(MIXED, np.array([0.01, 0.1]), seeds=[0, 1])
    with pytest.raises(ValueError, match=r"instances \(3, 2\), the problem has \(2,\)"):
        policy.schedule(problem)


# Rounds that are left out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONLINE)
def test_a_plan_for_t_rounds_ends_with_them_and_no_other_policy_does(name):
    problem = make(MIXED, 0.1)
    policy = ONLINE[name](problem)
    state = policy.start(problem.scenario, problem.budget)
    for floor in problem.min_noise_energy:
        state, _ = policy.decide(state, floor)
    for proceed in (
        lambda: policy.decide(state, MIXED.floor(1e-10)),
        lambda: policy.skip(state),
    ):
        ends = pytest.raises(ValueError, match="num_rounds = 8")
        with ends if name.startswith(PLANNING) else nullcontext():
            proceed()


def played(policy, problem, absent):
    """What each round spends when nobody transmits in some of them, and the state after all."""
    state = policy.start(problem.scenario, problem.budget)
    spend = np.zeros(problem.num_rounds)
    for t, floor in enumerate(problem.min_noise_energy):
        if absent[t]:
            state = policy.skip(state)
        else:
            state, energy = policy.decide(state, floor)
            assert floor <= energy < np.inf
            spend[t] = energy - floor
    return spend, state


absences = st.lists(st.booleans(), min_size=12, max_size=12)
NEVER_MORE = ("equal", "estim-minimum", "resolve-hard", "learn-hard", "programme")


@pytest.mark.parametrize("name", NEVER_MORE)
@FEW
@given(gains, budgets, absences)
def test_with_rounds_left_out_no_more_than_nu_is_spent(name, gain, budget, absent):
    problem = Problem(MIXED, gain, budget)
    spend, _ = played(ONLINE[name](problem), problem, absent)
    # w and the floor are known to a few units in the last place
    rounding = 1e-14 * problem.min_noise_energy.max()
    assert spend.mean() <= budget * (1 + 1e-12) + rounding


@given(gains, budgets, absences)
def test_with_rounds_left_out_the_queue_bounds_the_cost(gain, budget, absent):
    """Cost <= nu + Q_T / T, for the queue that skip lets fall."""
    problem = Problem(MIXED, gain, budget)
    spend, state = played(policies.AdaScale(0.01), problem, absent)
    rounding = 1e-13 * (problem.min_noise_energy.max() + spend.sum())
    assert spend.sum() <= budget * len(gain) + state.queue + rounding


@pytest.mark.parametrize("name", [name for name in ONLINE if name.startswith(PLANNING)])
def test_a_round_left_out_shortens_the_plan_and_nothing_else(name):
    problem = make(MIXED, 0.1)
    policy = ONLINE[name](problem)
    state = policy.start(MIXED, problem.budget)
    state, _ = policy.decide(state, problem.min_noise_energy[0])
    assert vars(policy.skip(state)) == vars(replace(state, round=2))
