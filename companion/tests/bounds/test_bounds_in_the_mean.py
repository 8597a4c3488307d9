"""The bounds on the mean: independent floors, correlated ones, and two futures that no policy can tell apart."""

import math

import mpmath as mp
import numpy as np
import pytest

from adascale import Scenario, policies
from adascale.problem import RoundLeakage
from companion import bounds
from tests import reference

from .bounds_cases import with_floors

MNIST = Scenario.mnist()


@pytest.mark.parametrize(
    ("scale", "budget"), [(0.02, 0.04), (1e-4, 0.04), (5.0, 0.001), (30.0, 1e-6)]
)
def test_stationary_level_and_square_against_quadrature(scale, budget):
    level = bounds.stationary_level(scale, budget)
    with mp.workdps(30):
        w = mp.mpf(scale)
        nu = mp.mpf(budget)
        top = mp.mpf(float(level))
        mean = mp.quad(lambda x: mp.exp(-w / x), [0, top / 2, top])
        square = mp.quad(lambda x: 2 * (top - x) * mp.exp(-w / x), [0, top / 2, top])
        # d mean / d ln level is at least mean, so an error of 1e-12 in the mean is at most that in the level
        assert float(mean / nu) == pytest.approx(1, rel=1e-9 * max(1, scale / level))
        over = top - nu
        above = (
            mp.quad(lambda x: 2 * (over - x) * mp.exp(-w / x), [0, over / 2, over])
            if over > 0
            else mp.mpf(0)
        )
        bound = float((above + nu**2) / (2 * mp.mpf("0.7")))
    assert bounds.stationary_square(scale, level) == pytest.approx(
        float(square), rel=1e-9 * max(1, scale / level)
    )
    # the level less the budget loses what they share
    assert bounds.stationary_regret_bound(scale, budget, 0.7) == pytest.approx(
        bound, rel=1e-6
    )
    assert bounds.stationary_spread(scale, budget) <= budget * level


def rayleigh_floors(scale, lanes, rounds, seed):
    return scale / np.random.default_rng(seed).exponential(size=(lanes, rounds))


def test_expected_regret_under_rayleigh_fading_is_below_its_bound():
    scale, nu, lanes = 0.03, 0.04, 4000
    problem = with_floors(
        MNIST, rayleigh_floors(scale, lanes, 25, 1), np.full(lanes, nu)
    )
    for V in (0.05, 0.5, 5.0, 50.0):
        regret = bounds.regret_bound(
            problem, policies.AdaScale(V).schedule(problem), V
        ).left
        error = regret.std(ddof=1) / math.sqrt(lanes)
        assert regret.mean() - 3 * error < bounds.stationary_regret_bound(scale, nu, V)


def test_queue_bound_under_rayleigh_fading_against_quadrature():
    scale, nu, V = 0.03, 0.04, 2.0
    slope = reference.exact_slope(MNIST, 3)
    with mp.workdps(25):
        top = mp.mpf(float(bounds.stationary_level(scale, nu)))

        def bound(level):
            saved = mp.quad(lambda x: mp.exp(-scale / x), [level, top])
            leaked = mp.quad(lambda x: -slope(x) * mp.exp(-scale / x), [level, top])
            over = level - nu
            square = (
                mp.quad(lambda x: 2 * (over - x) * mp.exp(-scale / x), [0, over])
                if over > 0
                else mp.mpf(0)
            )
            return (V * leaked + square / 2 + mp.mpf(nu) ** 2 / 2) / saved

        least = min(float(bound(top * share)) for share in np.linspace(0.5, 0.99, 25))
    # both take the least over some levels, and the function is flat there
    got = bounds.stationary_queue_bound(RoundLeakage(MNIST), scale, nu, V)
    assert got == pytest.approx(least, rel=2e-3)
