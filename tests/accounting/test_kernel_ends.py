"""Where the kernels leave floating point, and the curvature beyond the order at which they change their method."""

import math
import re

import numpy as np
import pytest

from adascale import accounting
from adascale.accounting import kernels


def test_without_a_difference_there_is_no_leakage_though_every_weight_underflows():
    terms = kernels.moment_terms(1e-200, 3)  # q^3 is below the smallest number
    assert terms.weight[0, -1] == 0
    assert kernels.log_moment(0.0, terms, 0) == 0


@pytest.mark.parametrize("alpha", [3, 12, 512])
def test_where_a_leakage_is_infinite_its_slope_is_that_of_the_last_term(alpha):
    terms = kernels.moment_terms(0.01, alpha)
    assert kernels.log_moment_slopes(1.7e308, terms, 0) == (alpha * (alpha - 1) / 2, 0.0)


@pytest.mark.parametrize("alpha", [512.0, 512.5, 1000.5, 3e4])
@pytest.mark.parametrize("q", [1e-4, 0.01, 0.3])
def test_slope_and_curvature_are_differences_of_the_log_moment_on_either_side_of_the_largest_sum(q, alpha):
    terms = kernels.moment_terms(q, alpha)
    for s in np.geomspace(1e-6, 1e-2, 9):
        step = 1e-4 * s
        values = [kernels.log_moment(each, terms, 0) for each in (s - step, s, s + step)]
        slopes = [kernels.log_moment_slopes(each, terms, 0) for each in (s - step, s, s + step)]
        # the difference of second order leaves 1e-8 of the change of a slope; values have about 12 digits
        assert slopes[1][0] == pytest.approx((values[2] - values[0]) / (2 * step), rel=1e-6), s
        curvature = (slopes[2][0] - slopes[0][0]) / (2 * step)
        assert math.isclose(slopes[1][1], curvature, rel_tol=1e-4, abs_tol=1e-6 * slopes[1][0] / s), s


@pytest.mark.parametrize("alpha", [3, 2.5, 512.5, 1e4])
def test_without_a_difference_the_slope_is_that_of_the_first_term(alpha):
    terms = kernels.moment_terms(0.01, alpha)
    slope = kernels.log_moment_slopes(0.0, terms, 0)[0]
    # A = alpha (alpha - 1) q^2 s / 2 to first order; 1e-9: the integral's rounding where it is taken
    assert slope == pytest.approx(0.5 * alpha * (alpha - 1) * 0.01**2, rel=1e-9)


def test_a_warning_of_too_few_orders_points_at_its_caller():
    with pytest.warns(accounting.OrdersTooFew) as told:
        accounting.schedule_epsilon(0.01, np.full(10, 1e3), orders=[2.0, 3.0])
    assert [each.filename for each in told] == [__file__]
    with pytest.warns(accounting.OrdersTooFew) as told:
        accounting.to_dp([1e-9, 1e-9], [2.0, 3.0])
    assert [each.filename for each in told] == [__file__]


def test_the_orders_that_a_warning_names_end_it():
    sigma = np.full(3, 0.02)  # so little noise that orders next to 1 are best
    with pytest.warns(accounting.OrdersTooFew, match=r"order_grid\(smallest=") as told:
        short = accounting.schedule_epsilon(0.1, sigma)
    smallest = float(re.search(r"smallest=([0-9.e-]+)\)", str(told[0].message))[1])
    longer = accounting.schedule_epsilon(0.1, sigma, orders=accounting.order_grid(smallest=smallest))  # no warning
    assert longer.epsilon < short.epsilon


@pytest.mark.parametrize("alpha", [1.17, 1.18, 1.184, 1.19])
def test_the_curvature_of_gaussians_far_apart_is_the_difference_of_slopes_where_both_have_weight(alpha):
    q, s, step = 1e-20, 500.0, 0.01
    terms = kernels.moment_terms(q, alpha)
    slopes = [kernels.log_moment_slopes(each, terms, 0) for each in (s - step, s, s + step)]
    assert 0.01 < slopes[1][0] / (0.5 * alpha * (alpha - 1)) < 0.99  # the share of the upper one
    assert slopes[1][1] == pytest.approx((slopes[2][0] - slopes[0][0]) / (2 * step), rel=1e-5)
