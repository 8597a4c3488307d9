"""The online interface: causality, purity, lanes, for every policy that decides round by round."""

import copy
import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, channel, policies
from adascale.problem import RoundLeakage
from companion import bounds

from ..problems import FULL, MIXED, MNIST, best_energy, budgets, gains, make

ONLINE = {
    "equal": lambda problem: policies.EqualAlloc(),
    "adascale": lambda problem: policies.AdaScale(0.01),
    "estim-devices": lambda problem: policies.EstimFuture(means(problem), "devices"),
    "estim-minimum": lambda problem: policies.EstimFuture(means(problem), "minimum"),
    "power": lambda problem: policies.PowerControl(means(problem), 2 * cap(problem)),
    "power-contracting": lambda problem: policies.PowerControl(
        means(problem), 2 * cap(problem), 0.9, "minimum"
    ),
    "power-unsubtracted": lambda problem: policies.PowerControl(
        means(problem), 2 * cap(problem), subtract=False
    ),
    "lyapunov": lambda problem: policies.LyapunovPowerControl(
        0.01 * cap(problem) ** 3, 0.1 * cap(problem)
    ),
    "lyapunov-contracting": lambda problem: policies.LyapunovPowerControl(
        0.01 * cap(problem) ** 3,
        0.1 * cap(problem),
        0.95,
        initial_queue=0.1 * cap(problem),
    ),
    "warm": lambda problem: policies.AdaScale(0.01, initial_queue=0.3),
    "level": lambda problem: policies.ConstantLevel(means(problem)),
    "resolve": lambda problem: policies.ReSolve(means(problem)),
    "resolve-hard": lambda problem: policies.ReSolve(
        means(problem), budget_mode="hard"
    ),
    "resolve-nakagami": lambda problem: policies.ReSolve(law=nakagami(problem)),
    "programme": lambda problem: policies.DynamicProgramme(means(problem)),
    "resolve-seen": lambda problem: policies.ReSolve(
        means(problem), budget_mode="hard", coherence="seen"
    ),
    "learn": lambda problem: policies.Learn(),
    "learn-seen": lambda problem: policies.Learn(
        hold=0.3, prior=nakagami(problem), coherence="seen"
    ),
    "learn-hard": lambda problem: policies.Learn("hard"),
    "learn-prior": lambda problem: policies.Learn(
        hold=0.3, prior=nakagami(problem), weight=5
    ),
}
COMPILED = [
    name
    for name in ONLINE
    if not name.startswith(("equal", "estim", "level", "resolve"))
]  # not run by rounds
FEW = settings(
    max_examples=settings.default.max_examples // 3
)  # of each of twenty policies


def cap(problem):
    """A typical cap on eta."""
    return float(np.median(problem.max_eta))


def means(problem):
    """Plausible mean gains of the devices, none like another."""
    devices = problem.scenario.num_devices
    return devices * float(np.median(problem.min_gain)) * np.linspace(0.5, 2, devices)


def nakagami(problem):
    """The law of the floors for devices of these mean gains under Nakagami fading, m = 2."""
    return channel.FadingFloors(
        problem.scenario, means(problem), lambda x: (1 + 2 * x) * np.exp(-2 * x)
    )


def past_stands(policy, problem, t, factor):
    """Whether rounds 0 ... t are scheduled the same when everything after round t is multiplied by ``factor``."""
    gain = problem.min_gain.copy()
    gain[..., t + 1 :] *= factor
    changed = ReceiveScalingProblem(problem.scenario, gain, problem.budget)
    before, after = policy.schedule(problem), policy.schedule(changed)
    return np.array_equal(before[..., : t + 1], after[..., : t + 1])


@pytest.mark.parametrize("name", ONLINE)
@FEW
@given(gains, budgets, st.data())
def test_a_change_in_the_future_leaves_the_past_as_it_was(name, gain, budget, data):
    """Of the whole schedule, which is that of its rounds by the tests below."""
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    t = data.draw(st.integers(0, len(gain) - 1))
    factor = data.draw(st.sampled_from([1e-3, 0.5, 2.0, 1e3]))
    assert past_stands(ONLINE[name](problem), problem, t, factor)


def test_the_causality_check_catches_what_looks_ahead():
    problem = ReceiveScalingProblem(MIXED, np.geomspace(1e-11, 1e-10, 6), 0.01)
    assert not past_stands(policies.Optimal(), problem, 2, 1e-3)


def assert_both_ways_agree(policy, problem):
    """The compiled schedule and the one of ``start`` and ``decide``, which must be one."""
    whole, rounds = (
        policy.schedule(problem),
        policies.OnlinePolicy.schedule(policy, problem),
    )
    assert whole.shape == rounds.shape == (*problem.lanes, problem.num_rounds)
    np.testing.assert_allclose(whole, rounds, rtol=1e-12)


@pytest.mark.parametrize("name", COMPILED)
@FEW
@given(gains, budgets)
def test_the_compiled_schedule_is_its_rounds_one_at_a_time(name, gain, budget):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    assert_both_ways_agree(ONLINE[name](problem), problem)


def test_a_schedule_that_is_not_its_rounds_is_noticed():
    """The control: one round of eight off by 1e-10."""

    class Off(policies.AdaScale):
        def schedule(self, problem):
            return super().schedule(problem) * np.where(
                np.arange(problem.num_rounds) == 5, 1 + 1e-10, 1.0
            )

    with pytest.raises(AssertionError):
        assert_both_ways_agree(Off(0.01), make(MIXED, 0.1))


@pytest.mark.parametrize("name", ONLINE)
def test_one_round_and_broadcast_lanes_are_scheduled_alike(name):
    problem = make(MIXED, np.array([0.01, 0.1, 1.0])[:, None], seeds=[0, 1], rounds=1)
    assert_both_ways_agree(ONLINE[name](problem), problem)
    empty = ReceiveScalingProblem(MIXED, np.empty((0, 1)), 0.1)
    if name in (
        "equal",
        "adascale",
        "warm",
        "learn",
        "learn-hard",
    ):  # the others take a median of all lanes
        assert_both_ways_agree(ONLINE[name](empty), empty)


def test_penalties_budgets_and_gains_broadcast_against_each_other_at_any_order():
    gain = make(MIXED, 1.0, seeds=[0, 1]).min_gain
    problem = ReceiveScalingProblem(MIXED, gain, np.array([0.01, 0.1, 1.0])[:, None])
    for scenario, order in itertools.product((MIXED, FULL, MNIST), (2, 2.5, 8, 32)):
        other = make(replace(scenario, order=order), 0.05, rounds=12, seeds=[0, 0, 0])
        assert_both_ways_agree(policies.AdaScale([1e-6, 0.01, 1e4]), other)
    for penalty in (
        0.01,
        [0.01, 1.0],
        [[0.01], [0.1], [1.0]],
        np.geomspace(1e-4, 10, 6).reshape(3, 2),
    ):
        assert_both_ways_agree(policies.AdaScale(penalty), problem)
        given = problem.min_noise_energy, problem.budget, penalty, RoundLeakage(MIXED)
        energy, queue = policies.adascale_energies(*given)
        assert (energy.shape, queue.shape) == ((3, 2, 8), (3, 2))
        w = policies.AdaScale(penalty).schedule(problem)
        np.testing.assert_array_equal(w, energy)
        np.testing.assert_allclose(
            queue, bounds.queue(problem, w)[..., -1], rtol=1e-9, atol=1e-12
        )
    for k, r in np.ndindex(3, 2):
        alone = ReceiveScalingProblem(MIXED, gain[r], problem.budget[k, 0])
        np.testing.assert_array_equal(
            w[k, r], policies.AdaScale(penalty[k, r]).schedule(alone)
        )


def test_a_round_without_a_root_is_named_with_its_lane_and_its_values(monkeypatch):
    gain = np.full((2, 8), [[1e-9], [1e-3]])  # floors of about 1e-3 and 1e-9
    problem = ReceiveScalingProblem(MIXED, gain, np.array([0.01, 0.1])[:, None])
    penalty = np.array(
        [[1.0, 1e308], [1.0, 1.0]]
    )  # times F' that is beyond floating point
    with pytest.raises(
        RuntimeError,
        match=r"^no root found in round \d of instance \(0, 1\): .*penalty 1e\+308$",
    ):
        policies.AdaScale(penalty).schedule(problem)
    with pytest.raises(
        RuntimeError,
        match=r"^no root found in round 0: floor 1e-12, queue 0.0, penalty 1e\+308$",
    ):
        best_energy(1e-12, 0.0, 1e308, RoundLeakage(MIXED))
    # nor does a search that does not converge go on for ever
    module = sys.modules[policies.AdaScale.__module__]
    monkeypatch.setattr(
        module, "all_rounds", getattr(module.all_rounds, "py_func", module.all_rounds)
    )
    monkeypatch.setattr(module, "advance", lambda search, *_: search)
    with pytest.raises(
        RuntimeError,
        match=r"^no root found in round 0: floor 1\.0, queue 0\.0, penalty 1\.0$",
    ):
        best_energy(1.0, 0.0, 1.0, RoundLeakage(MIXED))


def test_a_policy_is_handed_no_later_round():
    """Not even through the array that the gain is a view of."""
    seen = []

    class Spy(policies.EqualAlloc):
        def decide(self, state, floor):
            reachable = floor
            while getattr(reachable, "base", None) is not None:
                reachable = reachable.base
            seen.append(np.size(reachable))
            return super().decide(state, floor)

    Spy().schedule(make(MIXED, 0.1))
    assert set(seen) == {1}


@pytest.mark.parametrize("name", ONLINE)
def test_start_and_decide_change_nothing_and_a_run_goes_on_from_any_state(name):
    problem = make(MIXED, np.array([0.01, 0.1]), seeds=[0, 1])
    policy, gain, floor = (
        ONLINE[name](problem),
        problem.min_gain.copy(),
        problem.min_noise_energy,
    )
    w, states = (
        policy.schedule(problem),
        [policy.start(problem.scenario, problem.budget)],
    )
    kept = copy.deepcopy(states[0])
    for t in range(problem.num_rounds):
        states.append(policy.decide(states[t], floor[..., t])[0])
    for t in (5, 2, 7, 0):  # in any order
        np.testing.assert_allclose(
            policy.decide(states[t], floor[..., t])[1], w[..., t], rtol=1e-12
        )
    np.testing.assert_array_equal(problem.min_gain, gain)
    np.testing.assert_array_equal(problem.budget, [0.01, 0.1])
    for field, old in vars(kept).items():
        if isinstance(old, np.ndarray):
            np.testing.assert_array_equal(getattr(states[0], field), old)


@pytest.mark.parametrize("name", [*ONLINE, "optimal"])
def test_lanes_do_not_touch_each_other(name):
    min_gain = make(MNIST, 1.0, seeds=[0, 1, 2], rounds=15).min_gain
    nu = np.array([0.01, 0.16])
    problem = ReceiveScalingProblem(MNIST, min_gain, nu[:, None])
    policy = policies.Optimal() if name == "optimal" else ONLINE[name](problem)
    w = policy.schedule(problem)
    for k, r in np.ndindex(2, 3):
        alone = ReceiveScalingProblem(MNIST, min_gain[r], nu[k])
        np.testing.assert_array_equal(w[k, r], policy.schedule(alone))


class Returning(policies.OnlinePolicy):
    """Full power, with another factor on the noise energy in one round."""

    def __init__(self, factor):
        self.factor = factor

    def start(self, scenario, budget):
        return 0

    def decide(self, t, floor):
        return t + 1, floor * (self.factor if t == 3 else 1.0)


@pytest.mark.parametrize("factor", [1 - 1e-8, 0.5, math.nan, 0.0, -1.0, math.inf])
def test_schedule_refuses_what_the_power_limit_forbids(factor):
    problem = make(MIXED, 0.1)
    with pytest.raises(
        ValueError,
        match=r"^Returning returned a noise energy of \S+ in round 3, expected finite and ",
    ):
        Returning(factor).schedule(problem)
    for rounded in (1.0, 1 - 1e-15):
        np.testing.assert_array_equal(
            Returning(rounded).schedule(problem), problem.min_noise_energy
        )


@pytest.mark.parametrize(
    "kind", [policies.AdaScale, policies.PowerControl, policies.LyapunovPowerControl]
)
def test_subclass_that_redefines_decide_is_scheduled_by_it(kind):
    class FullPower(kind):
        def decide(self, state, floor):
            return state, floor

    problem = make(MNIST, 0.04, rounds=5)
    values = {
        "penalty": 1.0,
        "rate": 1e-9,
        "privacy_budget": 1e-8,
        "mean_gain": np.full(10, 1e-11),
    }
    names = [*kind.tuned, *(["mean_gain"] if kind.needs_mean_gain else [])]
    w = FullPower(**{name: values[name] for name in names}).schedule(problem)
    np.testing.assert_array_equal(w, problem.min_noise_energy)


def test_parameters_for_other_instances_are_refused():
    problem = make(MIXED, np.array([0.01, 0.1]), seeds=[0, 1])
    for policy in (
        policies.AdaScale(np.ones((3, 1))),
        policies.ConstantLevel(law=channel.RayleighFloors([[1.0]] * 3)),
    ):
        with pytest.raises(
            ValueError, match=r"instances \(3, 2\), the problem has \(2,\)"
        ):
            policy.schedule(problem)
