"""The compiled log-moment against 60-digit arithmetic, its identities, and where it leaves floating point."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import kernels

from .. import reference
from . import exact

# The target of the package, relative. What is measured here stays below 1e-12; the margin absorbs the condition of
# the problem: rho grows like q^2 and exp(1/sigma^2), so one rounding of sigma alone moves it by up to 1/sigma^2 ulps.
TARGET = 1e-10

rates = st.floats(-6, 0).map(lambda x: min(10.0**x, 1.0))
multipliers = st.floats(math.log10(0.05), 8).map(lambda x: 10.0**x)


def rdp(q, sigma, alpha):
    return float(accounting.rdp(q, sigma, alpha))


def test_one_reference_agrees_with_the_other():
    points = [(0.01, 2.5, 1.5), (0.01, 0.35, 1.6), (0.01, 10.0, 1.25), (0.5, 1.0, 1.01), (0.9, 3.0, 63.5), (0.3, 2, 3)]
    for point in points:  # both keep more digits than a double
        assert exact.rdp(*point) == pytest.approx(reference.rdp(*point), rel=1e-15)


@given(rates, multipliers, st.sampled_from([2, 3, 4, 8, 11, 32, 63]))
def test_integer_orders_have_the_digits_of_mpmath_anywhere(q, sigma, alpha):
    assert rdp(q, sigma, alpha) == pytest.approx(reference.rdp(q, sigma, alpha), rel=TARGET, abs=0)


@pytest.mark.parametrize("alpha", [1.0001, 1.01, 1.1, 1.5, 1.9, 2.5, 3, 10.9, 63, 63.5])
def test_without_sampling_leakage_is_the_gaussian_closed_form(alpha):
    sigma = np.geomspace(0.05, 1e8, 23)
    # alpha / (2 sigma^2): two roundings in the closed form, three in the code
    np.testing.assert_allclose(accounting.rdp(1.0, sigma, alpha), alpha / (2 * sigma**2), rtol=1e-14)
    np.testing.assert_allclose(accounting.rdp_derivative(1.0, sigma, alpha), -alpha / sigma**3, rtol=1e-14)


@given(rates, multipliers, st.integers(2, 63))
def test_the_integral_meets_the_finite_sum_at_integer_orders(q, sigma, alpha):
    """Fractional orders are an integral, integer orders Lemma 1: two programs, one function of alpha."""
    # The mean of the two neighbours differs by step^2 / 2 times the second derivative in alpha, which is at most of
    # order (1 / sigma^2 + |ln q|)^2 <= 2e5 relative, hence 1e-11.
    mean = (rdp(q, sigma, alpha - 1e-8) + rdp(q, sigma, alpha + 1e-8)) / 2
    assert mean == pytest.approx(rdp(q, sigma, alpha), rel=TARGET, abs=0)


@given(rates, multipliers, st.floats(1.001, 63.9), st.floats(1.001, 63.9))
def test_the_log_moment_is_convex_in_the_order(q, sigma, alpha, beta):
    """(alpha - 1) rho is the logarithm of a moment, hence convex in alpha, and it vanishes at 1."""
    low, middle, high = (rdp(q, sigma, a) * (a - 1) for a in (alpha, (alpha + beta) / 2, beta))
    assert middle <= (low + high) / 2 * (1 + 2 * TARGET)  # each moment carries the target's error


def exact_slopes(q, s, alpha):
    """A' and A'' in 60 digits, by central differences of 20 digits."""
    mp = reference.mp
    with mp.workdps(2 * reference.DIGITS):
        q, s = mp.mpf(q), mp.mpf(s)
        h = s * mp.mpf(10) ** -25
        if alpha == int(alpha):
            values = [reference.integer_moment(q, each, int(alpha)) for each in (s - h, s, s + h)]
        else:
            values = [reference.any_moment(q, each, mp.mpf(alpha), mp.mpf("0.1")) for each in (s - h, s, s + h)]
        left, middle, right = map(mp.log, values)
        return float((right - left) / (2 * h)), float((right - 2 * middle + left) / h**2)


SLOPES = [
    (q, s, alpha, 1e-12, 1e-9, 1e-11 * alpha**4 / 4)  # a variance as the difference of two squares of size slope^2
    for alpha in (2, 3, 8, 11, 12, 32)
    for q in (1e-6, 0.01, 0.5, 0.99)
    for s in (1e-8, 0.01, 0.3, 2.0, 20.0, 300.0, 5000.0)
]
SLOPES += [(q, s, a, 1e-11, 1e-7, 0.0) for a in (1.5, 2.5, 10.9) for q in (0.01, 0.5) for s in (0.01, 0.3, 2.0)]


@pytest.mark.parametrize("alpha", sorted({each[2] for each in SLOPES}))
def test_slope_and_curvature_have_the_digits_of_mpmath(alpha):
    for q, s, _, rel, rel_second, abs_second in (each for each in SLOPES if each[2] == alpha):
        slope, curvature = exact_slopes(q, s, alpha)
        found = kernels.log_moment_slopes(s, kernels.moment_terms(q, alpha), 0)
        assert found[0] == pytest.approx(slope, rel=rel), (q, s)
        assert found[1] == pytest.approx(curvature, rel=rel_second, abs=abs_second), (q, s)


@given(rates, st.floats(-16, 5).map(lambda x: 10.0**x), st.integers(2, 11))
def test_the_fast_slopes_of_small_integer_orders_are_the_others(q, s, alpha):
    terms = kernels.moment_terms(q, alpha)
    assert kernels.are_few(terms)
    fast, slow = kernels.few_slopes(s, terms, 0), kernels.log_moment_slopes(s, terms, 0)
    assert fast[0] == pytest.approx(slow[0], rel=1e-12)  # the other rounds exponents of up to 600
    assert fast[1] == pytest.approx(slow[1], rel=1e-9, abs=1e-11 * alpha**4 / 4)


@pytest.mark.parametrize(("q", "alpha"), [(0.01, 12), (0.01, 2.5), (1e-30, 11)])
def test_large_and_fractional_orders_and_vanishing_weights_are_not_few(q, alpha):
    assert not kernels.are_few(kernels.moment_terms(q, alpha))


def test_terms_keep_each_rate_to_itself():
    terms = kernels.moment_terms([0.01, 0.5], 3)
    for kind, q in enumerate([0.01, 0.5]):
        alone = kernels.moment_terms(q, 3)
        assert kernels.log_moment(0.7, terms, kind) == kernels.log_moment(0.7, alone, 0)
        assert kernels.log_moment_slopes(0.7, terms, kind) == kernels.log_moment_slopes(0.7, alone, 0)


def test_zero_energy_has_no_leakage_though_every_weight_underflows():
    terms = kernels.moment_terms(1e-200, 3)  # q^3 is below the smallest number
    assert terms.weight[0, -1] == 0
    assert kernels.log_moment(0.0, terms, 0) == 0


@pytest.mark.parametrize("alpha", [3, 12, 512, 2.5, 512.5, 1e4])
def test_slopes_at_zero_and_infinite_energy_are_those_of_one_term(alpha):
    terms = kernels.moment_terms(0.01, alpha)
    # A = alpha (alpha - 1) q^2 s / 2 to first order; 1e-9: the integral's rounding where it is taken
    pairs = alpha * (alpha - 1) / 2
    assert kernels.log_moment_slopes(0.0, terms, 0)[0] == pytest.approx(pairs * 0.01**2, rel=1e-9)
    if terms.weight.size:
        assert kernels.log_moment_slopes(1.7e308, terms, 0) == (pairs, 0.0)


@pytest.mark.parametrize("alpha", [512.0, 512.5, 1000.5, 3e4])
@pytest.mark.parametrize("q", [1e-4, 0.01, 0.3])
def test_slopes_are_differences_on_either_side_of_the_largest_sum(q, alpha):
    terms = kernels.moment_terms(q, alpha)
    for s in np.geomspace(1e-6, 1e-2, 9):
        step = 1e-4 * s
        values = [kernels.log_moment(each, terms, 0) for each in (s - step, s, s + step)]
        slopes = [kernels.log_moment_slopes(each, terms, 0) for each in (s - step, s, s + step)]
        # the difference of second order leaves 1e-8 of the change of a slope; values have about 12 digits
        assert slopes[1][0] == pytest.approx((values[2] - values[0]) / (2 * step), rel=1e-6), s
        curvature = (slopes[2][0] - slopes[0][0]) / (2 * step)
        assert math.isclose(slopes[1][1], curvature, rel_tol=1e-4, abs_tol=1e-6 * slopes[1][0] / s), s


@pytest.mark.parametrize("alpha", [1.17, 1.18, 1.184, 1.19])
def test_curvature_of_gaussians_far_apart_is_the_difference_of_slopes(alpha):
    q, s, step = 1e-20, 500.0, 0.01
    terms = kernels.moment_terms(q, alpha)
    slopes = [kernels.log_moment_slopes(each, terms, 0) for each in (s - step, s, s + step)]
    assert 0.01 < slopes[1][0] / (0.5 * alpha * (alpha - 1)) < 0.99  # both have weight
    assert slopes[1][1] == pytest.approx((slopes[2][0] - slopes[0][0]) / (2 * step), rel=1e-5)
