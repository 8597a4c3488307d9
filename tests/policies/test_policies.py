"""Policies: the optimum against CVXPY and against chance, AdaScale's round against exact roots."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from adascale import ReceiveScalingProblem, accounting, policies
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from companion.theory import optimal_cvxpy

from .. import reference
from ..problems import FULL, MIXED, MNIST, PAPER, best_energy, budgets, feasible, gains, make, penalties


@given(gains, budgets, st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 8, 1.5, 2.5]))
def test_no_feasible_schedule_leaks_less_than_the_optimum(gain, budget, seed, order):
    problem = ReceiveScalingProblem(replace(MIXED, order=order), gain, budget)
    best = problem.rdp(policies.Optimal().schedule(problem))
    rng = np.random.default_rng(seed)
    level = water_level(problem.min_noise_energy, budget)
    for near in (1.0, 1e-2):  # anywhere, and close to the optimum
        share = rng.exponential(size=len(gain)) * problem.num_rounds * budget
        share *= problem.num_rounds * budget / share.sum()
        spent = near * share + (1 - near) * np.maximum(level - problem.min_noise_energy, 0)
        eta = np.minimum(problem.scenario.noise_scale / (problem.min_noise_energy + spent), problem.max_eta)
        assert problem.cost(eta) <= budget * (1 + 1e-6)  # floors up to 1e5 budgets hide that much of the cost
        # the leakage of what floors hide, and the rounding of a leakage
        assert problem.rdp(eta) >= best * (1 - 1e-9)


# unequal devices, no sampling: the budget makes for a sigma of order 1
SOLVED = [PAPER[0], PAPER[-1], (replace(MNIST, order=8), 0.16), (MIXED, 1.0), (FULL, 1.0)]


@pytest.mark.parametrize(("scenario", "budget"), SOLVED, ids=lambda value: getattr(value, "name", value))
def test_cvxpy_finds_no_better_schedule_than_the_closed_form(scenario, budget):
    problem = make(scenario, budget, rounds=100)
    convex, closed = (policy.schedule(problem) for policy in (optimal_cvxpy.OptimalCvxpy(), policies.Optimal()))
    assert feasible(problem, convex)
    assert problem.cost(convex) <= budget * (1 + 1e-5)  # the interior point meets the constraint to its own tolerance
    assert abs(float(problem.rdp(convex) / problem.rdp(closed)) - 1) < 1e-6  # Clarabel's default tolerance is 1e-8


def test_equal_allocation_is_the_paper_s_formula():
    problem = make(MNIST, 0.04)
    x_max = reference.x_max(MNIST)
    scale = MNIST.num_parameters * MNIST.noise_power
    expected = [x_max / (1 + x_max * 0.04 * gain / scale) * gain for gain in problem.min_gain]
    np.testing.assert_allclose(policies.EqualAlloc().schedule(problem), expected, rtol=1e-13)  # a few roundings


@pytest.mark.parametrize(("scenario", "order"), [(FULL, 2), (MNIST, 3), (MIXED, 8)])
def test_a_round_is_the_exact_root_however_extreme(scenario, order):
    leakage = RoundLeakage(scenario, order)
    slope = reference.exact_slope(scenario, order)
    rng = np.random.default_rng(order)
    for _ in range(5):
        floor, queue, penalty = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-6, 3), 10 ** rng.uniform(-12, 12)
        queue = 0.0 if rng.random() < 0.3 else queue
        exact = reference.adascale_round(floor, queue, penalty, slope)
        found = float(best_energy(floor, queue, penalty, leakage))
        # F' carries about 1e-13, and the root moves by no more than F' does
        assert found == pytest.approx(exact, rel=1e-12), (floor, queue, penalty)
        assert found >= floor


def paper_objective(scenario, x, min_gain, queue, penalty, leakage):
    """The objective of problem (30) in x_t; ``leakage`` gives sum_m rho of the noise multipliers."""
    extra = reference.constraint(scenario, x, min_gain)
    return penalty * leakage(x) + queue * extra + extra**2 / 2


@pytest.mark.parametrize("order", [3, 2.5])
def test_a_round_minimises_the_paper_s_objective_in_x(order):
    scenario = replace(MNIST, order=order)
    rng = np.random.default_rng(1)
    for _ in range(6):
        min_gain, queue, penalty = 10 ** rng.uniform(-12, -9), rng.exponential(), 10 ** rng.uniform(-5, 2)
        state = policies.AdaScale(penalty).start(scenario, np.array(0.04))
        state = replace(state, queue=np.array(queue))
        _, eta = policies.AdaScale(penalty).step(state, np.array(min_gain))

        def leakage(x, min_gain=min_gain):
            devices = range(scenario.num_devices)
            sigma = [reference.noise_multiplier(scenario, x, min_gain, m) for m in devices]
            return float(accounting.rdp(scenario.sampling_rate, sigma, order).sum())

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


def test_equal_alloc_of_an_epsilon_never_exceeds_it_on_any_channel():
    exact = accounting.ExactAccountant()
    for epsilon, known in ((1.0, 0.190), (2.0, 0.105), (8.0, 0.0424)):
        assert policies.EqualAlloc.budget_for(MNIST, epsilon) == pytest.approx(known, rel=5e-3)
    budget = policies.EqualAlloc.budget_for(MIXED, 8.0)
    reached = []
    for gain in (1e-14, 1e-12, 1e3):  # weak to perfect
        problem = ReceiveScalingProblem(MIXED, np.full(MIXED.num_rounds, gain), budget)
        reached.append(float(problem.device_epsilons(policies.EqualAlloc().schedule(problem), exact)[1]))
    assert sorted(reached) == reached
    assert 0.998 * 8 <= reached[-1] <= 8
