"""The compiled log-moment against 60-digit arithmetic, at every kind of order, and its identities everywhere else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import interpolation as tables
from adascale.accounting import kernels

from .. import reference

# The target of the package, relative. What is measured here stays below 1e-12; the margin absorbs the condition of
# the problem: rho grows like q^2 and exp(1/sigma^2), so one rounding of sigma alone moves it by up to 1/sigma^2 ulps.
TARGET = 1e-10

INTEGER = [2, 3, 11, 63]
FRACTIONAL = [
    # leakages from 1e-29 to 1e3, both branches of the mixture, both sides of the Gaussian shortcut
    (1e-6, 1e8, 1.01),
    (0.01, 1e8, 2.5),
    (0.999999, 1e8, 63.5),
    (1e-6, 1e4, 1.9),
    (1e-6, 0.3, 1.9),
    (1e-6, 0.3, 10.9),
    (1e-6, 0.1, 1.1),
    (1e-4, 0.2, 1.5),
    (1e-4, 1.0, 2.5),
    (1e-4, 3.0, 63.5),
    (0.01, 100.0, 1.1),
    (0.01, 10.0, 10.9),
    (0.01, 1.0, 1.01),
    (0.01, 1.0, 1.1),
    (0.01, 1.0, 2.5),
    (0.01, 0.5, 10.9),
    (0.01, 0.5, 63.5),
    (0.01, 0.3, 1.5),
    (0.01, 0.1, 1.5),
    (0.08, 1.0, 1.1),
    (0.08, 1.5, 3.2),
    (0.08, 0.5, 10.9),
    (0.08, 0.2, 1.9),
    (0.3, 0.2, 1.01),
    (0.3, 0.05, 1.01),
    (0.3, 0.05, 1.1),
    (0.3, 2.0, 63.5),
    (0.5, 0.3, 2.5),
    (0.5, 0.6, 1.1),
    (0.5, 1.0, 1.01),  # where the trapezoidal step is largest against the branch point
    (0.5, 1.0, 1.9),
    (0.5, 1.1, 1.01),
    (0.5, 2.0, 3.5),
    (0.9, 3.0, 63.5),
    (0.9, 0.7, 1.5),
    (0.99, 1.0, 2.5),
    (0.999999, 0.3, 1.1),
    (0.999999, 1.0, 10.9),
    (0.999999999999, 1.0, 1.5),
    (1e-12, 0.2, 1.5),
]

rates = st.floats(-6, 0).map(lambda x: min(10.0**x, 1.0))
multipliers = st.floats(math.log10(0.05), 8).map(lambda x: 10.0**x)


def test_the_reference_agrees_with_mpmaths_own_quadrature():
    """The trapezoidal sum of the reference, checked once by another rule (each a fraction of a second)."""
    for point in [(0.5, 1.0, 1.01), (0.5, 0.3, 2.5), (0.08, 1.0, 1.1)]:
        # both keep more digits than a double
        assert reference.rdp(*point) == pytest.approx(reference.rdp_by_quad(*point), rel=1e-15)


def test_the_reference_does_not_depend_on_its_step():
    for point in [(1e-6, 1e8, 1.01), (0.5, 1.0, 1.01), (0.3, 0.1, 1.1), (0.9, 3.0, 63.5)]:
        coarse, fine = (reference.log_moment(*point, step=step) for step in (0.2, 0.13))
        # a leakage of 1e-29 is what remains of 1 + 1e-31 with an error of 2e-43
        assert float(abs(coarse / fine - 1)) < 1e-11


def test_the_reference_integral_reproduces_the_sum_of_lemma_1():
    for q, sigma, alpha in [(0.01, 1.0, 2), (0.5, 0.5, 3), (0.3, 3.0, 11), (1e-6, 1e6, 63)]:
        with reference.mp.workdps(reference.DIGITS):
            s = 1 / reference.mp.mpf(sigma) ** 2
            integral = reference._any_moment(reference.mp.mpf(q), s, reference.mp.mpf(alpha), reference.mp.mpf("0.2"))
            exact = reference._integer_moment(reference.mp.mpf(q), s, alpha)
            assert float(abs(integral / exact - 1)) < 1e-40  # the rule's own error


@pytest.mark.parametrize("alpha", INTEGER)
def test_integer_orders_have_the_digits_of_mpmath(alpha):
    for q in (1e-6, 1e-3, 0.01, 0.08, 0.5, 0.99, 1.0):
        for sigma in (0.05, 0.3, 0.7, 1.0, 3.0, 30.0, 1e4, 1e8):
            exact = reference.rdp(q, sigma, alpha)
            assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(exact, rel=TARGET, abs=0), (q, sigma)


@pytest.mark.parametrize(("q", "sigma", "alpha"), FRACTIONAL)
def test_fractional_orders_have_the_digits_of_mpmath(q, sigma, alpha):
    assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(reference.rdp(q, sigma, alpha), rel=TARGET, abs=0)


@given(rates, multipliers, st.sampled_from([2, 3, 4, 8, 11, 32, 63]))
def test_integer_orders_have_the_digits_of_mpmath_anywhere(q, sigma, alpha):
    assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(reference.rdp(q, sigma, alpha), rel=TARGET, abs=0)


@pytest.mark.parametrize("alpha", [1.0001, 1.01, 1.1, 1.5, 1.9, 2.5, 3, 10.9, 63, 63.5])
def test_without_sampling_leakage_is_the_gaussian_closed_form(alpha):
    sigma = np.geomspace(0.05, 1e8, 23)
    # alpha / (2 sigma^2): two roundings in the closed form, three in the code
    np.testing.assert_allclose(accounting.rdp(1.0, sigma, alpha), alpha / (2 * sigma**2), rtol=1e-14)
    np.testing.assert_allclose(accounting.rdp_derivative(1.0, sigma, alpha), -alpha / sigma**3, rtol=1e-14)


@pytest.mark.parametrize("alpha", [1.1, 1.9, 2, 3.5, 11])
def test_leakage_is_continuous_as_the_sampling_rate_approaches_one(alpha):
    """q = 1 has a branch of its own; just below it the general code must meet it."""
    for sigma in (0.3, 1.0, 10.0, 1e4):
        # rho moves by at most about alpha (1 - q) exp(1/sigma^2) <= 11 * 1e-13 * 6.7e4 in relative terms
        assert float(accounting.rdp(1 - 1e-13, sigma, alpha)) == pytest.approx(alpha / (2 * sigma**2), rel=1e-7, abs=0)


@given(rates, multipliers, st.integers(2, 63))
def test_the_integral_meets_the_finite_sum_at_integer_orders(q, sigma, alpha):
    """Fractional orders are an integral, integer orders Lemma 1: two programs, one function of alpha."""
    step = 1e-8
    # The mean of the two neighbours differs by step^2 / 2 times the second derivative in alpha, which is at most of
    # order (1 / sigma^2 + |ln q|)^2 <= 2e5 relative, hence 1e-11.
    mean = float(accounting.rdp(q, sigma, alpha - step) + accounting.rdp(q, sigma, alpha + step)) / 2
    assert mean == pytest.approx(float(accounting.rdp(q, sigma, alpha)), rel=TARGET, abs=0)


@given(rates, multipliers, st.floats(1.001, 63.9), st.floats(1.001, 63.9))
def test_the_log_moment_is_convex_in_the_order(q, sigma, alpha, beta):
    """(alpha - 1) rho is the logarithm of a moment, hence convex in alpha, and it vanishes at 1."""

    def moment(order):
        return float(accounting.rdp(q, sigma, order)) * (order - 1)

    middle, chord = moment((alpha + beta) / 2), (moment(alpha) + moment(beta)) / 2
    assert middle <= chord * (1 + 2 * TARGET)  # each moment carries the target's error


DERIVATIVE = [(q, sigma, alpha) for q, sigma, alpha in FRACTIONAL if alpha / min(sigma, 1) < 25][::2] + [
    (q, sigma, alpha) for q in (1e-6, 0.01, 0.5) for sigma in (0.05, 0.5, 2.0, 1e8) for alpha in (2, 3, 11, 63)
]


@pytest.mark.parametrize(("q", "sigma", "alpha"), DERIVATIVE)
def test_derivative_has_the_digits_of_mpmath(q, sigma, alpha):
    exact = reference.rdp_derivative(q, sigma, alpha)
    assert float(accounting.rdp_derivative(q, sigma, alpha)) == pytest.approx(exact, rel=TARGET, abs=0)


@given(rates, multipliers, st.sampled_from([1.01, 1.1, 1.5, 1.9, 2, 2.5, 3, 10.9, 11, 63]))
def test_derivative_agrees_with_finite_differences(q, sigma, alpha):
    h = 1e-4 * sigma * min(1.0, sigma**2) / alpha  # alpha / sigma^2 sets the scale on which rho changes
    rise = float(accounting.rdp(q, sigma + h, alpha) - accounting.rdp(q, sigma - h, alpha))
    # truncation: about (1e-4)^2 times a third derivative of order 10; rounding: 1e-15 of rho over a rise of 1e-8 of it
    assert float(accounting.rdp_derivative(q, sigma, alpha)) == pytest.approx(rise / (2 * h), rel=1e-5, abs=0)


def test_very_large_orders_keep_their_digits():
    for q, sigma, alpha in [(0.01, 1.0, 500), (0.5, 10.0, 1000), (1e-4, 1e3, 256)]:
        assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(
            reference.rdp(q, sigma, alpha), rel=TARGET, abs=0
        )


@pytest.mark.parametrize("alpha", [1.5, 2, 2.5])
def test_very_rare_sampling_keeps_its_digits(alpha):
    for q in (1e-16, 1e-20):  # leakages of 1e-40: 60 digits still leave 20
        for sigma in (0.2, 1.0):
            assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(
                reference.rdp(q, sigma, alpha), rel=TARGET, abs=0
            )


# What only the kernels know ------------------------------------------------------------------------------------------


def exact_slopes(q, s, alpha):
    """A' and A'' in 60 digits, by central differences of 20 digits."""
    with reference.mp.workdps(2 * reference.DIGITS):
        q, s = reference.mp.mpf(q), reference.mp.mpf(s)
        h = s * reference.mp.mpf(10) ** -25

        def value(s):
            integer = alpha == int(alpha)
            return reference.mp.log(
                reference._integer_moment(q, s, int(alpha))
                if integer
                else reference._any_moment(q, s, reference.mp.mpf(alpha), reference.mp.mpf("0.1"))
            )

        left, middle, right = value(s - h), value(s), value(s + h)
        return float((right - left) / (2 * h)), float((right - 2 * middle + left) / h**2)


@pytest.mark.parametrize("alpha", [2, 3, 8, 11, 12, 32])
@pytest.mark.parametrize("q", [1e-6, 0.01, 0.5, 0.99])
def test_slope_and_curvature_of_integer_orders_have_the_digits_of_mpmath(q, alpha):
    terms = kernels.moment_terms(q, alpha)
    for s in (1e-8, 0.01, 0.3, 2.0, 20.0, 300.0, 5000.0):
        slope, curvature = exact_slopes(q, s, alpha)
        found = kernels.log_moment_slopes(s, terms, 0)
        assert found[0] == pytest.approx(slope, rel=1e-12), s
        # a variance as the difference of two squares of size slope^2, beyond which nothing needs it
        assert found[1] == pytest.approx(curvature, rel=1e-9, abs=1e-11 * alpha**4 / 4)


@pytest.mark.parametrize("alpha", [1.5, 2.5, 10.9])
@pytest.mark.parametrize("q", [0.01, 0.5])
def test_slope_and_curvature_of_fractional_orders_have_the_digits_of_mpmath(q, alpha):
    terms = kernels.moment_terms(q, alpha)
    for s in (0.01, 0.3, 2.0):
        slope, curvature = exact_slopes(q, s, alpha)
        found = kernels.log_moment_slopes(s, terms, 0)
        assert found[0] == pytest.approx(slope, rel=1e-11), s
        assert found[1] == pytest.approx(curvature, rel=1e-7), s  # as above


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


@pytest.mark.parametrize("alpha", [1.1, 1.9, 3.5, 5.9, 8.3, 10.9])
@pytest.mark.parametrize("q", [0.01, 0.08, 0.5])
def test_a_table_has_eleven_digits_of_the_log_moment(q, alpha):
    table = tables.table_for(q, alpha, math.log(1e-4), math.log(10.0))
    assert table.accurate
    terms = kernels.moment_terms(q, alpha)
    for s in np.geomspace(1e-4, 10.0, 400):
        exact = kernels.map_log_moment(np.array([s]), terms, 0)[0]
        assert table.total(np.log([s])) == pytest.approx(exact, rel=5e-11)  # two coefficients of 1e-11, and their like


def test_a_table_that_is_too_coarse_says_so():
    assert not tables.LogMomentTable(1e-6, 60.5, -3.0, 6.0).accurate  # a kink at s = 0.5, as steep as the order


@pytest.mark.parametrize("alpha", [3, 2.5])
def test_equal_multipliers_are_counted_and_not_evaluated_again(alpha):
    s = np.sort(np.random.default_rng(0).choice([0.1, 0.5, 2.0], 1000))
    terms = kernels.moment_terms(0.01, alpha)
    expected = math.fsum(kernels.map_log_moment(s, terms, 0))
    assert kernels.total_log_moment(s, terms, 0) == pytest.approx(expected, rel=1e-13)
    table = tables.table_for(0.01, alpha, math.log(0.1), math.log(2.0))
    assert table.total(np.log(s)) == pytest.approx(expected, rel=5e-11)


def test_a_careless_log_sum_exp_would_fail_these_tests():
    """Negative control: the plain sum of Lemma 1 in doubles loses the small leakages."""
    exact = reference.rdp(0.01, 1e6, 3)
    assert abs(reference.lemma_1(0.01, 1e6, 3) / exact - 1) > 1e-3
