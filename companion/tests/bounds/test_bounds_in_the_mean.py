"""The bounds on the mean: independent floors, correlated ones, and two futures that no policy can tell apart."""

import numpy as np
import pytest
from scipy import integrate

from companion import bounds


def saved(scale, level, power):
    """The integral of (level - x)^power exp(-scale / x) up to a level."""
    density = lambda x: (level - x) ** power * np.exp(-scale / x)  # noqa: E731
    return integrate.quad(density, 0, level, epsabs=0, epsrel=1e-10)[0]


@pytest.mark.parametrize(("scale", "budget"), [(0.02, 0.04), (1e-4, 0.04), (5, 0.001)])
def test_stationary_level_and_square_against_quadrature(scale, budget):
    level = float(bounds.stationary_level(scale, budget))
    assert saved(scale, level, 0) == pytest.approx(budget, rel=1e-9)
    square = bounds.stationary_square(scale, level)
    assert square == pytest.approx(2 * saved(scale, level, 1), rel=1e-9)
    over = 2 * saved(scale, level - budget, 1) if level > budget else 0
    bound = bounds.stationary_regret_bound(scale, budget, 0.7)
    # the level less the budget loses what they share
    assert bound == pytest.approx((over + budget**2) / 1.4, rel=1e-6)
    assert bounds.stationary_spread(scale, budget) <= budget * level
