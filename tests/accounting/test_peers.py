"""Numbers that others have published, the wrong ones too: literal, so that they stay; 50-digit arithmetic decides."""

import math

import numpy as np
import pytest

from adascale import accounting

from .. import reference
from . import exact


def classic(orders, leakage, delta):
    """The conversion of Mironov (2017), Proposition 3, which stood in the peers until 2020; Remark 1 gives less."""
    epsilons = [rho - math.log(delta) / (alpha - 1) for alpha, rho in zip(orders, leakage, strict=True)]
    best = int(np.argmin(epsilons))
    return epsilons[best], orders[best]


def test_one_reference_agrees_with_the_other():
    points = [(0.01, 2.5, 1.5), (0.01, 0.35, 1.6), (0.01, 10.0, 1.25), (0.5, 1.0, 1.01), (0.9, 3.0, 63.5), (0.3, 2, 3)]
    for point in points:  # both keep more digits than a double
        assert exact.rdp(*point) == pytest.approx(reference.rdp(*point), rel=1e-15)


# dp-accounting 0.6.0, RdpAccountant([1.5]) with PoissonSampledDpEvent(0.01, GaussianDpEvent(2.5)). Its own
# test_compute_rdp_poisson_sampled_gaussian expects fifty times this, 6.70579741e-04.
DP_ACCOUNTING = 1.34115948e-05
# TensorFlow Privacy, compute_dp_sgd_privacy_test.py, test_compute_dp_sgd_example_privacy, case
# microbatching_with_subsampling_rdp: 1.2 epochs at q = 0.01 are 120 steps, and noise 0.7 is halved by microbatching.
TENSORFLOW_PRIVACY = 22.6248601
# autodp 0.2.3.1, AmplificationBySampling(PoissonSampling=True)(ExactGaussianMechanism(2.5), 0.01).get_RDP(1.5): a bound
AUTODP = 1.7350936570774915e-05


def test_dp_accounting_and_autodp_are_off_at_order_one_and_a_half():
    truth = exact.rdp(0.01, 2.5, 1.5)
    assert float(accounting.rdp(0.01, 2.5, 1.5)) == pytest.approx(truth, rel=1e-13, abs=0)
    assert DP_ACCOUNTING / truth - 1 == pytest.approx(0.0315, abs=5e-5)
    assert AUTODP / truth - 1 == pytest.approx(0.335, abs=1e-3)  # its bound is above by a third
    # what TensorFlow Privacy expected of fifty steps while it had an accountant of its own, to the digits given
    assert 50 * truth == pytest.approx(0.00065, abs=5e-7)


def test_tensorflow_privacy_is_above_the_least_epsilon():
    truth = {alpha: 120 * exact.rdp(0.01, 0.35, alpha) for alpha in (1.5, 1.6, 1.7)}
    offset = {alpha: math.log((alpha - 1) / alpha) - math.log(1e-5 * alpha) / (alpha - 1) for alpha in truth}
    epsilon = {alpha: rho + offset[alpha] for alpha, rho in truth.items()}
    found = accounting.schedule_epsilon(0.01, np.full(120, 0.35), 1e-5)
    assert min(epsilon, key=epsilon.get) == found.order == 1.6
    assert float(found.epsilon) == pytest.approx(epsilon[1.6], rel=1e-12)
    assert round(float(found.epsilon), 3) == 22.597
    # they choose order 1.7, and are above the truth there too: the leakages are those of dp-accounting
    assert TENSORFLOW_PRIVACY - epsilon[1.7] == pytest.approx(0.0270, abs=5e-5)


def test_the_tutorial_of_tensorflow_privacy_spends_3_01():
    """tutorials/README.md: N = 60000, batch 256, noise 1.1, 60 epochs, delta 1e-5."""
    orders, steps = accounting.DEFAULT_ORDERS, math.ceil(60 * 60000 / 256)
    leakage = [steps * float(accounting.rdp(256 / 60000, 1.1, alpha)) for alpha in orders]
    epsilon, order = classic(orders, leakage, 1e-5)
    assert round(epsilon, 2) == 3.01
    assert order == 8.8
    assert steps * exact.rdp(256 / 60000, 1.1, 8.8) == pytest.approx(leakage[orders.index(8.8)], rel=1e-13)
    # today's conversion says less of the same training
    today = accounting.schedule_epsilon(256 / 60000, np.full(steps, 1.1)).epsilon
    assert float(today) == pytest.approx(2.597, abs=5e-4)


def test_the_example_of_abadi_and_others_spends_1_2586():
    """Abadi et al. (2016), against strong composition: q = 0.01, sigma = 4, T = 10,000, delta = 1e-5, moments 1 to 32.

    They print 1.26; no source is known for the other two digits.  A moment of order k is (alpha - 1) rho at
    alpha = k + 1, and their bound is the classic one.
    """
    orders = list(range(2, 34))
    leakage = [10_000 * float(accounting.rdp(0.01, 4.0, alpha)) for alpha in orders]
    epsilon, order = classic(orders, leakage, 1e-5)
    assert round(epsilon, 4) == 1.2586
    assert order == 20
    assert 10_000 * exact.rdp(0.01, 4.0, 20) == pytest.approx(leakage[18], rel=1e-12)


def test_the_composition_of_tensorflow_privacy_spends_8_5097():
    """rdp_accountant_test.py, test_check_composition, before its removal: 8.509656 at order 2.5, delta 1e-5."""
    orders = [1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0]
    orders += [64.0, 256.0]
    rdp = accounting.rdp
    leakage = [40_000 * float(rdp(1e-4, 0.4, alpha)) + 100 * float(rdp(0.1, 2.0, alpha)) for alpha in orders]
    epsilon, order = classic(orders, leakage, 1e-5)
    assert epsilon == pytest.approx(8.509656, abs=5e-7)
    assert order == 2.5
    truth = 40_000 * exact.rdp(1e-4, 0.4, 2.5) + 100 * exact.rdp(0.1, 2.0, 2.5)
    assert truth == pytest.approx(leakage[orders.index(2.5)], rel=1e-13)
    assert float(accounting.to_dp(leakage, orders, 1e-5).epsilon) < epsilon


# From the 1,344 rows of autodp's test/unit_test_dp_sgd_poisson_sampling_add_remove.py (commit 06489ea), which has them
# from TensorFlow Privacy: q, sigma, order, leakage of one step
AUTODP_TABLE = """
    0.01 0.1 1.25 39.47435359280898, 0.01 0.1 4 193.85977308534916, 0.01 0.1 128 6395.3585686314445,
    0.01 0.25 1.25 0.1103603174246269, 0.01 0.25 2 6.790784234628705, 0.01 0.25 64 507.3217318745518,
    0.01 0.5 2.25 0.0083541177519165, 0.01 0.5 4.5 3.0791796010526946, 0.01 1 1.25 0.00010539800475567958,
    0.01 1 25 7.70294772682218, 0.01 10 1.25 6.280881026314128e-07, 0.01 10 2.25 1.1306714441161602e-06,
    0.05 0.1 10 496.67140858493997, 0.05 0.25 4 28.005690301928013, 0.05 2 4.5 0.0016581138661999515,
    0.1 0.25 4.5 33.03953345186479, 0.1 1 4 0.05867260696008058, 0.1 1 10 2.4428163733756034,
    0.1 2 64 5.6608672584152, 0.1 10 2 0.00010049662088720303, 0.2 0.5 4 5.85411562333582,
    0.2 10 128 0.03281124876177494, 1 1 8.5 4.25, 1 10 2.5 0.0125"""


@pytest.mark.parametrize("row", AUTODP_TABLE.split(","))
def test_the_table_of_autodp_is_met_where_it_is_right(row):
    q, sigma, alpha, printed = map(float, row.split())
    truth = exact.rdp(q, sigma, alpha)
    assert float(accounting.rdp(q, sigma, alpha)) == pytest.approx(truth, rel=1e-13, abs=0)
    # the worst of its 228 rows of one step is 6.3e-9 off, at (0.01, 10, 1.25)
    assert printed == pytest.approx(truth, rel=1e-8, abs=0)
