"""Bounds at a finite horizon beside two rounds by quadrature, simulations, and what must fail."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
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
