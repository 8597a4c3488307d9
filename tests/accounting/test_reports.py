"""The report on an epsilon, and the Gaussian mechanism that leaks as much."""

import json

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq

from adascale.accounting import advantage, beta, epsilon, gaussian_mu, report

from .test_events import gaussian_delta

EVENTS = [(0.01, 1.0, 500), (0.02, 1.5, 500)]


@pytest.mark.parametrize("sigma", [0.02, 2.0, 300.0])
def test_mu_of_a_gaussian_mechanism_is_its_own(sigma):
    found = gaussian_mu([(1, 4 * sigma, 16)], 1e-6)
    assert found.lower * (1 - 1e-9) <= 1 / sigma <= found.upper
    assert found.upper < 1.005 / sigma


def test_mu_of_sampled_rounds_encloses_that_of_dp_accounting():
    loss = dp.pld.privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.02, value_discretization_interval=5e-4
    ).self_compose(300)
    found = gaussian_mu([(0.02, 1.0, 300)], 1e-5)
    grid = np.linspace(0, epsilon([(0.02, 1.0, 300)], 1e-5).lower, 200)
    truth = max(
        brentq(lambda mu, at=at, of=of: gaussian_delta(mu, at) - of, 0.01, 9)
        for at, of in zip(grid, loss.get_delta_for_epsilon(grid), strict=True)
    )
    assert found.lower * (1 - 1e-3) <= truth <= found.upper
    assert found.upper < 1.005 * found.lower


def test_mu_of_nothing_is_zero():
    assert gaussian_mu([], 1e-5).upper == gaussian_mu([(1, 9e9, 1)], 0.7).upper == 0


def test_a_report_has_the_numbers_of_the_library():
    found = report(EVENTS, 1e-5, unit="one person")
    numbers = [value for value in found.values() if isinstance(value, float)]
    rates = beta(EVENTS, [0.01, 0.001]).astype(float)
    mu = gaussian_mu(EVENTS, 1e-5).upper
    of_epsilon = epsilon(EVENTS, 1e-5).upper
    assert numbers == [of_epsilon, 1e-5, advantage(EVENTS).upper, *(1 - rates), mu]
    assert {"one person", "Poisson"} <= {*found.values()}
    assert found["rounds"] == 1000
    assert json.loads(json.dumps(found)) == found
    assert len(str(found).splitlines()) == len(found)
    assert found._repr_markdown_().count("\n") == len(found) + 2
