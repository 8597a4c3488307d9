"""The compiled log-moment: its identities, and where it leaves floating point.

Its digits and those of its slope are in test_extremes.py, its curvature is in tests/test_problem.py.
"""

import numpy as np
import pytest

from adascale import accounting
from adascale.accounting import kernels


@pytest.mark.parametrize("alpha", [1.0001, 1.01, 1.1, 1.5, 1.9, 2.5, 3, 10.9, 63, 63.5])
def test_without_sampling_leakage_is_the_gaussian_closed_form(alpha):
    sigma = np.geomspace(0.05, 1e8, 23)
    # alpha / (2 sigma^2): two roundings in the closed form, three in the code
    np.testing.assert_allclose(
        accounting.rdp(1.0, sigma, alpha), alpha / (2 * sigma**2), rtol=1e-14
    )
    np.testing.assert_allclose(
        accounting.rdp_derivative(1.0, sigma, alpha), -alpha / sigma**3, rtol=1e-14
    )


def test_zero_energy_has_no_leakage_though_every_weight_underflows():
    terms = kernels.moment_terms(1e-200, 3)  # q^3 is below the smallest number
    assert terms.weight[0, -1] == 0
    assert kernels.log_moment(0.0, terms, 0) == 0


@pytest.mark.parametrize("alpha", [3, 12, 512, 2.5, 512.5, 1e4])
def test_slopes_at_zero_and_infinite_energy_are_those_of_one_term(alpha):
    terms = kernels.moment_terms(0.01, alpha)
    # A = alpha (alpha - 1) q^2 s / 2 to first order; 1e-9: the integral's rounding where it is taken
    pairs = alpha * (alpha - 1) / 2
    assert kernels.log_moment_slopes(0.0, terms, 0)[0] == pytest.approx(
        pairs * 0.01**2, rel=1e-9
    )
    if terms.weight.size:
        assert kernels.log_moment_slopes(1.7e308, terms, 0) == (pairs, 0.0)
