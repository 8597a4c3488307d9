"""Bounds at a finite horizon beside two rounds by quadrature, simulations, and what must fail."""

import numpy as np
import pytest
from scipy.integrate import quad

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion.bounds.certificate import Floors

SCENARIO = Scenario.mnist()
F = RoundLeakage(SCENARIO)
LAW = RayleighFloors(0.0327)


def test_interpolated_leakage_is_the_integral_between_its_nodes():
    floors = Floors(F, LAW, float(LAW.scale))
    for node in np.searchsorted(floors.edges, [0.003, 0.0388, 0.2, 1.7]):
        left, right = floors.edges[node - 1 : node + 1]
        level = np.sqrt(left * right)
        part, _ = quad(lambda w: -F.slope(w) * LAW.cdf(w), level, right, epsrel=1e-13)
        exact = floors.leaked(right) + part
        assert floors.leaked(level) == pytest.approx(exact, rel=3e-12)
