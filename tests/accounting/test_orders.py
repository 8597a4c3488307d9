"""Schedules at the best order: the search, tables of log-moments, lists of orders, and lists that were too short."""

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import schedules

from . import exact

DELTA = 1e-5
# what a schedule for a hundred devices is like: 0.1207 at order 63, and a third less at 150
MANY_DEVICES = np.full(500, 94.0)


def gaussian_epsilon(sigma, alpha):
    """Without sampling: rho = alpha / (2 sigma^2) a round, then Remark 1 of the paper."""
    rho = alpha / 2 * np.sum(np.asarray(sigma) ** -2.0)
    return (
        rho + math.log1p(-1 / alpha) - (math.log(DELTA) + math.log(alpha)) / (alpha - 1)
    )


def warned(function, *arguments):
    """What a function gives and the one warning that it issues, at the line of its caller."""
    with pytest.warns(accounting.OrdersTooFew) as caught:
        found = function(*arguments)
    (warning,) = caught
    assert warning.filename == __file__
    return found, warning.message


def test_an_epsilon_that_only_the_smallest_orders_have_is_found():
    # 1 / sigma^2 = 5.1e307: from order 7 on, and so in the middle of the list, alpha / (2 sigma^2) is infinite
    found, _ = warned(accounting.schedule_epsilon, 0.5, [1.4e-154])
    assert found.order == 1.1
    # sampling adds alpha ln(q) / (alpha - 1), which is nothing beside it
    assert float(found.epsilon) == pytest.approx(
        1.1 / 2 * (1e154 / 1.4) / 1e-154 / 1.4, rel=1e-14
    )


# panels of the table have to be narrow where q^alpha exp(alpha (alpha - 1) / (2 sigma^2)) = 1, as in the last two
@pytest.mark.parametrize(
    ("q", "alpha", "low", "high"),
    [
        (0.1, 2.5, 20.0, 40.0),
        (0.01, 1.1, 0.4, 100.0),
        (0.5, 10.9, 0.4, 100.0),
        (1e-3, 6.3, 0.4, 1.0),
        (1e-3, 6.9, 0.4, 1.0),
    ],
)
def test_a_long_schedule_is_the_sum_over_its_rounds(q, alpha, low, high):
    """By a table of the log-moment, which has eleven digits."""
    sigma = np.geomspace(low, high, 6000)
    ends = -2 * math.log(high), -2 * math.log(low)
    assert schedules.log_log_spline(q, alpha, *ends) is not None
    found = accounting.schedule_epsilon(q, sigma, DELTA, [alpha])
    expected = math.fsum(accounting.rdp(q, sigma, alpha)) + gaussian_epsilon([], alpha)
    assert float(found.epsilon) == pytest.approx(expected, rel=1e-10)


def test_a_table_that_is_not_accurate_is_not_used():
    """At a rate of 1e-100 the log-moment of order 10.9 has a kink at sigma = 0.1465."""
    q, alpha, sigma = 1e-100, 10.9, 0.1465
    s = math.log(sigma**-2)
    assert schedules.log_log_spline(q, alpha, s - 1, s + 1) is None
    expected = exact.rdp(q, sigma, alpha)
    found = accounting.schedule_epsilon(q, np.full(6000, sigma), DELTA, [alpha])
    assert float(found.epsilon) == pytest.approx(
        6000 * expected + gaussian_epsilon([], alpha), rel=1e-11
    )


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
def test_largest_order_is_ten_to_the_twelve():
    for entry in (
        lambda order: accounting.rdp(1.0, 1e3, order),
        accounting.order_grid,
        lambda order: accounting.schedule_epsilon(1.0, [1.0], orders=[2, order]),
    ):
        entry(1e12)
        with pytest.raises(ValueError, match=r"at most 1e\+12"):
            entry(math.nextafter(1e12, math.inf))


@pytest.mark.parametrize("bad", [[], [2.0, math.nan], [[2.0]], [2.0, 1.0], "many"])
def test_bad_lists_of_orders_are_refused(bad):
    with pytest.raises(ValueError, match=r"^orders must be"):
        accounting.schedule_epsilon(0.1, [1.0], orders=bad)


@pytest.mark.parametrize("ends", [(1e13, 1.1), (2, 2), (math.nan, 1.1), (64, 1.0)])
def test_bad_ends_of_a_grid_are_refused(ends):
    with pytest.raises(ValueError, match=r"largest|smallest"):
        accounting.order_grid(*ends)


@given(
    st.floats(0.01, 12).map(lambda x: 1 + 10.0**x),
    st.floats(-15, -0.1).map(lambda x: 1 + 10.0**x),
)
def test_a_grid_has_its_ends_and_no_gap(largest, smallest):
    assume(smallest < largest <= 1e12)
    grid = np.array(accounting.order_grid(largest, smallest))
    assert (grid[0], grid[-1]) == (smallest, largest)
    gap = grid - 1
    assert (gap[1:] > gap[:-1]).all()
    # the largest are from 1.1 to 1.2, and from 10.9 to 12
    assert (gap[1:] <= np.maximum(2.0 * gap[:-1], gap[:-1] + 1.1)).all()
    assert len(grid) < 1000


def test_the_grid_goes_on_where_the_usual_orders_end():
    usual = accounting.DEFAULT_ORDERS
    assert accounting.order_grid(63) == accounting.order_grid()[: len(usual)] == usual


@pytest.mark.parametrize(
    ("sigma", "gain"),
    [(MANY_DEVICES, 0.7), (np.full(500, 0.05), 0.9), (np.full(3, 3e-6), 1.0)],
)
def test_the_orders_that_a_warning_recommends_are_enough(sigma, gain):
    """They are larger, smaller, and, for the last schedule, 1 + 1e-6."""
    before, warning = warned(accounting.schedule_epsilon, 0.1, sigma)
    usual = accounting.DEFAULT_ORDERS
    assert warning.epsilon == before.epsilon
    assert warning.end == before.order == usual[-1 if warning.is_last else 0]
    recommended = re.search(r"accounting\.(order_grid\(.*\))$", str(warning))[1]
    longer = eval(f"accounting.{recommended}")
    after = accounting.schedule_epsilon(0.1, sigma, orders=longer)  # no warning
    assert after.epsilon < gain * before.epsilon
    # orders in steps of a square root of two and of 5 %: the valley is flat
    if gain < 1:
        assert warning.better == pytest.approx(float(after.epsilon), rel=0.02)


def test_no_warning_where_nothing_is_to_be_gained():
    """An order inside, a single order, an epsilon of zero, less than one per cent."""
    accounting.schedule_epsilon(0.01, np.full(500, 1.0))
    accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=[63])
    assert accounting.schedule_epsilon(0.01, [1e8], delta=0.5).epsilon == 0
    grid = accounting.order_grid(1024)
    best = accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=grid).order
    accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=[2, best - 0.5])


def test_a_curve_whose_best_order_is_an_end_is_reported():
    _, warning = warned(accounting.to_dp, [9.0, 90.0], [2, 3])
    assert (warning.end, warning.is_last, warning.order) == (2, False, None)
    # at both ends
    found, warning = warned(accounting.to_dp, [[1.0, 1.0], [1.0, 90.0]], [2.0, 3.0])
    assert (warning.number, warning.total, warning.is_last) == (1, 2, True)
    assert found.order.tolist() == [3.0, 2.0]
