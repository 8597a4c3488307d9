"""Rényi accounting: the peers, composition, conversion to DP, and the search for the best order of a schedule."""

import math
import warnings

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from opacus.accountants import RDPAccountant

from adascale import accounting

# for tests of something else
at_any_order = pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
rates = st.floats(-6, 0).map(lambda x: min(10.0**x, 1.0))
schedules = st.lists(st.floats(-1.3, 6).map(lambda x: 10.0**x), min_size=1, max_size=6)
deltas = st.floats(-12, -0.31).map(lambda x: 10.0**x)
lists = st.just(accounting.DEFAULT_ORDERS) | st.lists(
    st.floats(1.005, 70), min_size=1, max_size=9
)


@pytest.mark.parametrize("trials", [2, 10, 300])
def test_best_of_trials_has_the_epsilon_of_dp_accounting(trials):
    orders = accounting.DEFAULT_ORDERS
    one = [500 * accounting.rdp(0.01, 1.3, order) for order in orders]
    best = accounting.best_of_trials(one, orders, trials)
    sampled = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.3))
    training = dp.SelfComposedDpEvent(sampled, 500)
    # a negative binomial number of shape 1 is geometric; it finds its parameter to five digits
    repeated = dp.dp_event.RepeatAndSelectDpEvent(training, trials + 1e-9, 1.0)
    expected = RdpAccountant(orders).compose(repeated).get_epsilon(1e-5)
    assert accounting.to_dp(best, orders).epsilon == pytest.approx(expected, rel=1e-4)


def test_composition_is_the_sum_over_rounds():
    leakage = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(accounting.compose(leakage), leakage.sum(-1))
    assert accounting.compose(np.empty((3, 0))).tolist() == [0, 0, 0]


def test_an_infinite_leakage_excludes_an_order():
    assert accounting.to_dp([math.inf, 1.0, math.inf], [2, 5, 9], 1e-5).order == 5
    assert accounting.to_dp([math.inf, math.inf], [2, 5]).epsilon == math.inf


def remark_1(rho, alpha, delta):
    """Remark 1 of the paper, as it stands there."""
    divided = (math.log(delta) + math.log(alpha)) / (alpha - 1)
    return rho + math.log((alpha - 1) / alpha) - divided


@at_any_order
@given(
    st.lists(st.tuples(st.floats(1.01, 100), st.floats(0, 50)), min_size=1, max_size=8),
    st.floats(1e-12, 0.5),
)
def test_conversion_is_the_paper_s_remark_at_the_best_order(curve, delta):
    alphas, leakage = (list(column) for column in zip(*curve, strict=True))
    plain = [remark_1(rho, alpha, delta) for alpha, rho in curve]
    found = accounting.to_dp(leakage, alphas, delta)
    # the offset near alpha = 1 is of size 1/(alpha - 1) <= 100 times ln(1/delta) <= 28
    best = pytest.approx(max(0.0, min(plain)), rel=1e-12, abs=1e-12)
    assert float(found.epsilon) == best
    if found.epsilon > 0:
        at_order = min(
            p for p, alpha in zip(plain, alphas, strict=True) if alpha == found.order
        )
        assert at_order == best


@at_any_order
@given(rates, schedules, deltas, lists)
def test_search_finds_the_best_of_any_list_of_orders(q, sigma, delta, alphas):
    curve = [accounting.compose(accounting.rdp(q, sigma, alpha)) for alpha in alphas]
    found = accounting.schedule_epsilon(q, sigma, delta, alphas)
    # the same terms, added in another order
    expected = float(accounting.to_dp(curve, alphas, delta).epsilon)
    assert float(found.epsilon) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert float(found.order) in alphas


@at_any_order
@given(rates, st.lists(schedules, min_size=2, max_size=6))
def test_every_schedule_finds_its_own_best_order(q, many):
    """A search starts where the schedule before it ended: that must not show, however unlike they are."""
    length = max(len(one) for one in many)
    table = np.array([np.resize(one, length) for one in many])
    together = accounting.schedule_epsilon(q, table)
    for row, epsilon, order in zip(
        table, together.epsilon, together.order, strict=True
    ):
        assert accounting.schedule_epsilon(q, row) == (epsilon, order)


def test_schedule_epsilon_agrees_with_opacus():
    assert list(accounting.DEFAULT_ORDERS) == list(RDPAccountant.DEFAULT_ALPHAS)
    sigma = [0.9, 1.3, 2.0, 2.0, 5.0]
    accountant = RDPAccountant()
    for one in sigma:
        accountant.step(noise_multiplier=one, sample_rate=0.01)
    with warnings.catch_warnings():
        # its series for fractional orders may not converge
        warnings.simplefilter("ignore")
        expected = accountant.get_epsilon(delta=1e-5)
    found = float(accounting.schedule_epsilon(0.01, sigma).epsilon)
    # Opacus' own error at fractional orders: up to 5e-7 relative
    assert found == pytest.approx(expected, rel=1e-6)
