"""The curvature of a round's leakage in its noise energy, which the searches step by."""

import numpy as np
import pytest

from adascale.problem import RoundLeakage, few_leakage_slopes, leakage_slopes

from .problems import CIFAR, MIXED, MNIST


@pytest.mark.parametrize("scenario", [MNIST, CIFAR, MIXED], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("slopes", [few_leakage_slopes, leakage_slopes], ids=["few", "any"])
def test_the_curvature_is_the_difference_of_slopes(scenario, slopes):
    leakage = RoundLeakage(scenario)
    for w in np.geomspace(1e-2, 1e2, 9) * leakage.unit.max():
        step = 1e-4 * w
        before, (slope, curvature), after = (slopes(each, leakage.terms) for each in (w - step, w, w + step))
        # the difference leaves 1e-8; from s = 100 on a curvature is that of 1/w^2 alone
        assert curvature == pytest.approx((after[0] - before[0]) / (2 * step), rel=1e-5), w
        assert slope == pytest.approx(float(leakage.slope(w)), rel=1e-12)
