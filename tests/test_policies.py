"""Policies: the optimum against CVXPY and against chance, AdaScale's round against exact roots, causality for all."""

import copy
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from adascale import ReceiveScalingProblem, Scenario, channel, policies, tuning
from adascale.policies.adaptive import best_energy
from adascale.policies.optimal import water_level
from adascale.problem import RoundLeakage

from . import reference

MNIST, CIFAR = Scenario.mnist(), Scenario.cifar10()
# three devices, two of them alike
MIXED = Scenario("mixed", 3, 8, 1000, (20, 60, 20), (1000, 600, 1000), 1.5, 0.2, 1e-12, 3)
FULL = replace(MIXED, name="full", batch_size=40, dataset_size=40)  # q = 1
PAPER = [(MNIST, nu) for nu in (0.01, 0.02, 0.04, 0.08, 0.16)] + [(CIFAR, nu) for nu in (0.01, 0.32)]

gains = st.lists(st.floats(-13, -8).map(lambda x: 10.0**x), min_size=2, max_size=12)
budgets = st.floats(-3, 1).map(lambda x: 10.0**x)
penalties = st.floats(-6, 4).map(lambda x: 10.0**x)


def make(scenario, budget, seeds=0, rounds=None):
    gain = channel.draw(scenario.num_devices, rounds or scenario.num_rounds, seeds).gain
    return ReceiveScalingProblem(scenario, scenario.min_gain(gain), budget)


def feasible(problem, eta):
    return (eta > 0).all() and (eta <= problem.max_eta).all()


# The optimum ---------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-6, 6).map(lambda x: 10.0**x), min_size=1, max_size=30), st.floats(-8, 6).map(lambda x: 10.0**x)
)
def test_water_level_is_the_root_of_its_equation(floor, budget):
    # cumulative sums of at most 30 floors: a few dozen roundings
    assert float(water_level(floor, budget)) == pytest.approx(reference.water_level(floor, budget), rel=1e-13)


def test_water_level_of_equal_floors_is_floor_plus_budget():
    assert water_level([2.0, 2.0, 2.0], 0.5) == 2.5
    assert water_level([[1.0, 3.0], [1.0, 100.0]], np.array([2.0, 3.0])).tolist() == [4.0, 7.0]


def test_optimum_spends_the_budget_and_never_exceeds_a_cap():
    for scenario, budget in PAPER:
        problem = make(scenario, budget, seeds=range(20))
        eta = policies.Optimal().schedule(problem)
        assert feasible(problem, eta)  # exactly, no tolerance
        np.testing.assert_allclose(problem.cost(eta), budget, rtol=1e-12)  # what is promised


@settings(max_examples=100, deadline=None)
@given(gains, budgets, st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 8, 1.5, 2.5]))
def test_no_feasible_schedule_leaks_less_than_the_optimum(gain, budget, seed, order):
    problem = ReceiveScalingProblem(replace(MIXED, order=order), gain, budget)
    best = problem.rdp(policies.Optimal().schedule(problem))
    rng = np.random.default_rng(seed)
    level = water_level(problem.floor, budget)
    for near in (1.0, 1e-2):  # anywhere, and close to the optimum
        share = rng.exponential(size=len(gain)) * problem.num_rounds * budget
        share *= problem.num_rounds * budget / share.sum()
        spent = near * share + (1 - near) * np.maximum(level - problem.floor, 0)
        eta = np.minimum(problem.scenario.noise_scale / (problem.floor + spent), problem.max_eta)
        assert problem.cost(eta) <= budget * (1 + 1e-6)  # floors up to 1e5 budgets hide that much of the cost
        # the leakage of what floors hide, and the rounding of a leakage
        assert problem.rdp(eta) >= best * (1 - 1e-9)


def cvxpy_gap(scenario, budget):
    problem = make(scenario, budget, rounds=500)
    convex, closed = (policy.schedule(problem) for policy in (policies.OptimalCvxpy(), policies.Optimal()))
    assert feasible(problem, convex)
    assert problem.cost(convex) <= budget * (1 + 1e-5)  # the interior point meets the constraint to its own tolerance
    return abs(float(problem.rdp(convex) / problem.rdp(closed)) - 1)


@pytest.mark.parametrize(("scenario", "budget"), PAPER, ids=lambda value: getattr(value, "name", value))
def test_cvxpy_finds_no_better_schedule_than_the_closed_form(scenario, budget):
    assert cvxpy_gap(scenario, budget) < 1e-6  # Clarabel's default tolerance is 1e-8


@pytest.mark.parametrize("order", [2, 8])
@pytest.mark.parametrize("budget", [0.01, 0.16])
def test_cvxpy_agrees_at_other_integer_orders(order, budget):
    assert cvxpy_gap(replace(MNIST, order=order), budget) < 1e-6


@pytest.mark.parametrize("scenario", [MIXED, FULL], ids=lambda scenario: scenario.name)
def test_cvxpy_agrees_for_unequal_devices_and_without_sampling(scenario):
    # the same budget in units of the leakage's own scale: sigma of order 1
    assert cvxpy_gap(scenario, 1.0) < 1e-6


def test_one_schedule_is_optimal_for_every_order():
    problem = make(MNIST, 0.04)
    eta = policies.Optimal().schedule(problem)
    for order in (1.5, 2, 8, 20):
        other = make(replace(MNIST, order=order), 0.04)
        np.testing.assert_array_equal(policies.Optimal().schedule(other), eta)


# EqualAlloc ----------------------------------------------------------------------------------------------------------


def test_equal_allocation_is_the_paper_s_formula():
    problem = make(MNIST, 0.04)
    x_max = reference.x_max(MNIST)
    scale = MNIST.num_parameters * MNIST.noise_power
    expected = [x_max / (1 + x_max * 0.04 * gain / scale) * gain for gain in problem.min_gain]
    np.testing.assert_allclose(policies.EqualAlloc().schedule(problem), expected, rtol=1e-13)  # a few roundings


def test_equal_allocation_meets_the_budget_in_every_round():
    problem = make(MNIST, 0.04)
    spent = problem.noise_energy(policies.EqualAlloc().schedule(problem)) - problem.floor
    np.testing.assert_allclose(spent, 0.04, rtol=1e-12)


def test_on_a_constant_channel_equal_allocation_is_optimal():
    problem = ReceiveScalingProblem(MNIST, np.full(7, 1e-11), 0.04)
    equal, best = (policy.schedule(problem) for policy in (policies.EqualAlloc(), policies.Optimal()))
    np.testing.assert_allclose(equal, best, rtol=1e-14)


# AdaScale ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", [MNIST, MIXED, FULL], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("order", [2, 3, 8])
def test_a_round_is_the_exact_root_however_extreme(scenario, order):
    leakage = RoundLeakage(scenario, order)
    slope = reference.exact_slope(scenario, order)
    rng = np.random.default_rng(order)
    for _ in range(10):
        floor, queue, penalty = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-6, 3), 10 ** rng.uniform(-12, 12)
        queue = 0.0 if rng.random() < 0.3 else queue
        exact = reference.adascale_round(floor, queue, penalty, slope)
        found = float(best_energy(floor, queue, penalty, leakage))
        # F' carries about 1e-13, and the root moves by no more than F' does
        assert found == pytest.approx(exact, rel=1e-12), (floor, queue, penalty)
        assert found >= floor


def paper_objective(scenario, x, min_gain, queue, penalty, leakage):
    """Problem (18) in x_t; ``leakage`` gives sum_m rho of the noise multipliers."""
    extra = reference.constraint(scenario, x, min_gain)
    return penalty * leakage(x) + queue * extra + extra**2 / 2


@pytest.mark.parametrize("order", [3, 2.5])
def test_a_round_minimises_the_paper_s_objective_in_x(order):
    scenario = replace(MNIST, order=order)
    rng = np.random.default_rng(1)
    for _ in range(12):
        min_gain, queue, penalty = 10 ** rng.uniform(-12, -9), rng.exponential(), 10 ** rng.uniform(-5, 2)
        state = policies.AdaScale(penalty).start(scenario, np.array(0.04))._replace(queue=np.array(queue))
        _, eta = policies.AdaScale(penalty).step(state, np.array(min_gain))

        def leakage(x, min_gain=min_gain):
            from adascale import privacy

            devices = range(scenario.num_devices)
            sigma = [reference.noise_multiplier(scenario, x, min_gain, m) for m in devices]
            return float(privacy.rdp(scenario.sampling_rate, sigma, order).sum())

        def objective(log_x, point=(min_gain, queue, penalty, leakage)):
            return paper_objective(scenario, math.exp(log_x), *point)

        top = math.log(reference.x_max(scenario))
        found = minimize_scalar(objective, bounds=(top - 40, top), method="bounded", options={"xatol": 1e-10})
        chosen = math.log(float(eta) / min_gain)
        # no x does better than the chosen one by more than the rounding of the objective
        assert objective(min(chosen, top)) <= found.fun * (1 + 1e-12)
        # an objective is flat at its minimum: its last digit moves x by about the square root of it
        assert chosen == pytest.approx(found.x, abs=1e-6)


def test_a_round_without_leakage_to_save_is_at_full_power():
    leakage = RoundLeakage(MNIST)
    assert best_energy(1e5, 1.0, 1e-12, leakage) == 1e5
    problem = ReceiveScalingProblem(MNIST, [1e-13, 1e-9], 0.04)
    eta = policies.AdaScale(1e-30).schedule(problem)
    np.testing.assert_allclose(eta, problem.max_eta, rtol=1e-9)  # (V |F'|) / w is at most 1e-10 here
    assert feasible(problem, eta)


@settings(max_examples=60, deadline=None)
@given(gains, budgets, penalties)
def test_adascale_is_its_rounds_and_its_queue_written_out(gain, budget, penalty):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    eta = policies.AdaScale(penalty).schedule(problem)
    assert feasible(problem, eta)
    queue, leakage = 0.0, RoundLeakage(MIXED)
    for t, one in enumerate(gain):
        floor = MIXED.num_parameters * MIXED.noise_power / (reference.x_max(MIXED) * one)
        energy = float(best_energy(floor, queue, penalty, leakage))
        # floors that differ in their last digit and a slack that is their difference
        assert float(problem.noise_energy(eta)[t]) == pytest.approx(energy, rel=1e-9)
        queue = max(queue + energy - floor - budget, 0.0)


@settings(max_examples=60, deadline=None)
@given(gains, budgets, penalties)
def test_the_queue_never_goes_negative_and_bounds_the_violation(gain, budget, penalty):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    policy = policies.AdaScale(penalty)
    state = policy.start(problem.scenario, np.array(budget))
    spent = 0.0
    for one in gain:
        before = float(state.queue)
        state, eta = policy.step(state, np.array(one))
        extra = problem.scenario.noise_scale / float(eta) - problem.scenario.noise_scale / (MIXED.x_max * one)
        spent += extra - budget
        assert state.queue >= 0
        # equation (17), up to the last digits of a noise energy
        scale = 1e-12 * (problem.scenario.noise_scale / float(eta) + before + budget)
        assert float(state.queue) == pytest.approx(max(before + extra - budget, 0), abs=scale, rel=0)
    # Q_T >= sum of (extra - nu): what makes a small queue a small violation
    assert state.queue >= spent - 1e-9 * (abs(spent) + problem.floor.sum())


def test_a_larger_queue_or_a_smaller_penalty_never_raises_the_noise():
    leakage = RoundLeakage(MNIST)
    queue, penalty = np.geomspace(1e-6, 1e3, 40), np.geomspace(1e-12, 1e12, 40)[:, None]
    energy = best_energy(0.01, queue, penalty, leakage)
    assert (np.diff(energy, axis=1) <= 1e-14 * energy[:, 1:]).all()  # equal at the floor, up to a last digit
    assert (np.diff(energy, axis=0) >= -1e-14 * energy[1:]).all()


def plain_lyapunov_cost(cap, rounds=60):
    """Mean cost of standard Lyapunov optimisation, w limited by ``cap`` since it knows no limit of its own."""
    problem = make(MNIST, 0.04, rounds=rounds)
    leakage = RoundLeakage(MNIST)
    queue, total = 0.0, 0.0
    for min_gain in problem.min_gain:
        energy, floor = reference.plain_lyapunov_round(MNIST, queue, 0.01, min_gain, cap, leakage)
        total += energy - floor
        queue = max(queue + energy - floor - 0.04, 0.0)
    return total / rounds


def test_without_the_quadratic_term_the_cost_grows_without_limit():
    """The paper's reason for AdaScale: at Q = 0 the plain round wants infinite noise."""
    for cap in (1e3, 1e5):
        # the first round, with an empty queue, spends the whole cap: W / T of mean cost
        assert plain_lyapunov_cost(cap) >= 0.99 * cap / 60
    problem = make(MNIST, 0.04, rounds=60)
    assert problem.cost(policies.AdaScale(0.01).schedule(problem)) < 1  # with it, there is no cap to name


# The online interface ------------------------------------------------------------------------------------------------

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
