"""The search for the best order of a schedule: where it ends, what it costs, and what it says of orders beyond."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from adascale import accounting
from adascale.accounting import interpolation as tables
from adascale.accounting import kernels, schedules

from .. import reference

DELTA = 1e-5


def gaussian_epsilon(sigma, alpha):
    """Without sampling: rho = alpha / (2 sigma^2) a round, then Remark 1 of the paper."""
    rho = alpha / 2 * np.sum(np.asarray(sigma) ** -2.0)
    return rho + math.log1p(-1 / alpha) - (math.log(DELTA) + math.log(alpha)) / (alpha - 1)


# The search ----------------------------------------------------------------------------------------------------------


def test_the_search_ends_in_the_valley_from_any_start_in_a_list_of_any_length():
    """Also where larger orders exceed floating point: no two of them differ, and the valley is before them."""
    for size in range(1, 18):  # doubled steps from the middle of 8 and of 16 orders end on the last one
        for deepest in range(size):
            for finite in (0, 2, size):
                slope = [abs(i - deepest) if i <= deepest + finite else math.inf for i in range(size)]
                for guess in range(size):
                    assert schedules.valley(slope.__getitem__, size, guess) == (deepest, 0)


@pytest.mark.parametrize("number", [8, 16])
def test_the_last_of_some_orders_may_be_the_best(number):
    """A schedule without rounds leaks nothing: its epsilon falls up to order 1 / delta."""
    orders = np.arange(2.0, 2 + number)
    with pytest.warns(accounting.OrdersTooFew, match="last one given"):
        found = accounting.schedule_epsilon(0.1, [], DELTA, orders)
    assert found.order == orders[-1]
    assert float(found.epsilon) == pytest.approx(gaussian_epsilon([], orders[-1]), rel=1e-14)


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_an_epsilon_that_only_the_smallest_orders_have_is_found(q):
    # 1 / sigma^2 = 5.1e307: from order 7 on, and so in the middle of the list, alpha / (2 sigma^2) is infinite
    with pytest.warns(accounting.OrdersTooFew, match="first one given, 1.1"):
        found = accounting.schedule_epsilon(q, [1.4e-154])
    assert found.order == 1.1
    # sampling adds alpha ln(q) / (alpha - 1), which is nothing beside it
    assert float(found.epsilon) == pytest.approx(1.1 / 2 * (1e154 / 1.4) / 1e-154 / 1.4, rel=1e-14)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("away", [0, 1, 2, 5, 20])
def test_the_cost_of_a_search_grows_with_how_far_off_it_starts_and_not_with_the_list(side, away):
    def cost(size):
        asked = []

        def value(i):
            asked.append(i)
            return abs(i - size // 2)

        assert schedules.valley(value, size, size // 2 + side * away) == (size // 2, 0)
        return len(asked)

    assert cost(1_000) == cost(1_000_000)
    # two orders a step: steps that double, then halve, and one more at each turn
    assert cost(1_000) <= 2 * (2 * math.log2(away + 1) + 3)


# Tables --------------------------------------------------------------------------------------------------------------


def test_a_long_schedule_takes_no_integral_a_round(monkeypatch):
    q, alpha, sigma = 0.1, 2.5, np.full(6000, 20.0)
    monkeypatch.setattr(kernels, "total_log_moment", None)
    found = accounting.schedule_epsilon(q, sigma, DELTA, [alpha])
    # the table has eleven digits
    expected = 6000 * reference.rdp(q, 20.0, alpha) + gaussian_epsilon([], alpha)
    assert float(found.epsilon) == pytest.approx(expected, rel=1e-10)


def test_a_table_that_is_not_accurate_is_not_used():
    """At a rate of 1e-9 the log-moment of order 10.9 has a kink at sigma = 0.488: six digits are left there."""
    q, alpha, sigma = 1e-9, 10.9, 0.4882635292167177
    s = math.log(sigma**-2)
    table = tables.table_for(q, alpha, s, s)
    expected = reference.rdp(q, sigma, alpha)
    assert abs(table.total(np.array([s])) / (alpha - 1) / expected - 1) > 1e-7
    found = accounting.schedule_epsilon(q, np.full(6000, sigma), DELTA, [alpha])
    assert float(found.epsilon) == pytest.approx(6000 * expected + gaussian_epsilon([], alpha), rel=1e-11)


# Orders beyond -------------------------------------------------------------------------------------------------------


# up to 200 rounds each is tried as it is; then blocks of 2, 3, 3 and 6, of which the last is not full
@pytest.mark.parametrize("rounds", [1, 2, 7, 200, 201, 401, 402, 1001])
@pytest.mark.parametrize("order", [1.01, 300])
def test_an_order_beyond_is_told_with_no_smaller_epsilon_than_it_has(rounds, order):
    # unsampled, the best order is about 1 + sqrt(2 ln(1 / delta) / sum of 1 / sigma^2)
    sigma = np.random.default_rng(rounds).uniform(0.9, 1.1, rounds)
    sigma *= (order - 1) * math.sqrt(rounds / 2 / math.log(1 / DELTA))
    with pytest.warns(accounting.OrdersTooFew) as caught:
        accounting.schedule_epsilon(1.0, sigma, DELTA)
    told = caught[0].message
    exact = gaussian_epsilon(sigma, told.order)
    # 1 / sigma^2 lies in 0.83 ... 1.23 of its middle; sorted, a hundred blocks and more
    assert exact * (1 - 1e-12) <= told.better <= exact * (1.005 if rounds > 200 else 1 + 1e-12)


@pytest.mark.parametrize("lanes", [(), (3,)])
def test_a_schedule_without_rounds_has_the_epsilon_of_the_conversion_alone(lanes):
    with pytest.warns(accounting.OrdersTooFew) as caught:
        found = accounting.schedule_epsilon(0.1, np.empty((*lanes, 0)), DELTA)
    assert found.epsilon.shape == lanes
    np.testing.assert_allclose(found.epsilon, gaussian_epsilon([], 63), rtol=1e-14)
    assert caught[0].message.better == max(0.0, gaussian_epsilon([], caught[0].message.order))


# Accountants ---------------------------------------------------------------------------------------------------------


def test_accountants_of_the_same_orders_are_one_key_and_keep_their_orders():
    made = accounting.RenyiAccountant((2, 3))
    assert len({made, accounting.RenyiAccountant((2.0, 3.0)), accounting.RenyiAccountant()}) == 2
    with pytest.raises(FrozenInstanceError):
        made.orders = (1.0,)


@pytest.mark.parametrize("bad", [-0.25, math.nan, -math.inf])
def test_an_accountant_s_epsilon_that_is_none_is_told_and_no_other(bad):
    class Own:
        def epsilon(self, sampling_rate, noise_multiplier, delta):
            return [0.0, 0.5, bad, 2.0]

    with pytest.raises(ValueError, match=rf"^epsilon of the accountant Own must be >= 0, got {bad}$"):
        accounting.epsilon_by(Own(), 0.1, np.ones((4, 3)), DELTA)
