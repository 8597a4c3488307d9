"""Bounds at a finite horizon beside two rounds by quadrature, simulations, and what must fail."""

import numpy as np
import pytest
from scipy.integrate import quad

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion import bounds
from companion.bounds.certificate import Floors

SCENARIO = Scenario.mnist()
F = RoundLeakage(SCENARIO)
LAW = RayleighFloors(0.0327)


def floors_and_weights():
    """Floors and their probabilities, by Gauss's rule in their logarithm."""
    node, mass = np.polynomial.legendre.leggauss(6)
    edges = np.linspace(np.log(0.03), np.log(1e5), 101)
    half = np.diff(edges)[:, None] / 2
    w = np.exp(edges[:-1, None] + half * (1 + node)).ravel()
    weight = (half * mass).ravel() * np.exp(-1 / w) / w
    assert weight.sum() == pytest.approx(1, abs=2e-5)
    return w * float(LAW.scale), weight / weight.sum()


def test_interpolated_leakage_is_the_integral_between_its_nodes():
    floors = Floors(F, LAW, float(LAW.scale))
    for node in np.searchsorted(floors.edges, [0.003, 0.0388, 0.2, 1.7]):
        left, right = floors.edges[node - 1 : node + 1]
        level = np.sqrt(left * right)
        part, _ = quad(lambda w: -F.slope(w) * LAW.cdf(w), level, right, epsrel=1e-13)
        exact = floors.leaked(right) + part
        assert floors.leaked(level) == pytest.approx(exact, rel=3e-12)


def test_two_rounds_lie_between_their_bounds():
    nu = 0.04
    certified = bounds.certify_regret(SCENARIO, LAW, nu, 2)
    steady = 2 * float(bounds.level_value(F, LAW, nu).leakage)
    W, weight = floors_and_weights()
    remaining = np.linspace(0, 2 * nu, 300)
    last = weight @ F(W[:, None] + remaining)

    def over_two(spend):
        # the chord lies above, by very little
        return F(W[:, None] + spend) + np.interp(2 * nu - spend, remaining, last)

    optimum = weight @ over_two(np.linspace(0, 2 * nu, 1_201)).min(axis=1) - steady
    low = np.full(W.size, 1e-6)
    high = W + 2 * nu
    for _ in range(50):  # the level of two rounds, by halving
        level = (low + high) / 2
        above = (
            np.maximum(level - W, 0) + (1 + 2 * np.log(2)) * LAW.mean_cost(level)
            > 2 * nu
        )
        low = np.where(above, low, level)
        high = np.where(above, level, high)
    policy = weight @ over_two(np.maximum(level - W, 0)[:, None]).ravel() - steady
    # what the polygons of the grid lose
    assert certified.optimum[1] <= optimum + 1e-6 * steady
    assert certified.optimum[1] == pytest.approx(optimum, abs=1.5e-2 * steady)
    assert certified.policy[1] >= policy - 1e-6 * steady
    assert certified.policy[1] == pytest.approx(policy, abs=1.5e-2 * steady)
    assert certified.optimum[1] < certified.policy[1]
