"""Tables up to both of their ends, the ends of lists of orders, and what is said of a list that was too short."""

import math
import pickle
import re
import warnings

import numpy as np
import pytest

from adascale import accounting
from adascale.accounting import interpolation as tables
from adascale.accounting import kernels

# Tables --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(1.0, 5.54), (-8.0, -1.0)])  # each on one side of 0, near a power of 256
def test_a_table_has_its_digits_up_to_both_ends_of_its_range(low, high):
    alpha, q = 2.5, 0.5
    table = tables.table_for(q, alpha, low, high)
    assert table.accurate
    log_s = np.linspace(low, high, 40)
    exact = kernels.map_log_moment(np.exp(log_s), kernels.moment_terms(q, alpha), 0)
    found = [table.total(np.array([each])) for each in log_s]
    np.testing.assert_allclose(found, exact, rtol=5e-11)  # two coefficients of 1e-11, and their like


@pytest.mark.parametrize("alpha", [6.3, 6.9])
def test_panels_are_narrow_enough_just_above_order_six(alpha):
    # panels have to be narrow where q^alpha exp(alpha (alpha - 1) s / 2) = 1, here at s = 2.6 and 2.3; the last
    # coefficients there are 2e-12 at the most, and 5e-10 at twice the width
    assert tables.LogMomentTable(1e-3, alpha, 0.0, 2.0).accurate


# The largest order ---------------------------------------------------------------------------------------------------


def test_the_largest_order_is_a_million_millions_everywhere():
    largest = 1e12
    assert float(accounting.rdp(1.0, 1e3, largest)) == pytest.approx(largest / 2e6, rel=1e-12)  # alpha / (2 sigma^2)
    assert kernels.moment_terms(0.5, largest).order == largest
    assert accounting.order_grid(largest)[-1] == largest
    assert accounting.RenyiAccountant((2.0, largest)).orders == (2.0, largest)
    above = math.nextafter(largest, math.inf)
    calls = (
        lambda: accounting.rdp(1.0, 1e3, above),
        lambda: kernels.moment_terms(0.5, above),
        lambda: accounting.order_grid(above),
        lambda: accounting.RenyiAccountant((2.0, above)),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"at most 1e\+12, got"):
            call()


def test_integer_orders_have_their_finite_sum_to_512():
    assert kernels.moment_terms(0.1, 512).weight.shape == (1, 511)  # k = 2 ... 512
    assert kernels.moment_terms(0.1, 513).weight.shape == (1, 0)


def test_a_grid_without_arguments_goes_from_1_1_to_1024():
    grid = accounting.order_grid()
    assert grid == accounting.order_grid(1024, 1.1)
    assert (grid[0], grid[-1]) == (1.1, 1024)


# What is said of a list that was too short ---------------------------------------------------------------------------

LAST = "the last one given, 63, and order 150 gives epsilon 0.5 for 1: give larger orders, such as "
FIRST = "the first one given, 1.1, and order 1.04 gives epsilon 0.5 for 1: give smaller orders, such as "


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((63.0, 1.0, 1, 1, True, 150.0, 0.5), f"the best order is {LAST}adascale.accounting.order_grid(256)"),
        (
            (63.0, 1.0, 1, 2, True, 150.0, 0.5),
            f"the best order of 1 of 2 schedules is {LAST}adascale.accounting.order_grid(256)",
        ),
        # half as far from 1 as the order that was tried
        ((1.1, 1.0, 1, 1, False, 1.04, 0.5), f"the best order is {FIRST}adascale.accounting.order_grid(smallest=1.02)"),
    ],
)
def test_the_warning_of_too_few_orders_says_whose_and_what_to_give(arguments, text):
    warning = accounting.OrdersTooFew(*arguments)
    assert str(warning) == text
    assert str(pickle.loads(pickle.dumps(warning))) == text


@pytest.mark.parametrize(
    ("sigma", "delta", "orders"),
    [
        (1e-6, 1e-5, accounting.DEFAULT_ORDERS),
        (3e-6, 1e-5, accounting.DEFAULT_ORDERS),  # the best order is 1 + 1e-6
        (2e10, 1e-300, accounting.order_grid(1e7)),  # the best order is near the largest
    ],
)
def test_the_orders_that_a_warning_recommends_are_orders_and_enough(sigma, delta, orders):
    schedule = np.full(3, sigma)
    rate = 0.1 if sigma < 1 else 1.0
    with pytest.warns(accounting.OrdersTooFew) as caught:
        before = accounting.schedule_epsilon(rate, schedule, delta, orders).epsilon
    recommended = re.search(r"adascale\.accounting\.(order_grid\(.*\))$", str(caught[0].message))[1]
    after = accounting.schedule_epsilon(rate, schedule, delta, eval(f"accounting.{recommended}")).epsilon
    assert after < before


@pytest.mark.parametrize("known", [(None, None), (150.0, None), (None, 0.5)])
def test_what_was_not_tried_is_not_told(known):
    warning = accounting.OrdersTooFew(63.0, 1.0, 1, 1, True, *known)
    assert str(warning) == (
        "the best order is the last one given, 63, and larger ones may give a smaller epsilon: "
        "give larger orders, such as adascale.accounting.order_grid(...)"
    )


def test_schedules_at_both_ends_of_a_list_are_one_warning():
    with pytest.warns(accounting.OrdersTooFew, match="order of 1 of 2 schedules is the last") as caught:
        found = accounting.to_dp([[1.0, 1.0], [1.0, 90.0]], [2.0, 3.0])
    assert found.order.tolist() == [3.0, 2.0]
    assert len(caught) == 1


def test_a_guarantee_of_zero_is_at_no_end():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = accounting.to_dp([0.0, 0.0], [2.0, 3.0], delta=0.9)  # ln(2 / 3) - ln(2.7) / 2 < 0
    assert (found.epsilon, found.order) == (0.0, 2.0)
    assert accounting.at_end(found, [2.0, 3.0]) == 0
    assert accounting.at_end(accounting.DpGuarantee(np.zeros(2), np.array([2.0, 3.0])), [2.0, 3.0]).tolist() == [0, 0]


# Leakages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["-2.0", "nan"])
def test_the_leakage_that_is_refused_is_the_one_that_is_named(bad):
    for call in (accounting.compose, lambda leakage: accounting.to_dp(leakage, [2, 3, 4, 5, 6])):
        with pytest.raises(ValueError, match=rf"^leakage must be >= 0, got {bad}$"):
            call([2.0, 0.0, 0.5, float(bad), -7.0])
