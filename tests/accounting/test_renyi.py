"""Accounting: the peers, monotonicity, composition, conversion to DP, and the fast search over orders."""

import math
import warnings

import numpy as np
import pytest
from dp_accounting import rdp as google
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent
from hypothesis import assume, given
from hypothesis import strategies as st
from opacus.accountants import RDPAccountant
from opacus.accountants.analysis import rdp as opacus

from adascale import accounting

from .. import reference

# for tests of something else
at_any_order = pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
rates = st.floats(-6, 0).map(lambda x: min(10.0**x, 1.0))
multipliers = st.floats(math.log10(0.05), 8).map(lambda x: 10.0**x)
orders = st.sampled_from([1.01, 1.1, 1.5, 1.9, 2.0, 2.5, 3.0, 10.9, 11.0, 63.0, 63.5])


def opacus_rdp(q, sigma, alpha):
    return float(opacus.compute_rdp(q=q, noise_multiplier=sigma, steps=1, orders=[float(alpha)])[0])


def google_rdp(q, sigma, alpha):
    accountant = google.RdpAccountant(orders=[alpha])
    accountant.compose(PoissonSampledDpEvent(q, GaussianDpEvent(sigma)))
    return float(accountant.rdp[0])


# The peers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", [opacus_rdp, google_rdp])
@pytest.mark.parametrize("alpha", [2, 3, 8, 11, 32, 63])
def test_peers_agree_at_integer_orders(peer, alpha):
    # leakages of 1e-4 and more: below, the log-sum-exp of both peers loses digits (see the next test)
    for q, sigma in [(0.01, 0.5), (0.01, 1.0), (0.08, 0.7), (0.08, 2.0), (0.5, 1.0), (0.5, 5.0), (1.0, 2.0)]:
        assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(peer(q, sigma, alpha), rel=1e-10, abs=0)


@pytest.mark.parametrize("peer", [opacus_rdp, google_rdp])
def test_small_leakages_keep_the_digits_that_the_peers_lose(peer):
    exact = reference.rdp(0.01, 1e6, 3)
    assert abs(peer(0.01, 1e6, 3) / exact - 1) > 1e-3
    assert float(accounting.rdp(0.01, 1e6, 3)) == pytest.approx(exact, rel=1e-10, abs=0)


# where a 60-digit integral says that the peer is worse than 1e-10
PEERS_OFF = [
    (opacus_rdp, 0.01, 1.0, 1.1),
    (opacus_rdp, 0.01, 1.0, 1.9),
    (opacus_rdp, 0.01, 0.7, 1.1),
    (opacus_rdp, 0.08, 2.0, 1.1),
    (google_rdp, 0.01, 1.0, 1.1),
    (google_rdp, 0.01, 1.0, 2.5),
    (google_rdp, 0.08, 1.0, 1.5),
    (google_rdp, 0.08, 1.0, 3.2),
]


@pytest.mark.parametrize(("peer", "q", "sigma", "alpha"), PEERS_OFF)
def test_at_fractional_orders_it_is_the_peers_that_are_off(peer, q, sigma, alpha):
    exact = reference.rdp(q, sigma, alpha)
    assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(exact, rel=1e-10, abs=0)
    assert abs(peer(q, sigma, alpha) / exact - 1) > 1e-10


def test_an_order_that_dp_accounting_drops_is_kept():
    """Its series does not converge at (0.08, 1, 1.1): it logs that and reports infinity, so the order is lost."""
    assert google_rdp(0.08, 1.0, 1.1) == math.inf
    assert float(accounting.rdp(0.08, 1.0, 1.1)) == pytest.approx(reference.rdp(0.08, 1.0, 1.1), rel=1e-10, abs=0)


# Order ---------------------------------------------------------------------------------------------------------------

NOISE = 1e-12  # two values that differ by less than the rounding of either are not ordered


@given(rates, rates, multipliers, orders)
def test_leakage_grows_with_the_sampling_rate(p, q, sigma, alpha):
    assume(p < q)
    assert accounting.rdp(p, sigma, alpha) <= accounting.rdp(q, sigma, alpha) * (1 + NOISE)


@given(rates, multipliers, multipliers, orders)
def test_leakage_falls_with_the_noise(q, low, high, alpha):
    assume(low < high)
    assert accounting.rdp(q, high, alpha) <= accounting.rdp(q, low, alpha) * (1 + NOISE)
    assert accounting.rdp_derivative(q, low, alpha) < 0


@given(rates, multipliers, orders, orders)
def test_leakage_grows_with_the_order(q, sigma, alpha, beta):
    assume(alpha < beta)
    assert accounting.rdp(q, sigma, alpha) <= accounting.rdp(q, sigma, beta) * (1 + NOISE)


@given(rates, multipliers, orders)
def test_sampling_never_leaks_more_than_the_gaussian_mechanism(q, sigma, alpha):
    assert 0 < accounting.rdp(q, sigma, alpha) <= alpha / (2 * sigma**2) * (1 + NOISE)


@pytest.mark.parametrize("alpha", [1.5, 2, 3, 10.9])
def test_at_large_noise_leakage_is_half_alpha_q_squared_over_sigma_squared(alpha):
    """The first term of the expansion in 1/sigma^2: q^2 alpha / (2 sigma^2)."""
    for q in (1e-6, 0.01, 0.5):
        # the next term is alpha / sigma^2 smaller: 1e-11 at sigma = 1e6
        assert float(accounting.rdp(q, 1e6, alpha)) == pytest.approx(q**2 * alpha / 2e12, rel=1e-10, abs=0)


# Shapes --------------------------------------------------------------------------------------------------------------


def test_rdp_broadcasts_rates_against_multipliers():
    q, sigma = np.array([0.01, 0.08, 1.0])[:, None], np.geomspace(0.5, 5, 4)
    for function in (accounting.rdp, accounting.rdp_derivative):
        table = function(q, sigma, 3)
        assert table.shape == (3, 4)
        for i in range(3):
            for j in range(4):
                assert table[i, j] == function(q[i, 0], sigma[j], 3)  # the same scalar code
        assert np.shape(function(0.1, 1.0, 2)) == ()
        assert function(0.1, np.empty((2, 0)), 2).shape == (2, 0)


def test_composition_is_the_sum_over_rounds():
    leakage = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(accounting.compose(leakage), leakage.sum(-1))
    np.testing.assert_array_equal(accounting.compose(leakage, axis=0), leakage.sum(0))
    assert accounting.compose(np.empty((3, 0))).tolist() == [0, 0, 0]


# Conversion ----------------------------------------------------------------------------------------------------------


def remark_1(rho, alpha, delta):
    """Remark 1 of the paper, as it stands there."""
    return rho + math.log((alpha - 1) / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)


@at_any_order
@given(st.lists(st.tuples(st.floats(1.01, 100), st.floats(0, 50)), min_size=1, max_size=8), st.floats(1e-12, 0.5))
def test_conversion_is_the_paper_s_remark_at_the_best_order(curve, delta):
    alphas, leakage = (list(column) for column in zip(*curve, strict=True))
    plain = [remark_1(rho, alpha, delta) for alpha, rho in curve]
    found = accounting.to_dp(leakage, alphas, delta)
    # the offset near alpha = 1 is of size 1/(alpha - 1) <= 100 times ln(1/delta) <= 28
    assert float(found.epsilon) == pytest.approx(max(0.0, min(plain)), rel=1e-12, abs=1e-12)
    chosen = [value for value, alpha in zip(plain, alphas, strict=True) if alpha == float(found.order)]
    assert min(chosen) == pytest.approx(min(plain), rel=1e-12, abs=1e-12)


def test_conversion_agrees_with_opacus():
    rng = np.random.default_rng(0)
    leakage = np.sort(rng.uniform(0.1, 3, len(accounting.DEFAULT_ORDERS)))
    epsilon, order = opacus.get_privacy_spent(orders=list(accounting.DEFAULT_ORDERS), rdp=list(leakage), delta=1e-5)
    found = accounting.to_dp(leakage)
    assert float(found.epsilon) == pytest.approx(epsilon, rel=1e-12)  # the same five operations
    assert float(found.order) == order


def test_epsilon_is_never_negative():
    # a large delta makes the formula negative: 0 is then a valid and better statement
    assert remark_1(0.0, 10.0, 0.5) < 0
    assert accounting.to_dp([0.0], [10.0], 0.5).epsilon == 0
    assert accounting.schedule_epsilon(0.01, [1e8], delta=0.5).epsilon == 0


def test_infinite_leakage_takes_an_order_out():
    found = accounting.to_dp([math.inf, 1.0, math.inf], [2, 5, 9], 1e-5)
    assert found.order == 5
    assert accounting.to_dp([math.inf, math.inf], [2, 5]).epsilon == math.inf


@at_any_order
def test_conversion_keeps_leading_axes():
    leakage = np.random.default_rng(1).uniform(0, 3, (2, 3, 5))
    found = accounting.to_dp(leakage, [1.5, 2, 3, 8, 20])
    assert found.epsilon.shape == found.order.shape == (2, 3)
    for lane in np.ndindex(2, 3):
        assert found.epsilon[lane] == accounting.to_dp(leakage[lane], [1.5, 2, 3, 8, 20]).epsilon


def test_default_orders_are_those_of_opacus():
    assert list(accounting.DEFAULT_ORDERS) == list(RDPAccountant.DEFAULT_ALPHAS)


# Schedules -----------------------------------------------------------------------------------------------------------


def curve_epsilon(q, sigma, delta, alphas):
    """The composed curve at every order, then the best: what the fast search must reproduce."""
    curve = np.stack([accounting.compose(accounting.rdp(q, sigma, alpha)) for alpha in alphas], axis=-1)
    return accounting.to_dp(curve, alphas, delta)


schedules = st.lists(st.floats(-1.3, 6).map(lambda x: 10.0**x), min_size=1, max_size=6)
deltas = st.floats(-12, -0.31).map(lambda x: 10.0**x)


@at_any_order
@given(rates, schedules, deltas)
def test_the_search_over_orders_misses_nothing(q, sigma, delta):
    expected = curve_epsilon(q, np.array(sigma), delta, accounting.DEFAULT_ORDERS)
    found = accounting.schedule_epsilon(q, sigma, delta)
    # the same terms, added in another order
    assert float(found.epsilon) == pytest.approx(float(expected.epsilon), rel=1e-12, abs=1e-12)


@at_any_order
@given(rates, schedules, deltas, st.lists(st.floats(1.005, 70), min_size=1, max_size=9))
def test_the_search_takes_any_list_of_orders_in_any_order(q, sigma, delta, alphas):
    expected = curve_epsilon(q, np.array(sigma), delta, alphas)
    found = accounting.schedule_epsilon(q, sigma, delta, alphas)
    assert float(found.epsilon) == pytest.approx(float(expected.epsilon), rel=1e-12, abs=1e-12)
    assert float(found.order) in alphas


@at_any_order
@given(rates, st.lists(schedules, min_size=2, max_size=6))
def test_every_schedule_finds_its_own_best_order(q, many):
    """A search starts where the schedule before it ended: that must not show, however unlike they are."""
    length = max(len(one) for one in many)
    table = np.array([np.resize(one, length) for one in many])
    together = accounting.schedule_epsilon(q, table)
    for row, epsilon, order in zip(table, together.epsilon, together.order, strict=True):
        alone = accounting.schedule_epsilon(q, row)
        assert (alone.epsilon, alone.order) == (epsilon, order)


def test_schedule_epsilon_keeps_the_shape_of_the_lanes():
    sigma = np.random.default_rng(0).uniform(0.5, 5, (2, 3, 7))
    found = accounting.schedule_epsilon(0.01, sigma)
    assert found.epsilon.shape == found.order.shape == (2, 3)
    assert np.shape(accounting.schedule_epsilon(0.01, sigma[0, 0]).epsilon) == ()
    assert found.epsilon[1, 2] == accounting.schedule_epsilon(0.01, sigma[1, 2]).epsilon


def test_schedule_epsilon_does_not_depend_on_the_order_of_the_rounds():
    sigma = np.random.default_rng(0).uniform(0.5, 5, 40)
    # equal multipliers are sorted and counted, so even the last digit agrees
    assert accounting.schedule_epsilon(0.01, sigma).epsilon == accounting.schedule_epsilon(0.01, sigma[::-1]).epsilon


def test_schedule_epsilon_agrees_with_the_accountant_of_opacus():
    sigma = [0.9, 1.3, 2.0, 2.0, 5.0]
    accountant = RDPAccountant()
    for one in sigma:
        accountant.step(noise_multiplier=one, sample_rate=0.01)
    with warnings.catch_warnings():
        # Opacus sums a series for fractional orders and may warn where it does not converge
        warnings.simplefilter("ignore")
        expected = accountant.get_epsilon(delta=1e-5)
    # Opacus' own error at fractional orders: up to 5e-7 relative
    assert float(accounting.schedule_epsilon(0.01, sigma).epsilon) == pytest.approx(expected, rel=1e-6)


def test_integer_orders_alone_would_give_a_larger_epsilon():
    """Why the fractional orders are worth their trouble."""
    sigma = np.full(500, 0.8)
    integers = [alpha for alpha in accounting.DEFAULT_ORDERS if alpha == int(alpha)]
    best = accounting.schedule_epsilon(0.01, sigma)
    assert accounting.schedule_epsilon(0.01, sigma, orders=integers).epsilon > best.epsilon
    assert best.order != int(best.order)


@at_any_order
def test_arguments_are_left_untouched():
    sigma, alphas = np.array([3.0, 1.0, 2.0]), np.array([5.0, 2.0, 3.0])
    accounting.schedule_epsilon(0.1, sigma, orders=alphas)
    accounting.rdp(0.1, sigma, 3)
    assert sigma.tolist() == [3, 1, 2]
    assert alphas.tolist() == [5, 2, 3]
