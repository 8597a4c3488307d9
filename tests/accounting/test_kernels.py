"""The compiled log-moment against 60-digit arithmetic, its identities, and where it leaves floating point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import kernels

from . import exact
from .exact import mp

rates = st.floats(-6, 0).map(lambda x: min(10.0**x, 1.0))


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


def exact_slopes(q, s, alpha):
    """A' and A'' in 60 digits, by central differences of the integral."""
    with mp.workdps(60):
        s = mp.mpf(s)
        h = max(s, mp.mpf("1e-3")) * mp.mpf(10) ** -8
        left, middle, right = (
            exact.log_moment(q, 1 / mp.sqrt(each), alpha) for each in (s - h, s, s + h)
        )
        second = (right - 2 * middle + left) / h**2
        return float((right - left) / (2 * h)), float(second)


@pytest.mark.parametrize("alpha", [1.5, 2, 2.5, 3, 10.9, 12, 512, 512.5])
@pytest.mark.parametrize(("q", "s"), [(0.01, 0.01), (0.5, 0.3), (0.99, 2.0)])
def test_slope_and_curvature_have_the_digits_of_mpmath(alpha, q, s):
    slope, curvature = exact_slopes(q, s, alpha)
    found = kernels.log_moment_slopes(s, kernels.moment_terms(q, alpha), 0)
    assert found[0] == pytest.approx(slope, rel=1e-11)
    # of a variance as the difference of two squares of size slope^2 a part in 1e11 is left
    least = 1e-11 * alpha**4 / 4
    assert found[1] == pytest.approx(curvature, rel=1e-7, abs=least)


@given(rates, st.floats(-16, 5).map(lambda x: 10.0**x), st.integers(2, 11))
def test_the_fast_slopes_of_small_integer_orders_are_the_others(q, s, alpha):
    terms = kernels.moment_terms(q, alpha)
    assert kernels.are_few(terms)
    fast, slow = kernels.few_slopes(s, terms, 0), kernels.log_moment_slopes(s, terms, 0)
    # the other rounds exponents of up to 600
    assert fast[0] == pytest.approx(slow[0], rel=1e-12)
    assert fast[1] == pytest.approx(slow[1], rel=1e-9, abs=1e-11 * alpha**4 / 4)


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
