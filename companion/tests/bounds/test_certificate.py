"""Bounds at a finite horizon beside two rounds by quadrature, simulations, and what must fail."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion.bounds.certificate import Floors

F = RoundLeakage(
    replace(Scenario.mnist(), clip_norm=5.0)
)  # in units of a scale of 1/25
LAW = RayleighFloors(1.0)


def test_interpolated_leakage_is_the_integral_between_its_nodes():
    floors = Floors(F)
    for node in np.searchsorted(floors.edges, [0.1, 1.2, 6, 50]):
        left, right = floors.edges[node - 1 : node + 1]
        level = np.sqrt(left * right)
        part, _ = quad(lambda w: -F.slope(w) * LAW.cdf(w), level, right, epsrel=1e-13)
        exact = floors.leaked(right) + part
        assert floors.leaked(level) == pytest.approx(exact, rel=3e-12)
