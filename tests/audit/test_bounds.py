"""Lower bounds on epsilon: closed forms, coverage by simulation, and what they must not miss."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import accounting
from adascale.audit import Counts, clopper_pearson, one_run_bound, one_run_tail, rates_bound, scaled_bound

DELTA = 1e-5


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_tail_is_the_formula_of_the_theorem(delta):
    """Without delta it is that of randomised response."""
    m, r, v, epsilon = 60, 30, 24, 0.7
    chance = 1 / (1 + math.exp(-epsilon))

    def tail(least):  # f, by a plain sum
        return sum(math.comb(r, k) * chance**k * (1 - chance) ** (r - k) for k in range(max(least, 0), r + 1))

    steepest = max((tail(v - i) - tail(v)) / i for i in range(1, m + 1))
    assert one_run_tail(m, r, v, epsilon, delta) == pytest.approx(tail(v) + 2 * m * delta * steepest, rel=1e-10)


@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 1e-5, 1e-3]))
def test_the_tail_grows_with_epsilon_so_that_the_bound_is_where_it_crosses(canaries, asked, right, delta):
    guesses = round(asked * canaries)
    right = round(right * guesses)
    tails = [one_run_tail(canaries, guesses, right, epsilon, delta) for epsilon in np.linspace(0, 8, 30)]
    assert (np.diff(tails) >= -1e-12).all()
    bound = one_run_bound(canaries, guesses, right, delta, 0.95)
    assert bound >= 0
    if bound:
        assert one_run_tail(canaries, guesses, right, bound, delta) == pytest.approx(0.05, abs=1e-6)


def test_all_guesses_right_say_what_a_product_says_and_chance_says_nothing():
    chance = 0.05 ** (1 / 90)  # chance ** r = doubt
    assert one_run_bound(200, 90, 90, 0.0, 0.95) == pytest.approx(math.log(chance / (1 - chance)), rel=1e-8)
    even = Counts(100, 50, 100, 50)
    assert one_run_bound(1000, 500, 260, DELTA, 0.95) == one_run_bound(1000, 500, 0, DELTA, 0.95) == 0
    assert rates_bound(even, DELTA, 0.95) == scaled_bound(even, 0.1, np.ones(5), DELTA, 0.95) == 0


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_randomised_response_is_under_the_bound_no_more_often_than_stated(epsilon):
    # the mechanism that the theorem is tight for; 2,000 runs, so four standard errors are 0.02
    rng = np.random.default_rng(1)
    right, times = np.unique(rng.binomial(400, 1 / (1 + math.exp(-epsilon)), 2000), return_counts=True)
    wrong = sum(times[[one_run_bound(400, 400, int(v), 0.0, 0.9) > epsilon for v in right]]) / 2000
    assert 0.05 < wrong < 0.12  # the upper end is the claim; the lower: it is tight, and no bound of nothing


def gaussian_counts(rng, trials, mu, threshold):
    """Alarms where N(mu, 1) is told from N(0, 1)."""
    hits = (rng.binomial(trials, stats.norm.sf(threshold - mean)) for mean in (mu, 0))
    return Counts(trials, next(hits), trials, next(hits))


def test_the_gaussian_mechanism_is_under_its_true_epsilon_as_often_as_stated():
    rng, mu = np.random.default_rng(2), 1.0
    epsilon = accounting.exact_epsilon(1.0, np.array([1 / mu]), DELTA).lower
    # against the best that this threshold can show at all, which is far below epsilon
    true, false = stats.norm.sf(1.5 - mu), stats.norm.sf(1.5)
    best = math.log((true - DELTA) / false)
    assert best < epsilon
    found = [rates_bound(gaussian_counts(rng, 1000, mu, 1.5), DELTA, 0.9) for _ in range(1000)]
    assert np.mean(np.array(found) > best) <= 0.1
    assert np.median(found) > 0.7 * best  # and they see most of it


def test_the_scaled_bound_comes_near_stays_below_and_finds_half_the_noise():
    rng, sigma = np.random.default_rng(3), np.full(3, 1.5)
    mu, exact = math.sqrt(3) / 1.5, accounting.exact_epsilon(1.0, sigma, DELTA)
    # the likelihood ratio is above 1 where the normal variable is above mu / 2
    found = [scaled_bound(gaussian_counts(rng, 4000, mu, mu / 2), 1.0, sigma, DELTA, 0.95) for _ in range(8)]
    assert max(found) <= exact.lower
    assert min(found) > 0.85 * exact.lower
    counts = gaussian_counts(rng, 400, 2 * mu, mu)  # of half the noise that is claimed
    assert scaled_bound(counts, 1.0, sigma, DELTA, 0.95) > exact.upper
    assert scaled_bound(counts, 1.0, sigma / 2, DELTA, 0.95) < 2.5 * exact.upper  # negative control: claimed rightly


def test_the_rates_bound_is_the_ratio_of_the_ends_of_both_intervals():
    true, false = (stats.binomtest(hits, 200).proportion_ci(0.95, method="exact") for hits in (80, 3))
    assert rates_bound(Counts(200, 80, 200, 3), DELTA, 0.95) == pytest.approx(math.log((true.low - DELTA) / false.high))
    never_missed = Counts(1000, 1000, 1000, 500)
    assert rates_bound(never_missed, DELTA, 0.95) > 4  # by the misses; the alarms alone say ln 2 at most


@given(st.integers(1, 2000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_interval_is_the_exact_one_of_scipy(trials, share, confidence):
    hits = round(share * trials)
    exact = stats.binomtest(hits, trials).proportion_ci(confidence, method="exact")
    np.testing.assert_allclose(
        clopper_pearson(hits, trials, confidence), (exact.low, exact.high), rtol=1e-9, atol=1e-12
    )


BAD = [
    ("guesses", lambda: one_run_tail(10, 11, 3, 1, 0)),
    ("right", lambda: one_run_tail(10, 5, 6, 1, 0)),
    ("epsilon", lambda: one_run_tail(10, 5, 3, -1, 0)),
    ("delta", lambda: one_run_tail(10, 5, 3, 1, 1)),
    ("canaries", lambda: one_run_tail(1000, 5, 3, 1, 1e-2)),
    ("confidence", lambda: one_run_bound(10, 5, 3, 0, 1)),
    ("hits", lambda: clopper_pearson(3, 2, 0.9)),
    ("hits", lambda: rates_bound(Counts(2, 3, 2, 1), 0, 0.9)),
]


@pytest.mark.parametrize(("name", "call"), BAD)
def test_bad_arguments_are_refused(name, call):
    with pytest.raises(ValueError, match=name):
        call()
