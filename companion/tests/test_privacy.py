"""Who listens: each row of the threat model against a computation of its own."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.stats import norm

from adascale import Scenario, accounting, channel
from adascale.accounting import exact_epsilon
from companion.privacy import audits
from companion.privacy import observers as listeners
from companion.privacy.adversary import adversary, matched_noise
from companion.privacy.audits import (
    SETTINGS,
    Size,
    audit_rows,
    paired_rows,
)
from companion.privacy.sharp import SharpAccountant, sharp_epsilon
from companion.results import folder

RATE = 0.01
KEPT, PAIRED = (
    pd.read_csv(folder() / f"audit/{name}.csv", keep_default_na=False)
    for name in ("mnist", "paired")
)
BOUNDS = ["one_run", "rates", "scaled"]


@pytest.fixture(scope="module")
def table():
    return listeners.listeners_table(budgets=(0.16,), seeds=range(3))


def test_every_listener_has_a_row_with_what_would_restore_it(table):
    assert list(table.listener) == list(listeners.ROWS)
    assert (table.restored != "").all()
    epsilon = table.set_index("listener").epsilon
    assert (
        epsilon["server"] == epsilon["model"]
    )  # what is broadcast is computed from what was received, and back
    assert (
        epsilon["server"]
        < epsilon["quieter 3 dB"]
        < epsilon["quieter 6 dB"]
        < epsilon["neighbour"]
    )
    assert epsilon["stranger"] < epsilon["three strangers"]
    sigma = table.set_index("listener").sigma
    assert sigma["server"] / sigma["quieter 3 dB"] == pytest.approx(math.sqrt(10**0.3))
    far, near = channel.cost_hata_path_loss(np.array([200.0, 10.0]))
    assert sigma["server"] / sigma["neighbour"] == pytest.approx(math.sqrt(far / near))
    assert table.set_index("listener").beyond[["stranger", "neighbour"]].all()
    assert epsilon["server"] < 1 < 10 < epsilon["stranger"] < epsilon["neighbour"]
    assert not table.beyond[0]


def test_the_server_s_row_is_what_the_accountant_says(table):
    scenario = Scenario.mnist()
    each = [
        float(sharp_epsilon(RATE, one.sigma))
        for one in listeners.realisations(scenario, 0.16, range(3))
    ]
    assert table.epsilon[0] == pytest.approx(np.median(each), rel=1e-9)


def test_sharp_epsilons_are_those_inside_the_certified_intervals():
    lanes = np.random.default_rng(0).uniform(0.8, 3.0, (2, 60))
    found = [accounting.exact_epsilon(0.02, lane, 1e-6) for lane in lanes]
    assert SharpAccountant().epsilon(0.02, lanes, 1e-6).tolist() == [
        each.estimate for each in found
    ]
    with pytest.raises(ValueError, match=r"^noise_multiplier must be"):
        sharp_epsilon(0.02, [1.0, -1.0])
    lost = accounting.epsilon([(1e-6, 0.5, 10_000)], 1e-12)
    assert sharp_epsilon(1e-6, np.full(10_000, 0.5), 1e-12) == pytest.approx(
        lost.estimate, rel=0.01
    )


def test_a_stranger_hears_the_victim_by_the_ratio_of_two_fades():
    rng = np.random.default_rng(0)
    ratio = listeners.heard_better(
        np.random.default_rng(1), rng.exponential(size=40_000)
    )
    # the ratio of two exponential variables is F(2, 2): its median is 1 and its mean is infinite
    assert stats.kstest(ratio["stranger"], stats.f(2, 2).cdf).pvalue > 1e-3
    assert (
        stats.kstest(ratio["antennas"] - 1, stats.f(2, 2).cdf).pvalue < 1e-3
    )  # negative control: three of them
    assert (ratio["antennas"] > 1).all()


def test_a_power_meter_s_multiplier_is_that_of_its_reading():
    sigma, dimension, norm, count = 0.8, 400, 30.0, 40_000
    rng = np.random.default_rng(2)

    def reading(length):  # the energy of a vector along one axis in complex noise
        first = (length + sigma * rng.standard_normal(count)) ** 2
        return first + sigma**2 * rng.chisquare(2 * dimension - 1, count)

    without, with_it = reading(norm), reading(norm + 1)
    found = without.std() / (with_it.mean() - without.mean())
    # the shift is 2 x + 1, where the formula has 2 x
    assert found * (1 + 0.5 / norm) == pytest.approx(
        float(listeners.energy_multiplier(sigma, dimension, norm)), rel=0.04
    )
    assert listeners.energy_multiplier(1e-3, dimension, norm) == pytest.approx(
        1e-3, rel=1e-6
    )  # near: as good as all


def test_opposite_gradients_without_sampling_are_a_gaussian_at_twice_the_distance():
    sigma = np.full(3, 4.0)
    expected = float(accounting.schedule_epsilon(1.0, sigma / 2, 1e-5).epsilon)
    almost = listeners.opposite_gradients(1 - 1e-12, sigma)
    assert almost == pytest.approx(expected, rel=1e-6)


def test_one_round_of_opposite_gradients_is_the_divergence_by_quadrature():
    q, sigma, order = 0.2, 1.0, 3.0

    def density(z, mean):
        return (1 - q) * stats.norm.pdf(z, 0, sigma) + q * stats.norm.pdf(
            z, mean, sigma
        )

    moment, _ = integrate.quad(
        lambda z: density(z, 1) ** order * density(z, -1) ** (1 - order), -15, 20
    )
    expected = accounting.to_dp([math.log(moment) / (order - 1)], [order], 1e-5).epsilon
    found = listeners.opposite_gradients(q, np.array([sigma]), orders=(order,))
    assert found == pytest.approx(float(expected), rel=1e-8)


@pytest.mark.parametrize("sigma", [5e3, 2e4])
def test_a_whole_device_is_a_gaussian_mechanism_without_sampling(sigma):
    """Against the exact accountant, of one round with the noise of all 500."""
    mu = math.sqrt(500 * 60**2 * (1 + 0.99 / 60)) / sigma
    exact = accounting.exact_epsilon(1.0, np.array([1 / mu]), 1e-5)
    assert listeners.whole_device(
        Scenario.mnist(), np.full(500, sigma)
    ) == pytest.approx(exact.estimate, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 9.0])
def test_one_round_without_sampling_is_the_gaussian_mechanism(epsilon):
    found = adversary(epsilon, 1.0, 1)
    mu = 1 / found.noise_multiplier
    delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(
        -mu / 2 - epsilon / mu
    )
    assert delta == pytest.approx(1e-5, rel=1e-3)  # sigma is known to a millionth
    assert found.guess == pytest.approx(norm.cdf(mu / 2), rel=1e-3)
    most = norm.cdf(norm.ppf(0.01) + mu)
    assert most <= found.found <= 1.05 * most  # a bound, by tangents at 48 places


def losses(sigma, rate, rounds, rng, *, used, runs=20_000):
    """ln(P/Q) of simulated trainings in the dominating pair, as the adversary computes it."""
    total = np.zeros(runs)
    for _ in range(rounds):
        drawn = rng.random(runs) < rate if used else np.zeros(runs, bool)
        output = drawn + sigma * rng.standard_normal(runs)
        total += np.log1p(rate * np.expm1((2 * output - 1) / (2 * sigma**2)))
    return total


def test_the_best_attack_on_simulated_trainings_gains_what_is_computed():
    rate, rounds = 0.1, 20
    found, rng = adversary(3.0, rate, rounds), np.random.default_rng(0)

    def attack(sigma):
        without, with_it = (
            losses(sigma, rate, rounds, rng, used=used) for used in (False, True)
        )
        guess = (np.mean(with_it > 0) + np.mean(without <= 0)) / 2
        return guess, np.mean(with_it > np.quantile(without, 0.99))

    guess, hits = attack(found.noise_multiplier)
    assert guess == pytest.approx(
        found.guess, abs=4 / np.sqrt(40_000)
    )  # four standard errors, at most
    assert (
        found.found - 0.03 < hits < found.found + 0.015
    )  # the quantile of 20,000 runs, and a bound by tangents
    guess, hits = attack(found.noise_multiplier / 2)  # negative control: half the noise
    assert guess > found.guess + 0.05
    assert hits > found.found + 0.1


def test_the_matched_noise_has_the_epsilon():
    sigma = matched_noise(2.0, 0.02, 100, 1e-6)
    found = exact_epsilon(0.02, np.full(100, sigma), 1e-6)
    assert found.lower <= 2.0 * (1 + 1e-5)
    assert found.upper >= 2.0 * (1 - 1e-5)


@pytest.mark.parametrize(
    ("table", "sure"), [(KEPT, ["rates", "scaled"]), (PAIRED, ["scaled"])]
)
def test_no_honest_training_is_refuted_and_every_broken_one_is(table, sure):
    bounds = table[BOUNDS].apply(pd.to_numeric, errors="coerce")
    refuted = bounds.gt(table.accounted, axis=0)
    broken, claimed = (
        table.setting.isin(["no noise", "not clipped"]),
        table.setting == "as claimed",
    )
    assert not refuted[~broken].any(axis=None)
    assert refuted[broken][sure].all(axis=None)
    assert ((table.refuted != "") == broken).all()
    assert (table.accounted <= table.renyi)[claimed].all()
    assert (
        bounds[claimed][["one_run", "rates"]]
        .lt(table.accounted[claimed] / 3, axis=0)
        .all(axis=None)
    )
    if table is PAIRED:
        assert refuted[broken & (table.nu == table.nu.max())].all(axis=None)


def test_the_tables_are_made_as_they_are_stored(monkeypatch):
    whole = audits._given  # noqa: SLF001
    monkeypatch.setattr(
        audits, "_given", lambda dataset, nu, rounds: whole(dataset, nu, rounds or 8)
    )  # for time
    made = pd.DataFrame(audit_rows("digits", 2.56, Size(50, 1, 50, 20, 5)))
    assert list(made.columns) == list(KEPT.columns)
    assert made.rounds.tolist() == [8, 5, 5, 8]
    assert made.kind.tolist() == ["gradients"] * 3 + ["samples"]
    paired = pd.DataFrame(paired_rows(0.64, 10, 10, 1))
    assert list(paired.columns) == list(PAIRED.columns)
    assert list(paired.setting) == list(made.setting) == list(SETTINGS)
    assert paired.kind.tolist() == ["paired"] * 3 + ["paired samples"]
    assert (paired.runs == 10).all()
    assert paired.accounted.nunique() == 1
