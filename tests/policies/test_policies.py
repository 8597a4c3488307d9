"""Policies: the optimum against CVXPY and chance, AdaScale's round against exact roots, and where policies end."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from adascale import Problem, accounting, policies
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
    with_floors,
)

SOLVED = [
    PAPER[0],
    PAPER[-1],
    (replace(MNIST, order=8), 0.16),
    # unequal devices, no sampling: the budget makes for a sigma of order 1
    (MIXED, 1.0),
    (FULL, 1.0),
]


@pytest.mark.parametrize(("scenario", "budget"), SOLVED)
def test_cvxpy_finds_no_better_schedule_than_the_closed_form(scenario, budget):
    problem = make(scenario, budget, rounds=100)
    w = optimal_cvxpy.OptimalCvxpy().schedule(problem)
    assert feasible(problem, w)
    # the interior point meets the constraint to its own tolerance
    assert problem.cost(w) <= budget * (1 + 1e-5)
    least = float(problem.rdp(policies.Optimal().schedule(problem)))
    # Clarabel's default tolerance is 1e-8
    assert float(problem.rdp(w)) == pytest.approx(least, rel=1e-6)


def test_equal_allocation_is_the_paper_s_formula():
    problem = make(MNIST, 0.04)
    x_max = reference.x_max(MNIST)
    scale = MNIST.num_parameters * MNIST.noise_power
    x = x_max / (1 + x_max * 0.04 * problem.min_gain / scale)
    eta = problem.eta(policies.EqualAlloc().schedule(problem))
    # a few roundings
    np.testing.assert_allclose(eta, x * problem.min_gain, rtol=1e-13)


@pytest.mark.parametrize(("scenario", "order"), [(FULL, 2), (MNIST, 3), (MIXED, 8)])
def test_a_round_is_the_exact_root_however_extreme(scenario, order):
    slope = reference.exact_slope(scenario, order)
    rng = np.random.default_rng(order)
    cases = [10 ** rng.uniform([-6, -6, -12], [6, 3, 12]) for _ in range(4)]
    for floor, queue, penalty in [*cases, (0.7, 0.0, 1e3)]:
        exact = reference.adascale_round(floor, queue, penalty, slope)
        leakage = RoundLeakage(scenario, order)
        energy = float(best_energy(floor, queue, penalty, leakage))
        # F' carries about 1e-13, and the root moves by no more than F' does
        assert energy == pytest.approx(exact, rel=1e-12), (floor, queue, penalty)
        assert energy >= floor


@pytest.mark.parametrize(
    ("floor", "queue", "penalty"),
    [(2.17e-103, 7.47e-103, 1.82e-300), (1e-120, 0.0, 1e-250)],
)
def test_a_round_is_a_root_where_the_curvature_overflows(floor, queue, penalty):
    energy = float(best_energy(floor, queue, penalty, RoundLeakage(FULL)))
    assert energy > floor
    pressure = -penalty * float(RoundLeakage(FULL).slope(energy))
    # the slope falls as the square of the energy
    assert pressure == pytest.approx(queue + energy - floor, rel=1e-9)


@pytest.mark.parametrize("order", [3, 2.5])
def test_a_round_minimises_the_paper_s_objective_in_x(order):
    scenario = replace(MNIST, order=order)
    top = math.log(reference.x_max(scenario))
    rng = np.random.default_rng(1)
    for _ in range(6):
        min_gain, penalty = 10 ** rng.uniform([-12, -5], [-9, 2])
        queue = rng.exponential()
        policy = policies.AdaScale(penalty, queue)
        state = policy.start(scenario, np.array(0.04))
        _, energy = policy.decide(state, scenario.floor(min_gain))

        def objective(log_x, min_gain=min_gain, queue=queue, penalty=penalty):
            """That of problem (30) in x_t, with sum_m rho of the noise multipliers."""
            x = math.exp(log_x)
            sigma = [
                reference.noise_multiplier(scenario, x, min_gain, m)
                for m in range(scenario.num_devices)
            ]
            leakage = float(accounting.rdp(scenario.sampling_rate, sigma, order).sum())
            extra = reference.constraint(scenario, x, min_gain)
            return penalty * leakage + queue * extra + extra**2 / 2

        options = {"method": "bounded", "options": {"xatol": 1e-10}}
        best = minimize_scalar(objective, bounds=(top - 40, top), **options)
        log_x = math.log(scenario.noise_scale / float(energy) / min_gain)
        # no x does better than the chosen one by more than the rounding of the objective
        assert objective(min(log_x, top)) <= best.fun * (1 + 1e-12)
        # an objective is flat at its minimum: its last digit moves x by about the square root of it
        assert log_x == pytest.approx(best.x, abs=1e-6)


def test_a_round_without_leakage_to_save_is_at_full_power():
    assert best_energy(1e5, 1.0, 1e-12, RoundLeakage(MNIST)) == 1e5
    problem = Problem(MNIST, [1e-13, 1e-9], 0.04)
    w = policies.AdaScale(1e-30).schedule(problem)
    # (V |F'|) / w is at most 1e-10 here
    np.testing.assert_allclose(w, problem.min_noise_energy, rtol=1e-9)


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


SECOND = replace(MIXED, order=2)  # few moments: quick also where nothing is compiled


@pytest.mark.parametrize("later", [[0.2, 0.2], [0.5, 0.5002]])
def test_with_two_rounds_the_programme_plans_for_the_mean_slope_of_the_second(later):
    """The first slope is the mean one of the floors that may follow, be they equal, or 0.04 % apart."""
    nu, first = 0.4, 0.3
    F = RoundLeakage(SECOND)

    def excess(y):
        return F.slope(first + y) - F.slope(np.add(later, 2 * nu - y)).mean()

    # two laws of one budget, which two tables are for
    laws = EmpiricalFloors([later, [0.3, 0.4]])
    problem = with_floors(SECOND, [[first, 1.0]] * 2, nu)
    w = policies.DynamicProgramme(law=laws).schedule(problem)
    spend = brentq(excess, 0, 2 * nu, xtol=1e-14)
    assert w[0, 0] - first == pytest.approx(spend, rel=2e-6)
    assert abs(w[1, 0] - w[0, 0]) > 1e-3


def test_a_price_beyond_floating_point_is_refused_by_the_budget_of_a_round():
    """|F'| falls as w^-2 or w^-3 and is 0 in float64 where w is 1e200."""
    programme = policies.DynamicProgramme(law=RayleighFloors(0.1))
    expected = r"^beyond floating point: the price of a budget of 1e\+200$"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=expected):
        programme.start(replace(SECOND, num_rounds=2), 1e200)


@given(gains, budgets, st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 8, 1.5, 2.5]))
def test_no_feasible_schedule_leaks_less_than_the_optimum(gain, budget, seed, order):
    problem = Problem(replace(MIXED, order=order), gain, budget)
    floor = problem.min_noise_energy
    total = problem.num_rounds * budget
    optimum = np.maximum(water_level(floor, budget), floor)
    share = np.random.default_rng(seed).dirichlet(np.ones(len(gain)))
    for near in (1.0, 1e-2):  # anywhere, and close to the optimum
        w = near * (floor + total * share) + (1 - near) * optimum
        # floors up to 1e5 budgets hide that much of the cost
        assert problem.cost(w) <= budget * (1 + 1e-6)
        # the leakage of what floors hide, and the rounding of a leakage
        assert problem.rdp(w) >= problem.rdp(optimum) * (1 - 1e-9)
