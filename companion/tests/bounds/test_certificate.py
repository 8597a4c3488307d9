"""Bounds at a finite horizon beside two rounds by quadrature, and their parts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from adascale import Problem, Scenario, policies
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion.bounds import certify_regret
from companion.bounds.certificate import Floors, hull

# in units of a scale of 1/25
F = RoundLeakage(replace(Scenario.mnist(), clip_norm=5.0))
LAW = RayleighFloors(1.0)


def test_interpolated_leakage_is_the_integral_between_its_nodes():
    floors = Floors(F)
    for node in np.searchsorted(floors.edges, [0.1, 1.2, 6, 50]):
        left, right = floors.edges[node - 1 : node + 1]
        level = np.sqrt(left * right)
        part, _ = quad(lambda w: -F.slope(w) * LAW.cdf(w), level, right, epsrel=1e-13)
        exact = floors.leaked(right) + part
        assert floors.leaked(level) == pytest.approx(exact, rel=3e-12)


def test_the_hull_is_convex_and_below_every_value_to_its_own_digits():
    b = np.linspace(0, 2500, 3000)
    noise = np.random.default_rng(0).standard_normal(b.size)
    values = np.exp(-b / 60) * (1 + 1e-4 * noise)  # down to 1e-18
    found = hull(values, b)
    assert (found <= values * (1 + 1e-14)).all()
    assert 1000 < (found == values).sum() < 2900
    slope = np.diff(found)
    assert (np.diff(slope) >= 1e-9 * slope[1:]).all()


def test_two_rounds_by_quadrature_lie_between_the_bounds():
    """In the units of the preset: what any policy and the one that runs leak in one round and in two."""
    scenario, nu = Scenario.mnist(), 0.05
    law = RayleighFloors(0.01)
    leakage = RoundLeakage(scenario)
    node, mass = np.polynomial.legendre.leggauss(200)
    share, mass = (1 + node) / 2, mass / 2
    floor = -0.01 / np.log(share)
    price, _ = quad(
        lambda w: -leakage.slope(w) * law.cdf(w), law.level(nu), np.inf, epsrel=1e-10
    )
    once = mass @ leakage(floor + nu) - price
    spent = 2 * nu * np.linspace(0, 1, 201)
    later = mass @ leakage(floor[:, None] + 2 * nu - spent)
    best = mass @ (leakage(floor[:, None] + spent) + later).min(axis=1) - 2 * price
    pairs = np.stack(np.meshgrid(floor, floor, indexing="ij"), axis=-1)
    problem = Problem(scenario, scenario.floor(pairs), nu)
    resolve = policies.ReSolve(law=law, budget_mode="hard")
    leaked = leakage(resolve.schedule(problem)).sum(axis=-1)
    run = mass @ leaked @ mass - 2 * price
    found = certify_regret(scenario, law, nu, 2)
    assert (found.optimum <= [once, best]).all()
    assert ([once, run] <= found.policy).all()
    np.testing.assert_allclose(found.optimum, [once, best], rtol=0.02)
    np.testing.assert_allclose(found.policy, [once, run], rtol=0.02)
