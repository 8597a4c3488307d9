"""Policies: the optimum against CVXPY and chance, AdaScale's round against exact roots, and where policies end."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from adascale import ReceiveScalingProblem, accounting, policies
from adascale.channel import EmpiricalFloors, RayleighFloors
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from companion.theory import optimal_cvxpy

from .. import reference
from ..problems import (
    FULL,
    MIXED,
    MNIST,
    PAPER,
    best_energy,
    budgets,
    feasible,
    gains,
    make,
    penalties,
)


@given(gains, budgets, st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 8, 1.5, 2.5]))
def test_no_feasible_schedule_leaks_less_than_the_optimum(gain, budget, seed, order):
    problem = ReceiveScalingProblem(replace(MIXED, order=order), gain, budget)
    best = problem.rdp(policies.Optimal().schedule(problem))
    rng = np.random.default_rng(seed)
    level = water_level(problem.min_noise_energy, budget)
    for near in (1.0, 1e-2):  # anywhere, and close to the optimum
        share = rng.exponential(size=len(gain)) * problem.num_rounds * budget
        share *= problem.num_rounds * budget / share.sum()
        spent = near * share + (1 - near) * np.maximum(
            level - problem.min_noise_energy, 0
        )
        w = problem.min_noise_energy + spent
        assert problem.cost(w) <= budget * (
            1 + 1e-6
        )  # floors up to 1e5 budgets hide that much of the cost
        # the leakage of what floors hide, and the rounding of a leakage
        assert problem.rdp(w) >= best * (1 - 1e-9)


# unequal devices, no sampling: the budget makes for a sigma of order 1
SOLVED = [
    PAPER[0],
    PAPER[-1],
    (replace(MNIST, order=8), 0.16),
    (MIXED, 1.0),
    (FULL, 1.0),
]


@pytest.mark.parametrize(
    ("scenario", "budget"), SOLVED, ids=lambda value: getattr(value, "name", value)
)
def test_cvxpy_finds_no_better_schedule_than_the_closed_form(scenario, budget):
    problem = make(scenario, budget, rounds=100)
    convex, closed = (
        policy.schedule(problem)
        for policy in (optimal_cvxpy.OptimalCvxpy(), policies.Optimal())
    )
    assert feasible(problem, convex)
    assert problem.cost(convex) <= budget * (
        1 + 1e-5
    )  # the interior point meets the constraint to its own tolerance
    assert (
        abs(float(problem.rdp(convex) / problem.rdp(closed)) - 1) < 1e-6
    )  # Clarabel's default tolerance is 1e-8


def test_equal_allocation_is_the_paper_s_formula():
    problem = make(MNIST, 0.04)
    x_max = reference.x_max(MNIST)
    scale = MNIST.num_parameters * MNIST.noise_power
    expected = [
        x_max / (1 + x_max * 0.04 * gain / scale) * gain for gain in problem.min_gain
    ]
    np.testing.assert_allclose(
        problem.eta(policies.EqualAlloc().schedule(problem)), expected, rtol=1e-13
    )  # a few roundings


@pytest.mark.parametrize(("scenario", "order"), [(FULL, 2), (MNIST, 3), (MIXED, 8)])
def test_a_round_is_the_exact_root_however_extreme(scenario, order):
    leakage = RoundLeakage(scenario, order)
    slope = reference.exact_slope(scenario, order)
    rng = np.random.default_rng(order)
    usual = [
        (10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-6, 3), 10 ** rng.uniform(-12, 12))
        for _ in range(4)
    ]
    for floor, queue, penalty in [*usual, (0.7, 0.0, 1e3)]:
        exact = reference.adascale_round(floor, queue, penalty, slope)
        found = float(best_energy(floor, queue, penalty, leakage))
        # F' carries about 1e-13, and the root moves by no more than F' does
        assert found == pytest.approx(exact, rel=1e-12), (floor, queue, penalty)
        assert found >= floor
    # far below its root, where the curvature overflows: the slope falls as the square of what is found
    for floor, queue, penalty in (
        (2.17e-103, 7.47e-103, 1.82e-300),
        (1e-120, 0.0, 1e-250),
    ):
        found = float(best_energy(floor, queue, penalty, RoundLeakage(FULL)))
        assert found > floor
        assert -penalty * float(RoundLeakage(FULL).slope(found)) == pytest.approx(
            queue + found - floor, rel=1e-9
        )


@pytest.mark.parametrize("order", [3, 2.5])
def test_a_round_minimises_the_paper_s_objective_in_x(order):
    scenario = replace(MNIST, order=order)
    rng = np.random.default_rng(1)
    for _ in range(6):
        min_gain, queue, penalty = (
            10 ** rng.uniform(-12, -9),
            rng.exponential(),
            10 ** rng.uniform(-5, 2),
        )
        state = policies.AdaScale(penalty).start(scenario, np.array(0.04))
        state = replace(state, queue=np.array(queue))
        _, energy = policies.AdaScale(penalty).decide(state, scenario.floor(min_gain))

        def objective(log_x, min_gain=min_gain, queue=queue, penalty=penalty):
            """That of problem (30) in x_t, with sum_m rho of the noise multipliers."""
            x, devices = math.exp(log_x), range(scenario.num_devices)
            sigma = [
                reference.noise_multiplier(scenario, x, min_gain, m) for m in devices
            ]
            leakage = float(accounting.rdp(scenario.sampling_rate, sigma, order).sum())
            extra = reference.constraint(scenario, x, min_gain)
            return penalty * leakage + queue * extra + extra**2 / 2

        top = math.log(reference.x_max(scenario))
        found = minimize_scalar(
            objective,
            bounds=(top - 40, top),
            method="bounded",
            options={"xatol": 1e-10},
        )
        chosen = math.log(scenario.noise_scale / float(energy) / min_gain)
        # no x does better than the chosen one by more than the rounding of the objective
        assert objective(min(chosen, top)) <= found.fun * (1 + 1e-12)
        # an objective is flat at its minimum: its last digit moves x by about the square root of it
        assert chosen == pytest.approx(found.x, abs=1e-6)


def test_a_round_without_leakage_to_save_is_at_full_power():
    leakage = RoundLeakage(MNIST)
    assert best_energy(1e5, 1.0, 1e-12, leakage) == 1e5
    problem = ReceiveScalingProblem(MNIST, [1e-13, 1e-9], 0.04)
    w = policies.AdaScale(1e-30).schedule(problem)
    np.testing.assert_allclose(
        w, problem.min_noise_energy, rtol=1e-9
    )  # (V |F'|) / w is at most 1e-10 here
    assert feasible(problem, w)


@given(gains, budgets, penalties)
def test_adascale_is_its_rounds_and_its_queue_written_out(gain, budget, penalty):
    problem = ReceiveScalingProblem(MIXED, gain, budget)
    w = policies.AdaScale(penalty).schedule(problem)
    assert feasible(problem, w)
    queue, leakage = 0.0, RoundLeakage(MIXED)
    for t, one in enumerate(gain):
        floor = (
            MIXED.num_parameters * MIXED.noise_power / (reference.x_max(MIXED) * one)
        )
        energy = float(best_energy(floor, queue, penalty, leakage))
        # floors that differ in their last digit and a slack that is their difference
        assert float(w[t]) == pytest.approx(energy, rel=1e-9)
        queue = max(queue + energy - floor - budget, 0.0)


def test_equal_alloc_of_an_epsilon_never_exceeds_it_on_any_channel():
    exact = accounting.ExactAccountant()
    budget = policies.EqualAlloc.budget_for(MIXED, 8.0)
    reached = []
    for gain in (1e-14, 1e-12, 1e3):  # weak to perfect
        problem = ReceiveScalingProblem(MIXED, np.full(MIXED.num_rounds, gain), budget)
        reached.append(
            float(problem.epsilon(policies.EqualAlloc().schedule(problem), exact))
        )
    assert sorted(reached) == reached
    assert 0.998 * 8 <= reached[-1] <= 8


def test_a_round_left_out_counts_towards_the_weights_of_shi_et_al():
    """After n rounds left out the next is that of round n: V r^-n over the queue, which fell by the rate n times."""
    contraction, scale = 0.8, MIXED.x_max * 1e-10
    policy = policies.LyapunovPowerControl(
        scale**3, scale / 8, contraction, initial_queue=4 * scale
    )
    state = policy.start(MIXED, 0.1)
    for n in range(1, 4):
        state = policy.skip(state)
        eta = (
            MIXED.noise_scale / policy.decide(state, MIXED.floor(1e-9))[1]
        )  # a cap of 10 scales, never reached
        assert eta == pytest.approx(
            scale * np.sqrt(contraction**-n / (4 - n / 8)), rel=1e-12
        )


@pytest.mark.parametrize("floor", [0.1, 7.9])
def test_the_level_whose_penalty_is_beyond_floating_point_is_named(floor):
    """A law of one floor has the level floor + nu."""
    small = replace(
        FULL, clip_norm=1e-3
    )  # of next to no leakage, which makes for a large penalty
    with pytest.raises(
        ValueError, match=f"the penalty at a level of {floor + 0.1:.3g}$"
    ):
        policies.AdaScale.from_law(
            small, 0.1, law=EmpiricalFloors([floor]), stiffness=1e308
        )


MEAN_GAIN = np.array([[1e-10, 2e-10, 4e-10], [3e-11, 1e-10, 1e-10]])


@pytest.mark.parametrize(
    "of", [policies.EstimFuture, lambda gain: policies.PowerControl(gain, 3e-9)]
)
def test_two_rows_of_mean_gains_make_two_lanes_of_one_budget(of):
    policy, floor = of(MEAN_GAIN), MIXED.floor([2e-11, 5e-11])
    _, energy = policy.decide(policy.start(MIXED, 0.1), floor)
    for lane in range(2):
        alone = of(MEAN_GAIN[lane])
        assert energy[lane] == alone.decide(alone.start(MIXED, 0.1), floor[lane])[1]
    with pytest.raises(ValueError, match="mismatch"):
        policy.start(MIXED, [0.1, 0.2, 0.3])


SECOND = replace(MIXED, order=2)  # few moments: quick also where nothing is compiled


def test_with_two_rounds_each_lane_plans_for_the_second_floors_of_its_own_law():
    """The first slope is the mean one of the floors that may follow, be they equal, or 0.04 % apart."""
    follow, nu, first = np.array([[0.2, 0.2], [0.5, 0.5002]]), 0.4, 0.3
    gain = SECOND.noise_scale / (SECOND.x_max * np.array([[first, 1.0], [first, 1.0]]))
    problem = ReceiveScalingProblem(
        SECOND, gain, nu
    )  # one budget, which two tables are for
    energy = policies.DynamicProgramme(law=EmpiricalFloors(follow)).schedule(problem)
    F = RoundLeakage(SECOND)
    excess = [
        lambda y, w=w: F.slope(first + y) - F.slope(w + 2 * nu - y).mean()
        for w in follow
    ]
    wanted = [brentq(each, 0, 2 * nu, xtol=1e-14) for each in excess]
    assert wanted[0] == pytest.approx(
        (2 * nu + 0.2 - first) / 2
    )  # both rounds fill up to one level
    np.testing.assert_allclose(energy[:, 0] - first, wanted, rtol=2e-6)


def test_a_price_beyond_floating_point_is_refused_by_the_budget_of_a_round():
    """|F'| falls as w^-2 or w^-3 and is 0 in float64 where w is 1e200."""
    programme = policies.DynamicProgramme(law=RayleighFloors(0.1))
    with (
        np.errstate(all="ignore"),
        pytest.raises(
            ValueError,
            match=r"^beyond floating point: the price of a budget of 1e\+200$",
        ),
    ):
        programme.start(replace(SECOND, num_rounds=2), 1e200)


def test_each_lane_learns_from_the_prior_of_its_own():
    scale = np.array([0.03, 0.3])
    problem = make(MIXED, 0.1, seeds=[0, 1])
    w = policies.Learn(prior=RayleighFloors(scale), weight=4).schedule(problem)
    for lane in range(2):
        alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[lane], 0.1)
        policy = policies.Learn(prior=RayleighFloors(scale[lane]), weight=4)
        np.testing.assert_array_equal(w[lane], policy.schedule(alone))
    assert policies.Learn(prior=RayleighFloors(scale), weight=4).start(
        MIXED, 0.1
    ).seen.shape == (2, 2, 4)


def test_decide_that_returns_no_state_and_energy_per_instance_is_refused():
    class Careless(policies.OnlinePolicy):
        def start(self, scenario, budget):
            return 0

        def decide(self, state, floor):
            return self.returned

    problem, two = make(MIXED, np.array([0.1, 0.2]), seeds=[0, 1]), [1e12, 1e12]
    wrong = [(0, energy) for energy in (1e12, [two], ["1e12", "1e12"], [True, True])]
    for Careless.returned in (*wrong, [0, two], (0, two, 0), np.array(two), None):
        with pytest.raises(ValueError, match=r"^Careless\.decide must return "):
            Careless().schedule(problem)
    Careless.returned = 0, two  # the control
    assert Careless().schedule(problem).shape == (2, 8)
