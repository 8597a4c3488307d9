"""Theorems on policies that learn the law, both sides, each with a control that must fail."""

import numpy as np
import pytest
from numba import njit
from scipy import integrate, stats

from adascale.policies import water_level

from .unit_case import UNIT, mean_surplus, unit_cost, unit_level, wandering, within


def test_level_of_the_past_costs_A_over_t():
    value, nu = UNIT.value, UNIT.nu
    for t in (50, 500):
        past = UNIT.law.draw(np.random.default_rng(t), 5000, t)
        level = water_level(past, nu)
        assert within(t * mean_surplus(level), value.log_coefficient)
        # the mean spending of the next round, less a term of mean zero
        over = unit_cost(level) - nu - (nu - np.maximum(value.level - past, 0).mean(axis=1))
        assert within(t * over, nu * (1 - value.wet) / value.wet)
        assert not within(t * over, 0.0)


def test_one_floor_is_too_few_to_learn_from_and_two_are_enough():
    """The mean of the lowest floor, cut off ever later: of one floor it grows without end, of two it does not."""

    def cut(number, most):
        def above(u):  # that all floors are above e^u
            return np.exp(u) * (-np.expm1(-np.exp(-u))) ** number

        return integrate.quad(above, -40, np.log(most), limit=200)[0]

    assert cut(1, 1e8) - cut(1, 1e4) == pytest.approx(np.log(1e4), rel=1e-3)
    assert cut(2, 1e8) - cut(2, 1e4) < 1e-3


def test_likeliest_omega_costs_its_A_over_t():
    value, nu = UNIT.value, UNIT.nu
    best = value.log_coefficient * value.wet**2 * (value.level - nu / value.wet) ** 2 / value.spread
    # the correlation of what the level spends with 1 / floor, which is exponential
    moment = integrate.quad(lambda e: max(value.level - 1 / e, 0) * e * np.exp(-e), 1 / value.level, 60)[0]
    correlation = (moment - nu) / np.sqrt(value.spread)
    assert best == pytest.approx(value.log_coefficient * correlation**2, rel=1e-6)
    assert best < 0.8 * value.log_coefficient
    for t, tolerance in ((300, 0.02), (3000, 0.002)):
        total = stats.gamma(t).ppf((np.arange(20_000) + 0.5) / 20_000)
        omega = t / total
        assert t * mean_surplus(omega * unit_level(nu / omega)).mean() == pytest.approx(best, rel=tolerance)


def van_trees(width=0.45, start=0.8, points=301):
    """Bayes risks of the level, by quadrature, for several t; van Trees' bounds; and what they are without J."""
    omega = np.linspace(start, start + width, points)
    level = omega * unit_level(0.5 / omega)
    slope = level / omega - 0.5 / omega / np.exp(-omega / level)
    assert np.gradient(level, omega)[1:-1] == pytest.approx(slope[1:-1], rel=1e-5)
    step, prior = omega[1] - omega[0], np.cos(np.pi * (omega - omega.mean()) / width) ** 2 * 2 / width
    information, top = (prior / omega**2).sum() * step, ((prior * slope).sum() * step) ** 2
    found = {}
    for t in (3, 30, 300, 1000):
        total = np.linspace(stats.gamma.ppf(1e-9, t) / omega[-1], stats.gamma.ppf(1 - 1e-9, t) / omega[0], 2000)
        joint = np.exp(stats.gamma.logpdf(total * omega[:, None], t)) * (omega * prior)[:, None]
        guess = (joint * level[:, None]).sum(axis=0) / np.maximum(joint.sum(axis=0), 1e-300)
        risk = ((guess - level[:, None]) ** 2 * joint).sum() * step * (total[1] - total[0])
        found[t] = risk, top / (t * information + (2 * np.pi / width) ** 2), top / (t * information)
    return found


def test_no_estimator_beats_van_trees():
    found = van_trees()
    for risk, bound, _ in found.values():
        assert risk >= bound
    risk, bound, _ = found[1000]
    assert risk <= 1.05 * bound
    risk, _, without = found[3]
    assert risk < without / 10  # the prior knows something: leave out what, and the bound is wrong


@njit
def learned_and_hard(floor, nu):
    """The policy of the theorem: levels, shape (lanes, T), and what is left before each round."""
    levels, left = np.zeros(floor.shape), np.zeros(floor.shape)
    for lane in range(floor.shape[0]):
        rounds = floor.shape[1]
        budget, level, lowest = rounds * nu, 0.0, np.inf
        for t in range(rounds):
            left[lane, t] = budget
            rate = budget / (rounds - t)
            if t < 2:
                level = floor[lane, t] + nu
            elif budget > 0:
                level = max(level, lowest) + t * rate  # Newton's method from the right
                while True:
                    over, wet = -t * rate, 0
                    for i in range(t):
                        if floor[lane, i] < level:
                            over += level - floor[lane, i]
                            wet += 1
                    if over <= 0 or level - over / wet >= level:
                        break
                    level -= over / wet
            levels[lane, t] = level
            lowest = min(lowest, floor[lane, t])
            budget -= min(max(level - floor[lane, t], 0.0), budget)
    return levels, left


def test_learning_under_a_hard_budget_costs_A_twice():
    value, rounds, nu = UNIT.value, 1200, UNIT.nu
    A, t = value.log_coefficient, np.arange(rounds)
    floor = UNIT.law.draw(np.random.default_rng(8), 300, rounds)
    levels, left = learned_and_hard(floor, nu)
    spend = np.minimum(np.maximum(levels - floor, 0), left)
    assert (spend.sum(axis=1) <= rounds * nu * (1 + 1e-12)).all()
    for start, end in ((30, 200), (200, 1000)):
        here = t[start:end]
        learning = mean_surplus(levels[:, here], left[:, here] / (rounds - here)).sum(axis=1) / np.log(end / start)
        assert within(learning, A)
        n = np.arange(end, start, -1)
        here = rounds - n
        after = (left[:, here] - spend[:, here]) / (n - 1)
        planning = ((n - 1) * wandering(left[:, here] / n, after)).sum(axis=1) / np.log(end / start)
        assert planning.mean() == pytest.approx(A, rel=0.04)
