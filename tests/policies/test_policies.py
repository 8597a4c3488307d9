"""Policies: the optimum against CVXPY and chance, AdaScale's round against exact roots, and where policies end."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from adascale import Problem, accounting, policies
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion.theory.optimum_by_cvxpy import optimum_by_cvxpy

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
    powers,
)


# the last: unequal devices, and no sampling; the budget makes for a sigma of order 1
@pytest.mark.parametrize(
    ("scenario", "budget"), [PAPER[-1], (replace(MNIST, order=8), 0.16), (MIXED, 1.0)]
)
def test_cvxpy_finds_no_better_schedule_than_the_closed_form(scenario, budget):
    problem = make(scenario, budget, rounds=100)
    w = optimum_by_cvxpy(problem)
    assert feasible(problem, w)
    # the interior point meets the constraint to its own tolerance
    assert problem.cost(w) <= budget * (1 + 1e-5)
    least = float(problem.rdp(policies.Optimal().schedule(problem)))
    # Clarabel's tolerance is 1e-7
    assert float(problem.rdp(w)) == pytest.approx(least, rel=1e-6)


def test_equal_allocation_is_the_paper_s_formula():
    problem = make(MNIST, 0.04)
    x_max = reference.x_max(MNIST)
    scale = MNIST.num_parameters * MNIST.noise_power
    x = x_max / (1 + x_max * 0.04 * problem.min_gain / scale)
    eta = problem.eta(policies.EqualAlloc().schedule(problem))
    # a few roundings
    np.testing.assert_allclose(eta, x * problem.min_gain, rtol=1e-13)


# here the curvature overflows
@example(2.17e-103, 7.47e-103, 1.82e-300, (FULL, 3))
@given(
    powers(-6, 6),
    st.just(0.0) | powers(-6, 3),
    powers(-12, 12),
    st.sampled_from([(FULL, 2), (MNIST, 3), (MIXED, 8), (MNIST, 2.5)]),
)
def test_a_round_is_a_root_however_extreme(floor, queue, penalty, case):
    leakage = RoundLeakage(*case)
    energy = float(best_energy(floor, queue, penalty, leakage))
    saved = -penalty * float(leakage.slope(energy))
    spent = pytest.approx(queue + energy - floor, rel=1e-9, abs=1e-15 * floor)
    assert energy >= floor
    assert saved == spent or (energy == floor and saved < queue)


@pytest.mark.parametrize(
    ("order", "min_gain", "queue", "penalty"),
    [(3, 1e-12, 0.1, 10.0), (2.5, 3e-11, 2.0, 1.0), (3, 1e-9, 0, 1)],
)
def test_a_round_minimises_the_paper_s_objective_in_x(order, min_gain, queue, penalty):
    scenario = replace(MNIST, order=order)
    top = math.log(reference.x_max(scenario))

    def objective(log_x):
        """That of problem (30) in x_t, with sum_m rho of the noise multipliers."""
        x = math.exp(log_x)
        sigma = reference.noise_multiplier(scenario, x, min_gain, 0)
        leakage = 10 * float(accounting.rdp(scenario.sampling_rate, sigma, order))
        extra = reference.constraint(scenario, x, min_gain)
        return penalty * leakage + queue * extra + extra**2 / 2

    policy = policies.AdaScale(penalty, queue)
    state = policy.start(scenario, np.array(0.04))
    _, energy = policy.decide(state, scenario.floor(min_gain))
    log_x = math.log(scenario.noise_scale / float(energy) / min_gain)
    best = minimize_scalar(objective, bounds=(top - 40, top), method="bounded")
    # no x does better than the chosen one by more than the rounding of the objective
    assert objective(min(log_x, top)) <= best.fun * (1 + 1e-12)
    # the tolerance of the minimiser
    assert log_x == pytest.approx(best.x, abs=1e-4)


@given(gains, budgets, penalties)
def test_adascale_is_its_rounds_and_its_queue_written_out(gain, budget, penalty):
    problem = Problem(MIXED, gain, budget)
    w = policies.AdaScale(penalty).schedule(problem)
    scale = MIXED.num_parameters * MIXED.noise_power / reference.x_max(MIXED)
    queue = 0.0
    for t, h in enumerate(gain):
        energy = float(best_energy(scale / h, queue, penalty, RoundLeakage(MIXED)))
        # floors that differ in their last digit and a slack that is their difference
        assert float(w[t]) == pytest.approx(energy, rel=1e-9)
        queue = max(queue + energy - scale / h - budget, 0.0)


def test_equal_alloc_of_an_epsilon_never_exceeds_it_on_any_channel():
    budget = policies.EqualAlloc.budget_for(MIXED, 8.0)
    gain = np.full((3, MIXED.num_rounds), [[1e-14], [1e-12], [1e3]])  # weak to perfect
    problem = Problem(MIXED, gain, budget)
    w = policies.EqualAlloc().schedule(problem)
    epsilon = problem.epsilon(w, accounting.ExactAccountant())
    assert (np.diff(epsilon) >= 0).all()
    assert 0.998 * 8 <= epsilon[-1] <= 8


def test_a_price_beyond_floating_point_is_refused_by_the_budget_of_a_round():
    """|F'| falls as w^-2 or w^-3 and is 0 in float64 where w is 1e200."""
    programme = policies.DynamicProgramme(law=RayleighFloors(0.1))
    expected = r"^beyond floating point: the price of a budget of 1e\+200$"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=expected):
        programme.start(replace(MIXED, order=2, num_rounds=2), 1e200)
