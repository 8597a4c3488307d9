"""What the constant level stands for, against direct integration and simulation."""

import numpy as np
import pytest
from scipy import integrate, special

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion import bounds
from companion.bounds.causal import approach_constant

MNIST = Scenario.mnist()
F = RoundLeakage(MNIST)
LAW = RayleighFloors(0.033)


def curvature(w):
    step = 1e-4 * w
    return (F.slope(w + step) - F.slope(w - step)) / (2 * step)


@pytest.mark.parametrize("budget", [0.01, 0.04, 0.16, 3.0])
def test_the_value_of_a_level_is_what_plain_integration_gives(budget):
    value = bounds.level_value(F, LAW, budget)
    level = float(value.level)
    omega = float(LAW.scale)
    assert level * special.expn(2, omega / level) == pytest.approx(budget, rel=1e-10)
    assert value.wet == pytest.approx(np.exp(-omega / level), rel=1e-12)
    assert value.price == pytest.approx(-float(F.slope(level)), rel=1e-12)

    # u = omega / w is exponential
    sharp = {"epsabs": 0, "epsrel": 1e-9}
    square, _ = integrate.quad(
        lambda u: (level - omega / u) ** 2 * np.exp(-u), omega / level, 700, **sharp
    )
    beyond, _ = integrate.quad(
        lambda u: float(F(omega / u)) * np.exp(-u), 0, omega / level, **sharp
    )
    assert value.spread == pytest.approx(square - budget**2, rel=1e-7)
    assert value.leakage == pytest.approx(
        value.wet * float(F(level)) + beyond, rel=1e-7
    )
    expected = float(curvature(level)) * (square - budget**2) / (2 * float(value.wet))
    assert value.log_coefficient == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("budget", [0.01, 0.16])
def test_approach_constant_matches_nested_integration(budget):
    value = bounds.level_value(F, LAW, budget)
    level = float(value.level)
    omega = float(LAW.scale)
    price = float(value.price)

    def inner(x):
        return integrate.quad(
            lambda w: (float(F.slope(w)) + price) * np.exp(-omega / w),
            level,
            x,
            epsrel=1e-8,
        )[0]

    def outer(u):
        x = level * np.exp(u)
        return (
            x
            * float(curvature(x))
            * inner(x)
            / (x * special.expn(2, omega / x) - budget)
        )

    expected, _ = integrate.quad(outer, 1e-4, 20, epsrel=1e-6, limit=200)
    assert approach_constant(F, LAW, budget) == pytest.approx(expected, rel=1e-3)
