"""What chapters 4 and 5 prove: convexity at every real order, one penalty for a budget; and what fails without them."""

import contextlib
import warnings
from dataclasses import replace

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb

from adascale import accounting, policies, tuning
from adascale.policies import adascale_energies
from adascale.problem import RoundLeakage

from . import reference
from .problems import CIFAR, FULL, MIXED, MNIST, make, powers

noises, orders = powers(-1, 3), st.floats(1.01, 20)


def by_the_lemma(q, s, a):
    """ln E[Y^a] but for a constant, A' and A'' of (eq:leakage-curvature), by the trapezoid rule in 60 digits.

    The exponent may be any real one.
    """
    with mp.workdps(reference.DIGITS):
        q, s, a = mp.mpf(q), mp.mpf(s), mp.mpf(a)
        reach = 20 * (16 + int(abs(a) * mp.sqrt(s)))
        p, mass = [], []
        for i in range(-reach, reach + 1):
            z = mp.mpf(i) / 20
            present = q * mp.exp(mp.sqrt(s) * z - s / 2)
            p.append(present / (1 - q + present))
            mass.append((1 - q + present) ** a * mp.exp(-z * z / 2))
        total = mp.fsum(mass)

        def mean(j, k):
            return mp.fsum(m * each**j * (1 - each) ** k for m, each in zip(mass, p, strict=True)) / total

        pairs = a * (a - 1) / 2
        variance = mean(4, 0) - mean(2, 0) ** 2
        return mp.log(total), pairs * mean(2, 0), pairs * (mean(2, 2) + 2 * (a - 1) * mean(3, 1) + pairs * variance)


@pytest.mark.parametrize(
    ("q", "s", "a"), [(0.01, 3, 1.1), (0.5, 0.05, 2.5), (0.95, 3, 7.3), (0.3, 1, 3), (0.3, 20, 0.5), (0.1, 5, -2.5)]
)
def test_derivatives_of_the_lemma_are_those_of_the_log_moment(q, s, a):
    with mp.workdps(reference.DIGITS):
        step = mp.mpf(s) * mp.mpf("1e-12")
        (below, *_), (here, slope, curvature), (above, *_) = (by_the_lemma(q, s + i * step, a) for i in (-1, 0, 1))
        # the step squared is 1e-24; 60 digits leave 12 of a second difference
        assert abs((above - below) / (2 * step) / slope - 1) < 1e-18
        assert abs((above - 2 * here + below) / step**2 / curvature - 1) < 1e-18


@pytest.mark.parametrize(("q", "s", "a"), [(0.3, 20, 0.5), (0.9, 0.01, 0.5), (0.3, 40, 0.9), (0.1, 30, -2.5)])
def test_below_order_one_and_reversed_the_leakage_is_not_convex(q, s, a):
    """Order a, or for negative a the order 1 - a from the Gaussian to the mixture."""
    slope, curvature = (float(each) / (a - 1 if a > 0 else -a) for each in by_the_lemma(q, s, a)[1:])
    assert slope > 0 > curvature


def slope_in_s(q, s, order):
    """d rho / d s of the package."""
    return float(-(s**-1.5) / 2 * accounting.rdp_derivative(q, s**-0.5, order))


@pytest.mark.parametrize("order", [1.1, 2, 2.5, 3, 7.3])
def test_both_limits_of_the_slope_are_reached(order):
    assert slope_in_s(0.1, 1e-8, order) == pytest.approx(order / 2 * 0.01, rel=1e-6)
    # the mass that is not yet there is about (1/q) exp(-(alpha - 1) s / 2)
    assert slope_in_s(0.1, 400 / (order - 1), order) == pytest.approx(order / 2, rel=1e-6)


@given(noises, noises, orders, st.sampled_from([MNIST, MIXED, CIFAR, FULL]))
def test_leakage_is_strictly_convex_and_w_squared_times_its_slope_never_rises(one, other, order, scenario):
    leakage = RoundLeakage(scenario, order)
    v, w = sorted((one / 10, other / 10))
    steep, flat = -leakage.slope(v), -leakage.slope(w)
    assert w**2 * flat <= v**2 * steep * (1 + 1e-10)
    units = order / 2 * leakage.unit * leakage.count
    assert np.sum(units * leakage.rate**2) * (1 - 1e-10) <= w**2 * flat
    assert v**2 * steep <= np.sum(units) * (1 + 1e-10)
    if w > v * (1 + 1e-6):
        assert steep > flat


def solve_in_x(problem, unit):
    """The paper's problem with x_t = unit_t v_t: the leakage that Clarabel reaches, infinite where it gives up."""
    scenario, leakage = problem.scenario, RoundLeakage(problem.scenario)
    T, a = problem.num_rounds, scenario.noise_scale / problem.min_gain  # w_t = a_t / x_t
    alpha, k = int(leakage.order), np.arange(int(leakage.order) + 1)
    rate = float(scenario.sampling_rate)
    log_p = np.log(comb(alpha, k)) + k * np.log(rate) + (alpha - k) * np.log1p(-rate)
    v = cp.Variable(T)
    exponent = np.outer(leakage.unit[0] * unit / a, k * (k - 1) / 2)  # 1 / sigma^2 = u x / a
    terms = log_p[None, :] + cp.multiply(exponent, cp.reshape(v, (T, 1), order="C"))
    spent = ((a / unit) @ cp.inv_pos(v) - problem.min_noise_energy.sum()) / (float(problem.budget) * T)
    program = cp.Problem(cp.Minimize(cp.sum(cp.log_sum_exp(terms, axis=1))), [spent <= 1, v <= scenario.x_max / unit])
    with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
        warnings.simplefilter("ignore")  # what CVXPY warns of is checked below
        program.solve(solver=cp.CLARABEL)
    if v.value is None or not (v.value > 0).all():
        return np.inf
    energy = np.maximum(a / (unit * v.value), problem.min_noise_energy)
    return leakage(energy).sum() if (energy - problem.min_noise_energy).mean() < 1.001 * problem.budget else np.inf


def test_in_watts_the_solver_finds_no_usable_schedule_and_in_units_of_equal_alloc_the_optimum():
    problem = make(MNIST, 0.04)
    best = RoundLeakage(MNIST)(problem.noise_energy(policies.Optimal().schedule(problem))).sum()
    sensible = policies.EqualAlloc().schedule(problem) / problem.min_gain
    assert solve_in_x(problem, sensible) == pytest.approx(best, rel=1e-6)
    assert solve_in_x(problem, np.ones(problem.num_rounds)) > 1.1 * best


floors = st.lists(powers(-3, 1), min_size=1, max_size=20).map(np.array)


@given(floors, powers(-3, 1), powers(-4, 4), powers(-2, 2), st.sampled_from([2, 3, 1.5, 7.3]))
def test_a_larger_penalty_costs_more_and_leaks_less(floor, budget, penalty, rise, order):
    leakage = RoundLeakage(MNIST, order)
    both = penalty * np.array([1, 1 + rise])
    energy, _ = adascale_energies(floor, budget, both, leakage)
    spent, total = energy - floor, leakage(energy).sum(axis=-1)
    rounding = 1e-13 * energy.sum()
    more = spent[1] - spent[0]
    assert (np.cumsum(more) >= -rounding).all()  # every partial sum
    assert total[0] - total[1] >= (more**2).sum() / (2 * (both[1] - both[0])) - 1e-12 * total[0]
    if spent[0].sum() > 1e3 * rounding:
        assert more.sum() > 0
        assert total[0] > total[1] - 1e-12 * total[0]


def test_a_single_round_may_spend_less_at_a_larger_penalty():
    """So the theorem is not one about rounds."""
    problem = make(MNIST, 0.04)
    energy, _ = adascale_energies(problem.min_noise_energy, 0.04, np.array([1.0, 1.2]), RoundLeakage(MNIST))
    more = np.diff(energy, axis=0)
    assert more.min() < -1e-3 * more.max()
    assert more.sum() > 0


def test_without_convexity_a_larger_penalty_can_cost_less_and_leak_more():
    grid, width = np.linspace(0, 2, 200_001), 1e-3

    def leakage(w):
        """Two steps down, at 1 and at 10: decreasing and not convex."""
        return sum(height / (1 + np.exp(np.clip((w - at) / width, -700, 700))) for height, at in ((5.6, 1), (1.0, 10)))

    cost, leaked = [], []
    for V in (0.12, 0.14):
        spent, queue = [], 0.0
        for floor in (9.5, 0.0):
            spent.append(grid[np.argmin(V * leakage(floor + grid) + queue * grid + grid**2 / 2)])
            queue = max(queue + spent[-1] - 1e-3, 0.0)
        cost.append(sum(spent) / 2)
        leaked.append(leakage(np.array([9.5, 0.0]) + spent).sum())
    assert cost[1] < 0.6 * cost[0]
    assert leaked[1] > 3 * leaked[0]


@pytest.mark.parametrize("order", [3, 1.5])
def test_the_cost_runs_from_nothing_to_infinity(order):
    problem = make(replace(MNIST, order=order), 0.04, rounds=50)
    slope = -RoundLeakage(problem.scenario).slope(problem.min_noise_energy)
    tiny = 1e-6 * 0.04 / slope.max()  # the queue stays empty, and a round spends V |F'| at its floor
    cost = float(problem.cost(policies.AdaScale(tiny).schedule(problem)))
    assert cost == pytest.approx(tiny * slope.mean(), rel=1e-2)  # V F'' moves it, and the rounding of the floors
    assert problem.cost(policies.AdaScale(1e12).schedule(problem)) > 1e3 * 0.04


@pytest.mark.parametrize(("scenario", "nus"), [(MNIST, [0.01, 0.16]), (CIFAR, [0.01, 0.32])], ids=["mnist", "cifar10"])
def test_the_penalty_found_is_within_a_factor_four_of_the_guess(scenario, nus):
    problem = make(scenario, np.array(nus)[:, None], np.arange(5))
    ratio = tuning.match_budget(policies.AdaScale, problem) / policies.AdaScale.guess(problem)
    assert 1 / 4 < ratio.min() < ratio.max() < 4
