"""What the appendix on exact privacy proves, each beside something that is not covered and fails."""

import itertools

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale import Problem, Scenario, accounting, channel, policies
from adascale.policies import water_level
from companion.bounds.convexity import delta_slopes, two_round_delta


def hinges(w, taus):
    return np.maximum(taus[:, None] - w, 0).sum(axis=1)


def test_the_water_level_is_majorised_by_every_other_feasible_schedule():
    rng = np.random.default_rng(2)
    for _ in range(60):
        floor, nu = rng.exponential(size=7), rng.exponential()
        best = np.maximum(water_level(floor, nu), floor)
        w = floor + 7 * nu * rng.dirichlet(np.full(7, 0.5))
        taus = np.concatenate([w, best])
        assert (hinges(w, taus) >= hinges(best, taus) - 1e-12).all()
    best = np.maximum(water_level(floor := np.array([0.1, 4.0]), 0.5), floor)
    w = np.full(
        2, best.mean()
    )  # feasible but for the second floor: it can be more even
    taus = np.concatenate([w, best])
    assert (hinges(w, taus) <= hinges(best, taus) + 1e-12).all()
    assert (hinges(w, taus) < hinges(best, taus) - 1).any()


def allocated(w, chance, order):
    """E[Y^order] for a sample that is in round t alone with chance[t], at a whole order: a sum over who is drawn."""
    chance = np.append(chance, 1 - sum(chance))
    s = np.append(1 / np.array(w), 0.0)
    total = 0.0
    for drawn in itertools.product(range(chance.size), repeat=order):
        k = np.bincount(drawn, minlength=s.size)
        total += np.prod(chance[list(drawn)]) * np.exp((k * (k - 1) * s / 2).sum())
    return total


def test_the_water_level_is_best_for_random_allocation_and_not_if_rounds_differ():
    floor, nu = np.array([0.4, 0.9, 2.0]), 0.4
    best = np.maximum(water_level(floor, nu), floor)
    others = floor + 3 * nu * np.random.default_rng(3).dirichlet(np.ones(3), size=30)
    for order in (2, 3, 4):
        assert min(
            allocated(w, (1 / 3, 1 / 3, 1 / 3), order) for w in others
        ) > allocated(best, (1 / 3,) * 3, order)
    assert min(allocated(w, (0, 0, 0.5), 3) for w in others) < allocated(
        best, (0, 0, 0.5), 3
    )


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("q", [0.01, 0.3])
def test_exact_delta_is_convex_in_one_noise_above_the_edge(q, removed):
    for s, epsilon in itertools.product((0.3, 3.0, 8.0, 11.9), (0.0, 0.005, 0.2)):
        w, step = 1 / s, 1e-3 / s
        low, here, high = (
            two_round_delta(q, (x**0.5, 0.8), epsilon, removed)
            for x in (w - step, w, w + step)
        )
        assert low >= here >= high
        assert low - 2 * here + high >= -1e-15  # rounding of a delta of at most 0.5


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_edge_is_sharp_for_one_round(epsilon):
    q = 0.1
    edge = 6 + 2 * np.sqrt(9 + np.log((np.exp(epsilon) - 1 + q) / q) ** 2)
    for s, sign in ((0.98 * edge, 1), (1.02 * edge, -1)):
        w = np.array([1 - 2e-3, 1, 1 + 2e-3]) / s
        low, here, high = (two_round_delta(q, (x**0.5, 1e4), epsilon) for x in w)
        assert sign * (low - 2 * here + high) > 0


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("epsilon", [0.02, 0.5])
def test_the_slope_of_delta_is_the_posterior_at_the_threshold(epsilon, removed):
    q, s1, s2 = 0.3, 1.7, 0.6
    loss = -epsilon if removed else epsilon
    z = np.linspace(-10, 10, 20001)
    other = 1 - q + q * np.exp(s2**0.5 * z - s2 / 2)
    x = (
        np.exp(loss) / other - 1 + q
    ) / q  # the ratio of the first round at which the loss is as asked
    x, other, z = x[x > 0], other[x > 0], z[x > 0]
    density = np.exp(-((np.log(x) + s1 / 2) ** 2) / (2 * s1)) / (
        x * (2 * np.pi * s1) ** 0.5
    )
    density *= (
        (1 - q + q * x) / q * np.exp(-z * z / 2) / (2 * np.pi) ** 0.5
    )  # of L and z together, under the null
    p = q * x / (1 - q + q * x)
    slope = (
        0.5
        * (density * p**2).sum()
        * (z[1] - z[0])
        * (1 if removed else np.exp(epsilon))
    )

    def at(s):
        return two_round_delta(q, (s**-0.5, s2**-0.5), epsilon, removed)

    step = 1e-3
    difference = (at(s1 + step) - at(s1 - step)) / (2 * step)
    assert np.isclose(difference, slope, rtol=1e-6, atol=0)  # it errs by step^2
    assert not np.isclose(
        (density * p).sum(), (density * p**2).sum(), rtol=0.1, atol=0
    )  # no mean square


def epsilon_of(q, sigma, delta):
    return brentq(lambda e: two_round_delta(q, sigma, e) - delta, 0, 300, xtol=1e-12)


def test_unequal_noise_can_be_better_where_delta_exceeds_q():
    even, uneven = (
        epsilon_of(0.08, (0.2 * a**0.5, 0.2 * b**0.5), 0.1)
        for a, b in ((1, 1), (1.6, 0.4))
    )
    assert np.allclose(
        (even, uneven), (7.112408, 6.636382), atol=1e-6
    )  # a study has 7.112 and 6.636
    for w, value in (((1, 1), even), ((1.6, 0.4), uneven)):
        bracket = accounting.exact_epsilon(0.08, 0.2 * np.sqrt(w), 0.1)
        assert bracket.lower <= value <= bracket.upper
    even, uneven = (
        epsilon_of(0.08, (0.2 * a**0.5, 0.2 * b**0.5), 0.07)
        for a, b in ((1, 1), (1.6, 0.4))
    )
    assert even < uneven  # below q


def test_equal_noise_can_be_a_saddle_although_each_noise_is_above_the_edge():
    def at(s, a, b):
        return two_round_delta(0.05, ((a / s) ** 0.5, (b / s) ** 0.5), 1e-3)

    x = 8e-3
    for s, saddle in ((11.9, True), (9.0, False)):
        along = at(s, 1 + x, 1) + at(s, 1 - x, 1) - 2 * at(s, 1, 1)
        across = at(s, 1 + x, 1 - x) - at(s, 1, 1)
        assert s / (1 - x) < 12
        assert along > 0
        assert (across < 0) == saddle


@pytest.mark.parametrize("q", [1e-3, 1e-2])
def test_delta_of_two_rounds_is_the_sum_of_theirs_up_to_q_squared(q):
    epsilon, silent = 0.7, 1e4
    b = 1 + 1 / (np.exp(epsilon / 2) - 1)
    for sigma in ((0.2, 0.3), (0.4, 1.0), (2.0, 3.0)):
        alone = [two_round_delta(q, (own, silent), epsilon) for own in sigma]
        error = abs(two_round_delta(q, sigma, epsilon) - sum(alone))
        assert error <= (8 * b + 6 * b**2) * q**2


def test_the_optimum_is_a_strict_local_minimum_of_exact_delta_in_the_regime_of_the_paper():
    scenario = Scenario.cifar10()
    min_gain = scenario.min_gain(
        channel.draw(scenario.num_devices, scenario.num_rounds, seed=3).gain
    )
    problem = Problem(scenario, min_gain, 0.08)
    q = float(scenario.sampling_rate)

    def conditions(schedule):
        sigma = problem.noise_multiplier(schedule)[0]
        slopes = delta_slopes(
            q, sigma, accounting.exact_epsilon(q, sigma, 1e-5).estimate
        )
        assert abs(slopes.delta / 1e-5 - 1) < 1e-4
        free = schedule > problem.min_noise_energy * (1 + 1e-9)
        steep = -slopes.slope[free]
        flat = (
            np.ptp(steep) < 1e-9 * steep.max()
            and (-slopes.slope[~free] < steep.min()).all()
        )
        return bool(flat), slopes.mixed[free].max() < slopes.curvature[free].min()

    assert conditions(policies.Optimal().schedule(problem)) == (True, True)
    assert not conditions(policies.EqualAlloc().schedule(problem))[0]
