"""Schedules at the best order: the search, tables of log-moments, lists of orders, and lists that were too short."""

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adascale import accounting, rootfind
from adascale.accounting import kernels, schedules

from . import exact

DELTA = 1e-5
# what a schedule for a hundred devices is like: 0.1207 at order 63, and a third less at 150
MANY_DEVICES = np.full(500, 94.0)
ORDERS, WIDE = (1.1, 1.9, 3.5, 5.9, 8.3, 10.9), (math.log(1e-4), math.log(10.0))
RANGES = [(q, alpha, *WIDE, 400) for q in (0.01, 0.08, 0.5) for alpha in ORDERS]
# panels have to be narrow where q^alpha exp(alpha (alpha - 1) s / 2) = 1, here at s = 2.6 and 2.3
RANGES += [(1e-3, alpha, 0.0, 2.0, 40) for alpha in (6.3, 6.9)]
RANGES += [
    (0.5, 2.5, low, high, 40) for low, high in ((1.0, 5.54), (-8.0, -1.0))
]  # up to ends near a power of 256


def gaussian_epsilon(sigma, alpha):
    """Without sampling: rho = alpha / (2 sigma^2) a round, then Remark 1 of the paper."""
    rho = alpha / 2 * np.sum(np.asarray(sigma) ** -2.0)
    return (
        rho + math.log1p(-1 / alpha) - (math.log(DELTA) + math.log(alpha)) / (alpha - 1)
    )


def warned(function, *arguments, **options):
    """What a function gives and the one warning that it issues."""
    with pytest.warns(accounting.OrdersTooFew) as caught:
        found = function(*arguments, **options)
    (warning,) = [each for each in caught if each.category is accounting.OrdersTooFew]
    inside = isinstance(getattr(function, "__self__", None), accounting.RenyiAccountant)
    assert warning.filename == (
        accounting.base.__file__ if inside else __file__
    )  # the caller's
    return found, warning.message


def test_search_ends_in_the_valley_from_any_start():
    """In a list of any length, also where larger orders overflow: they are all infinite, and the valley is before."""
    for size in range(
        1, 18
    ):  # doubled steps from the middle of 8 and of 16 orders end on the last one
        for deepest in range(size):
            for finite in (0, 2, size):
                slope = [
                    abs(i - deepest) if i <= deepest + finite else math.inf
                    for i in range(size)
                ]
                for guess in range(size):
                    assert rootfind.valley(slope.__getitem__, size, guess) == (
                        deepest,
                        0,
                    )


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_an_epsilon_that_only_the_smallest_orders_have_is_found(q):
    # 1 / sigma^2 = 5.1e307: from order 7 on, and so in the middle of the list, alpha / (2 sigma^2) is infinite
    found, _ = warned(accounting.schedule_epsilon, q, [1.4e-154])
    assert found.order == 1.1
    # sampling adds alpha ln(q) / (alpha - 1), which is nothing beside it
    assert float(found.epsilon) == pytest.approx(
        1.1 / 2 * (1e154 / 1.4) / 1e-154 / 1.4, rel=1e-14
    )


@pytest.mark.parametrize("case", RANGES)
def test_table_has_eleven_digits_of_the_log_moment(case):
    q, alpha, low, high, size = case
    log_s = np.linspace(low, high, size)
    exact = kernels.map_log_moment(np.exp(log_s), kernels.moment_terms(q, alpha))
    found = np.exp(schedules.table(q, alpha, low, high)(log_s))
    np.testing.assert_allclose(
        found, exact, rtol=5e-11
    )  # two coefficients of 1e-11, and their like


@pytest.fixture
def evaluated(monkeypatch):
    """The numbers of entries at which log-moments are computed."""
    sizes, compute = [], kernels.map_log_moment
    monkeypatch.setattr(
        kernels,
        "map_log_moment",
        lambda s, *a, **kw: sizes.append(s.size) or compute(s, *a, **kw),
    )
    return sizes


def test_a_long_schedule_takes_no_integral_a_round(evaluated):
    q, alpha, sigma = 0.1, 2.5, np.geomspace(20.0, 40.0, 6000)
    found = accounting.schedule_epsilon(q, sigma, DELTA, [alpha])
    assert 0 < sum(evaluated) < 3000
    # the table has eleven digits
    expected = math.fsum(accounting.rdp(q, sigma, alpha)) + gaussian_epsilon([], alpha)
    assert float(found.epsilon) == pytest.approx(expected, rel=1e-10)


def test_a_table_that_is_not_accurate_is_not_used():
    """At a rate of 1e-100 the log-moment of order 10.9 has a kink at sigma = 0.1465."""
    q, alpha, sigma = 1e-100, 10.9, 0.1465
    s = math.log(sigma**-2)
    assert schedules.table(q, alpha, s - 1, s + 1) is None
    expected = exact.rdp(q, sigma, alpha)
    found = accounting.schedule_epsilon(q, np.full(6000, sigma), DELTA, [alpha])
    assert float(found.epsilon) == pytest.approx(
        6000 * expected + gaussian_epsilon([], alpha), rel=1e-11
    )


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
def test_largest_order_is_ten_to_the_twelve():
    for entry in (
        lambda order: accounting.rdp(1.0, 1e3, order),
        lambda order: accounting.rdp_derivative(0.1, 1.0, order),
        lambda order: kernels.moment_terms(0.5, order),
        accounting.order_grid,
        lambda order: accounting.schedule_epsilon(1.0, [1.0], orders=[2, order]),
        lambda order: accounting.to_dp([1.0, 0.5, 1.0], [2, order, 3]),
        lambda order: accounting.RenyiAccountant((2, order)),
    ):
        entry(1e12)
        for above in (math.nextafter(1e12, math.inf), 1e18):
            with pytest.raises(ValueError, match=r"at most 1e\+12"):
                entry(above)


def test_bad_lists_of_orders_are_refused():
    for bad in [[], [2.0, math.nan], [[2.0]], [2.0, 1.0], [math.inf], "many"]:
        for call in (
            accounting.RenyiAccountant,
            lambda orders: accounting.schedule_epsilon(0.1, [1.0], orders=orders),
        ):
            with pytest.raises(ValueError, match=r"^orders must be"):
                call(bad)
    for ends in [
        (1e13, 1.1),
        (1.05, 1.1),
        (2, 2),
        (math.nan, 1.1),
        (64, 1.0),
        (64, "1"),
    ]:
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
    assert (
        gap[1:] <= np.maximum(2.0 * gap[:-1], gap[:-1] + 1.1)
    ).all()  # from 1.1 to 1.2, and from 10.9 to 12
    assert len(grid) < 1000


def test_the_grid_goes_on_where_the_usual_orders_end():
    assert accounting.order_grid(63) == accounting.DEFAULT_ORDERS
    assert accounting.order_grid() == accounting.order_grid(1024, 1.1)
    assert (
        accounting.order_grid()[: len(accounting.DEFAULT_ORDERS)]
        == accounting.DEFAULT_ORDERS
    )


@pytest.mark.parametrize(
    ("rate", "sigma", "delta", "orders", "gain"),
    [
        (0.1, MANY_DEVICES, 1e-5, accounting.DEFAULT_ORDERS, 0.7),
        (0.1, np.full(500, 0.05), 1e-5, accounting.DEFAULT_ORDERS, 0.9),
        (0.1, np.full(3, 1e-6), 1e-5, accounting.DEFAULT_ORDERS, 1.0),
        (
            0.1,
            np.full(3, 3e-6),
            1e-5,
            accounting.DEFAULT_ORDERS,
            1.0,
        ),  # the best order is 1 + 1e-6
        (
            1.0,
            np.full(3, 2e10),
            1e-300,
            accounting.order_grid(1e7),
            1.0,
        ),  # the best order is near the largest
    ],
)
def test_the_orders_that_a_warning_recommends_are_enough(
    rate, sigma, delta, orders, gain
):
    before, warning = warned(accounting.schedule_epsilon, rate, sigma, delta, orders)
    end = max(orders) if warning.is_last else min(orders)
    assert (
        (warning.end, warning.epsilon)
        == (before.order, before.epsilon)
        == (end, before.epsilon)
    )
    recommended = re.search(r"adascale\.accounting\.(order_grid\(.*\))$", str(warning))[
        1
    ]
    longer = eval(f"accounting.{recommended}")
    after = accounting.schedule_epsilon(rate, sigma, delta, longer)  # no warning
    assert after.epsilon < gain * before.epsilon
    # orders in steps of a square root of two and of 5 %: the valley is flat
    assert (
        warning.better == pytest.approx(float(after.epsilon), rel=0.02) or gain == 1.0
    )


# up to 200 rounds each is tried as it is; then blocks of 2, 3, 3 and 6, of which the last is not full
@pytest.mark.parametrize("rounds", [1, 2, 7, 200, 201, 401, 402, 1001])
@pytest.mark.parametrize("order", [1.01, 300])
def test_an_order_beyond_is_reported_with_a_bound_of_its_epsilon(rounds, order):
    # unsampled, the best order is about 1 + sqrt(2 ln(1 / delta) / sum of 1 / sigma^2)
    sigma = np.random.default_rng(rounds).uniform(0.9, 1.1, rounds)
    sigma *= (order - 1) * math.sqrt(rounds / 2 / math.log(1 / DELTA))
    _, warning = warned(accounting.schedule_epsilon, 1.0, sigma, DELTA)
    exact = gaussian_epsilon(sigma, warning.order)
    # 1 / sigma^2 lies in 0.83 ... 1.23 of its middle; sorted, a hundred blocks and more
    assert (
        exact * (1 - 1e-12)
        <= warning.better
        <= exact * (1.005 if rounds > 200 else 1 + 1e-12)
    )


@pytest.mark.parametrize("lanes", [(), (3,)])
def test_a_schedule_without_rounds_has_the_epsilon_of_the_conversion(lanes):
    found, warning = warned(
        accounting.schedule_epsilon, 0.1, np.empty((*lanes, 0)), DELTA
    )
    assert found.epsilon.shape == lanes
    np.testing.assert_allclose(found.epsilon, gaussian_epsilon([], 63), rtol=1e-14)
    assert warning.better == max(0.0, gaussian_epsilon([], warning.order))


def test_no_warning_where_nothing_is_to_be_gained():
    """An order inside, a single order, an epsilon of zero, less than one per cent."""
    accounting.schedule_epsilon(0.01, np.full(500, 1.0))
    accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=[63])
    accounting.to_dp([1.0], [63])
    assert accounting.schedule_epsilon(0.01, [1e8], delta=0.5).epsilon == 0
    best = accounting.schedule_epsilon(
        0.1, MANY_DEVICES, orders=accounting.order_grid(1024)
    ).order
    accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=[2, best - 0.5])


def test_a_curve_whose_best_order_is_an_end_is_reported():
    curve = 250 * accounting.rdp(0.1, 94.0, 2) * np.arange(2, 64)
    _, warning = warned(accounting.to_dp, curve, range(2, 64))
    assert (warning.end, warning.is_last, warning.order, warning.better) == (
        63,
        True,
        None,
        None,
    )
    _, warning = warned(accounting.to_dp, [9.0, 90.0], [2, 3])
    assert (warning.end, warning.is_last) == (2, False)
    found, warning = warned(
        accounting.to_dp, [[1.0, 1.0], [1.0, 90.0]], [2.0, 3.0]
    )  # at both ends
    assert (warning.number, warning.total, warning.is_last) == (1, 2, True)
    assert found.order.tolist() == [3.0, 2.0]
