"""Who listens: each row of the threat model against a computation of its own."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.stats import norm

from adascale import Scenario, accounting, channel
from companion.privacy import observers as listeners
from companion.privacy import peers
from companion.privacy.adversary import adversary
from companion.privacy.sharp import SharpAccountant, sharp_epsilon
from companion.results import folder
from tests.accounting.exact import gaussian_delta

RATE = 0.01
KEPT, PAIRED = (
    pd.read_csv(folder() / f"audit/{name}.csv", keep_default_na=False)
    for name in ("mnist", "paired")
)
BOUNDS = ["one_run", "rates", "scaled"]


@pytest.fixture(scope="module")
def table():
    return listeners.listeners_table(budgets=(0.16,), seeds=range(3))


def test_the_server_s_row_is_what_the_accountant_says(table):
    scenario = Scenario.mnist()
    epsilons = [
        float(sharp_epsilon(RATE, realisation.sigma))
        for realisation in listeners.realisations(scenario, 0.16, range(3))
    ]
    assert table.epsilon[0] == pytest.approx(np.median(epsilons), rel=1e-9)


@pytest.mark.parametrize("name", peers.PEERS)
def test_peers_are_asked_with_our_events(name):
    """Two phases, so that their order and that of a history matter; the Renyi bound is a quarter larger."""
    events = [(0.02, 0.8, 100), (0.01, 2.0, 90)]
    known = accounting.epsilon(events, 1e-5).estimate
    assert 0.99 < peers.PEERS[name](events, 1e-5) / known < 1.3


def test_sharp_epsilons_are_those_inside_the_certified_intervals():
    schedules = np.random.default_rng(0).uniform(0.8, 3.0, (2, 60))
    certified = [
        accounting.exact_epsilon(0.02, schedule, 1e-6) for schedule in schedules
    ]
    assert SharpAccountant().epsilon(0.02, schedules, 1e-6).tolist() == [
        interval.estimate for interval in certified
    ]


def test_a_stranger_hears_the_victim_by_the_ratio_of_two_fades():
    rng = np.random.default_rng(0)
    ratio = listeners.heard_better(
        np.random.default_rng(1), rng.exponential(size=40_000)
    )
    # the ratio of two exponential variables is F(2, 2): its median is 1 and its mean is infinite
    assert stats.kstest(ratio["stranger"], stats.f(2, 2).cdf).pvalue > 1e-3
    # negative control: three of them
    assert stats.kstest(ratio["antennas"] - 1, stats.f(2, 2).cdf).pvalue < 1e-3
    assert (ratio["antennas"] > 1).all()


def test_a_power_meter_s_multiplier_is_that_of_its_reading():
    sigma, dimension, norm, count = 0.8, 400, 30.0, 40_000
    rng = np.random.default_rng(2)

    def reading(length):  # the energy of a vector along one axis in complex noise
        first = (length + sigma * rng.standard_normal(count)) ** 2
        return first + sigma**2 * rng.chisquare(2 * dimension - 1, count)

    without = reading(norm)
    with_it = reading(norm + 1)
    multiplier = without.std() / (with_it.mean() - without.mean())
    # the shift is 2 x + 1, where the formula has 2 x
    assert multiplier * (1 + 0.5 / norm) == pytest.approx(
        float(listeners.energy_multiplier(sigma, dimension, norm)), rel=0.04
    )


def test_opposite_gradients_match_quadrature():
    def density(z, mean):
        return 0.8 * stats.norm.pdf(z) + 0.2 * stats.norm.pdf(z, mean)

    moment, _ = integrate.quad(
        lambda z: density(z, 1) ** 3 / density(z, -1) ** 2, -15, 20
    )
    expected = accounting.to_dp([math.log(moment) / 2], [3.0], 1e-5).epsilon
    epsilon = listeners.opposite_gradients(0.2, np.ones(1), orders=(3.0,))
    assert epsilon == pytest.approx(float(expected), rel=1e-8)


@pytest.mark.parametrize("sigma", [5e3, 2e4])
def test_a_whole_device_is_a_gaussian_mechanism_without_sampling(sigma):
    """By the formula of that mechanism, with the samples of all 500 rounds."""
    mu = math.sqrt(500 * 60**2 * (1 + 0.99 / 60)) / sigma
    epsilon = listeners.whole_device(Scenario.mnist(), np.full(500, sigma))
    delta = float(gaussian_delta(mu, epsilon))
    assert delta == pytest.approx(1e-5, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 9.0])
def test_one_round_without_sampling_is_the_gaussian_mechanism(epsilon):
    gain = adversary(epsilon, 1.0, 1)
    mu = 1 / gain.noise_multiplier
    delta = float(gaussian_delta(mu, epsilon))
    # a calibrated epsilon is at most the target, and at least 0.999 of it
    assert 0.98e-5 < delta <= 1e-5
    assert gain.guess == pytest.approx(norm.cdf(mu / 2), rel=1e-3)
    most = norm.cdf(norm.ppf(0.01) + mu)
    assert most <= gain.found <= 1.05 * most  # a bound, by tangents at 48 places


@pytest.mark.parametrize(
    ("table", "sure"), [(KEPT, ["rates", "scaled"]), (PAIRED, ["scaled"])]
)
def test_no_honest_training_is_refuted_and_every_broken_one_is(table, sure):
    broken = table.setting.isin(["no noise", "not clipped"])
    bounds = table[BOUNDS].apply(pd.to_numeric, errors="coerce")
    refuted = bounds.gt(table.accounted, axis=0)
    assert not refuted[~broken].any(axis=None)
    assert refuted[broken][sure].all(axis=None)
    assert ((table.refuted != "") == broken).all()
    assert (table.accounted <= table.renyi)[table.setting == "as claimed"].all()


def test_every_listener_hears_as_much_better_as_is_said(table):
    rows = table.set_index("listener")
    assert list(table.listener) == list(listeners.ROWS)
    epsilon = rows.epsilon
    sigma = rows.sigma
    # what is broadcast is computed from what was received, and back
    assert epsilon["server"] == epsilon["model"]
    louder = ["server", "quieter 3 dB", "quieter 6 dB", "neighbour"]
    assert epsilon[louder].is_monotonic_increasing
    far, near = channel.cost_hata_path_loss(np.array([200.0, 10.0]))
    for listener, better in (("quieter 3 dB", 10**0.3), ("neighbour", far / near)):
        ratio = sigma["server"] / sigma[listener]
        assert ratio == pytest.approx(math.sqrt(better))
    assert rows.beyond[["stranger", "neighbour"]].all()
    assert not rows.beyond["server"]
