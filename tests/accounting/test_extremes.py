"""The ends of every range: digits, order, shapes, time; a number or one clear error, never NaN and never infinity."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adascale import accounting

from . import exact
from .exact import mp

rates = st.floats(-12, 0).map(lambda x: min(10.0**x, 1.0)) | st.floats(-12, -0.01).map(
    lambda x: 1 - 10.0**x
)
multipliers = st.floats(-6, 12).map(lambda x: 10.0**x) | st.floats(-1.5, 1).map(
    lambda x: 10.0**x
)
orders = st.floats(-7, 0).map(lambda x: 1 + 10.0**x) | st.floats(2.4, 12).map(
    lambda x: 10.0**x
)
orders |= st.floats(2, 256) | st.integers(2, 256).map(float)
schedules = st.lists(multipliers, min_size=1, max_size=6)
deltas = st.floats(-300, -0.001).map(lambda x: 10.0**x)
positive = st.floats(0, exclude_min=True, allow_infinity=False)

# Two values that differ by less than their rounding are not ordered: 1e-12 is the worst error that was found, and from
# order 1e6 on the rounding of 1 / sigma^2 alone moves a leakage by 1e-16 times the order.
NOISE = 4e-12
# for tests of something else
at_any_order = pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
# q, sigma, order: where the finite sum ends, Gaussians come apart, one of them is left alone, two peaks are equal
SEAMS = f"""
    0.01 1 512, 0.01 1 513, 1e-12 9 512, 0.5 {1 / 18.0001} 1.01, 0.5 {1 / 17.9999} 1.01,
    1e-12 0.0418 1.0001, 1e-12 0.042 1.0001, {1 - 1e-12} 0.042 1.0001, 0.5 3e-6 1.0000000001, 1e-12 0.001 1.0000001,
    1e-3 1e-5 {1 + 2.0**-52}, 1e-12 1.9 200.5, 1e-9 12 6000, 0.01 330 1e6, 0.01 329 1e6, 0.5 1e4 1e9, 0.0025 3 2e11,
    1e-300 0.0084 1.1,
    0.01 7.477416 513, 1e-150 {190**-0.5} 3, 1e-200 0.02 2.5, 1e-306 0.03125 1.5, 0.3 1e100 1.5, 0.3 1e100 1e6"""
SEAMS = [tuple(map(float, point.split())) for point in SEAMS.split(",")]


def slack(alpha):
    return NOISE + 1e-15 * alpha


def rdp(q, sigma, alpha):
    return float(accounting.rdp(q, sigma, alpha))


@settings(max_examples=settings.default.max_examples // 2)
@given(rates, multipliers, orders)
def test_leakage_has_the_digits_of_mpmath_over_its_whole_range(q, sigma, alpha):
    assert rdp(q, sigma, alpha) == pytest.approx(
        exact.rdp(q, sigma, alpha), rel=1e-12, abs=0
    )


@pytest.mark.parametrize("point", SEAMS)
def test_leakage_and_derivative_have_the_digits_of_mpmath_at_seams(point):
    q, sigma, alpha = point
    assert rdp(*point) == pytest.approx(exact.rdp(*point), rel=1e-12)
    if point in SEAMS[-5:]:
        return  # too small for a difference
    with mp.workdps(60):
        h = mp.mpf(sigma) * mp.mpf(10) ** -11  # leaves nineteen digits of the thirty
        high, low = (exact.log_moment(q, sigma + way * h, alpha) for way in (1, -1))
        slope = float((high - low) / (2 * h * (mp.mpf(alpha) - 1)))
    # the truncation: (1e-11)^2 times a third derivative of up to alpha^2 / sigma^4
    found = float(accounting.rdp_derivative(*point))
    assert found == pytest.approx(slope, rel=1e-9)


@given(
    st.floats(0, 1, exclude_min=True),
    positive,
    st.floats(1, exclude_min=True, allow_infinity=False),
)
@example(0.5, 3e-6, 1.0000000001)
@example(0.5, 1.7e308, 2.5)
@example(0.5, 1e-160, 2.5)
@example(1.0, 5e-324, 1e12)
@example(5e-324, 0.03125, 1.5)
@example(0.01, 1.0, 1e18)
@example(1 - 2.0**-53, 1.0, 1 + 2.0**-52)
def test_any_input_is_a_number_or_one_clear_error(q, sigma, alpha):
    for function, sign in ((accounting.rdp, 1), (accounting.rdp_derivative, -1)):
        try:
            value = float(function(q, sigma, alpha))
        except ValueError as error:
            beginnings = "noise_multiplier", "order must be at most 1e+12"
            assert str(error).startswith(beginnings)  # noqa: PT017
            assert alpha > 1e12 or sigma < 1e-90
        else:
            assert math.isfinite(value)
            assert sign * value >= 0


@pytest.mark.parametrize("alpha", [1.5, 3.0, 1e9])
def test_what_floating_point_cannot_hold_is_refused_by_name_or_zero(alpha):
    for function in (accounting.rdp, accounting.rdp_derivative):
        with pytest.raises(ValueError, match=r"^noise_multiplier 1e-160 is too small"):
            function(0.5, [1.0, 1e-160], alpha)
        assert float(function(0.5, 1.7e308, alpha)) == 0  # 1e-616 in truth


@given(*(st.tuples(kind, kind).map(sorted) for kind in (rates, multipliers, orders)))
def test_leakage_is_monotone_in_rate_noise_and_order(q, sigma, alpha):
    base = rdp(q[0], sigma[1], alpha[0])
    assert base <= rdp(q[1], sigma[1], alpha[0]) * (1 + slack(alpha[0]))
    assert base <= rdp(q[0], sigma[0], alpha[0]) * (1 + slack(alpha[0]))
    assert base <= rdp(q[0], sigma[1], alpha[1]) * (1 + slack(alpha[1]))
    assert accounting.rdp_derivative(q[0], sigma[1], alpha[0]) < 0


@at_any_order
@given(rates, schedules, multipliers, st.tuples(deltas, deltas).map(sorted))
def test_epsilon_falls_with_delta_and_grows_with_rounds(q, sigma, another, delta):
    def epsilon(sigma, delta):
        return accounting.schedule_epsilon(q, sigma, delta).epsilon

    strict, loose = (epsilon(sigma, each) for each in delta)
    assert 0 <= loose <= strict * (1 + NOISE)
    assert math.isfinite(strict)
    assert strict <= epsilon([*sigma, another], delta[0]) * (1 + NOISE)


@at_any_order
@pytest.mark.parametrize("delta", [5e-324, 1e-12, 1 - 2.0**-53])
@pytest.mark.parametrize("leakage", [0.0, 1.0, 1e300])
def test_the_conversion_holds_at_either_end_of_delta(delta, leakage):
    listed = accounting.order_grid(1e12, 1 + 2.0**-52)
    found = accounting.to_dp(np.full(len(listed), leakage), listed, delta)
    assert 0 <= found.epsilon <= leakage + 1e3


class Own:
    def __init__(self, result):
        self.result = result

    def epsilon(self, sampling_rate, noise_multiplier, delta):
        return self.result


@pytest.mark.parametrize("result", [[0.0, math.nan, 2.0], -0.1, [1.0, 2.0], None, 1j])
def test_accountant_whose_result_is_no_epsilon_is_named(result):
    with pytest.raises(ValueError, match=r"^epsilon of the accountant Own must "):
        accounting.epsilon_by(Own(result), 0.1, np.ones((3, 4)), 1e-5)
