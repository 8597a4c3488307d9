"""What an epsilon lets an adversary do: against closed forms and against a simulated attack."""

import numpy as np
import pytest
from scipy.stats import norm

from adascale.accounting import exact_epsilon
from companion.privacy.adversary import adversary, matched_noise


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 9.0])
def test_one_round_without_sampling_is_the_gaussian_mechanism(epsilon):
    found = adversary(epsilon, 1.0, 1)
    mu = 1 / found.noise_multiplier
    delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-3)  # sigma is known to a millionth
    assert found.beyond == pytest.approx(norm.cdf(mu / 2 - epsilon / mu), rel=1e-3)  # a central difference
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


def test_the_best_attack_on_simulated_trainings_gains_what_is_promised_and_no_more():
    rate, rounds = 0.1, 20
    found, rng = adversary(3.0, rate, rounds), np.random.default_rng(0)

    def attack(sigma):
        without, with_it = (losses(sigma, rate, rounds, rng, used=used) for used in (False, True))
        guess = (np.mean(with_it > 0) + np.mean(without <= 0)) / 2
        return guess, np.mean(with_it > np.quantile(without, 0.99))

    guess, hits = attack(found.noise_multiplier)
    assert guess == pytest.approx(found.guess, abs=4 / np.sqrt(40_000))  # four standard errors, at most
    assert found.found - 0.03 < hits < found.found + 0.015  # the quantile of 20,000 runs, and a bound by tangents
    guess, hits = attack(found.noise_multiplier / 2)  # negative control: half the noise
    assert guess > found.guess + 0.05
    assert hits > found.found + 0.1


def test_less_epsilon_needs_more_noise_and_leaves_the_adversary_less():
    weak, middle, strong = (adversary(epsilon, 0.01, 500) for epsilon in (9.0, 3.0, 1.0))
    assert weak.noise_multiplier < middle.noise_multiplier < strong.noise_multiplier
    for more, less in ((weak, middle), (middle, strong)):
        assert more.guess > less.guess > 0.5
        assert more.found > less.found > 0.01
        assert more.posterior > less.posterior
    for one in (weak, middle, strong):
        assert one.found <= one.odds * 0.01 + 1e-5
        assert 1e-5 < one.beyond < 1e-3  # more than delta, and rare


def test_the_matched_noise_has_the_epsilon():
    sigma = matched_noise(2.0, 0.02, 100, 1e-6)
    found = exact_epsilon(0.02, np.full(100, sigma), 1e-6)
    assert found.lower <= 2.0 * (1 + 1e-5)
    assert found.upper >= 2.0 * (1 - 1e-5)


@pytest.mark.parametrize(
    ("values", "named"),
    [((0.0, 0.01, 500), "epsilon"), ((1.0, 0.0, 500), "sampling_rate"), ((1.0, 0.01, 0), "rounds")]
    + [((1.0, 0.01, 500, 2.0), "delta"), ((1.0, 0.01, 500, 1e-5, 0.0), "false_alarms")],
)
def test_bad_input_is_named(values, named):
    with pytest.raises(ValueError, match=named):
        adversary(*values)
