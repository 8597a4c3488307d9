"""Audits of real trainings: below the accounted epsilon, and above it once something is broken."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import (
    ReceiveScalingProblem,
    Scenario,
    accounting,
    audit,
    channel,
    policies,
)
from adascale.audit.canaries import audited_devices, batch_of, unit
from adascale.audit.conclusions import simulated_scores
from adascale.learning import Diverged, Training, data, fedsgd, train

ROUNDS, NU = 20, 2.56
SCENARIO = replace(Scenario.digits(), num_rounds=ROUNDS)


@cache
def digits():
    return data.load("digits")


@cache
def problem_and_schedule():
    gain = channel.draw(SCENARIO.num_devices, ROUNDS, seed=0).gain
    problem = ReceiveScalingProblem(SCENARIO, SCENARIO.min_gain(gain), NU)
    return problem, policies.Optimal().schedule(problem)


@cache
def audited(canaries=1000, seed=0, **how):
    problem, w = problem_and_schedule()
    return audit.audit_gradients(
        problem, w, Training.preset("digits"), digits(), seed, canaries, **how
    )


def test_the_score_is_the_logarithm_of_two_densities():
    y, q, sigma = np.linspace(-3, 4, 30), 0.2, 0.8
    mixture = (1 - q) * stats.norm.pdf(y, 0, sigma) + q * stats.norm.pdf(y, 1, sigma)
    np.testing.assert_allclose(
        audit.log_likelihood_ratio(y, q, sigma),
        np.log(mixture / stats.norm.pdf(y, 0, sigma)),
    )
    np.testing.assert_allclose(
        audit.log_likelihood_ratio(y, 1.0, sigma), (y - 0.5) / sigma**2
    )


def test_at_a_threshold_of_zero_the_alarms_differ_by_the_exact_delta_of_epsilon_zero():
    rng, q, sigma, count = np.random.default_rng(0), 0.2, np.full(30, 1.5), 40_000
    inside, outside = (
        simulated_scores(rng, q, sigma, count, each) > 0 for each in (True, False)
    )
    exact = accounting.exact_delta(q, sigma, 0.0).delta
    assert inside.mean() - outside.mean() == pytest.approx(
        exact, abs=4 * math.sqrt(0.5 / count)
    )
    assert inside.mean() - outside.mean() != pytest.approx(
        accounting.exact_delta(q, 2 * sigma, 0.0).delta, abs=0.02
    )


def test_a_gradient_canary_is_heard_where_it_was_sent_and_nowhere_else():
    canaries = audit.GradientCanaries.draw(SCENARIO, 300, seed=1, norm=10)
    chosen = np.array([3, 77, 250])
    sent = canaries.signal(SCENARIO, chosen, torch.zeros(SCENARIO.num_parameters))
    expected = np.zeros(300)
    expected[chosen] = 10
    np.testing.assert_allclose(canaries.heard(SCENARIO, sent), expected, rtol=1e-6)
    assert float(sent.norm()) == pytest.approx(
        10 * math.sqrt(3) * unit(SCENARIO), rel=1e-6
    )


def test_half_of_the_canaries_are_in_and_only_these_enter_batches_at_the_sampling_rate():
    canaries = audit.GradientCanaries.draw(SCENARIO, 9000, seed=2)
    assert abs(canaries.present.mean() - 0.5) < 4 * 0.5 / math.sqrt(9000)
    drawn = np.concatenate([batch_of(canaries.present, 0.2, 2, t) for t in range(50)])
    assert canaries.present[drawn].all()
    expected = 50 * 0.2 * canaries.present.sum()
    assert abs(drawn.size - expected) < 4 * math.sqrt(expected)
    assert set(batch_of(canaries.present, 0.2, 2, 0)) != set(
        batch_of(canaries.present, 0.2, 2, 1)
    )
    sizes = replace(
        SCENARIO, batch_size=(30.0,) * 9 + (15.0,)
    )  # only who has the guarantee of the first holds any
    np.testing.assert_array_equal(audited_devices(sizes), range(9))
    np.testing.assert_array_equal(audited_devices(SCENARIO), range(10))


def test_without_canaries_it_is_the_training_of_the_package():
    problem, w = problem_and_schedule()
    absent = replace(
        audit.GradientCanaries.draw(SCENARIO, 10, 0), present=np.zeros(10, dtype=bool)
    )
    accuracy, last = audit.observe(
        problem, w, Training.preset("digits"), digits(), 0, absent
    )
    usual = train(problem, w, Training.preset("digits"), digits(), 0)
    torch.testing.assert_close(last.parameters, usual.state.parameters, rtol=0, atol=0)
    assert accuracy == usual.history.accuracy.iloc[-1]


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_what_is_left_when_the_data_are_taken_off_is_the_noise_that_the_accountant_believes_in(
    share,
):
    problem, w = problem_and_schedule()
    part = replace(SCENARIO, privacy_noise_power=share * SCENARIO.noise_power)
    problem = ReceiveScalingProblem(part, problem.min_gain, problem.budget)
    absent = replace(
        audit.GradientCanaries.draw(SCENARIO, 4000, 0),
        present=np.zeros(4000, dtype=bool),
    )
    heard = []
    given = (problem, w, Training.preset("digits"), digits(), 0, absent)
    audit.observe(
        *given, lambda t, residual: heard.append(absent.heard(SCENARIO, residual))
    )
    squares = (np.array(heard) / problem.noise_multiplier(w)[0][:, None]) ** 2
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], squares.size)
    assert low < squares.sum() < high
    assert (
        not low < squares.sum() / 1.05**2 < high
    )  # negative control: five per cent more is seen


def test_the_bounds_stay_below_the_accounted_epsilon_and_come_near():
    found = audited(9000)
    assert found.refuted == {}
    assert 0 < found.one_run < found.accounted < found.renyi
    assert 0 < found.rates < found.accounted
    assert 0.55 * found.accounted < found.scaled < found.accounted
    assert found.lower == max(found.one_run, found.rates)
    assert found.accuracy > 0.15  # it is a training, though a short one


def test_what_is_broken_is_found(monkeypatch):
    found = audited(noise=False)
    assert {"one_run", "rates"} <= set(found.refuted)
    assert found.right == found.guesses
    assert {"rates", "scaled"} <= set(audited(norm=10.0).refuted)
    real = fedsgd.real_receiver_noise
    monkeypatch.setattr(fedsgd, "real_receiver_noise", lambda *given: real(*given) / 2)
    assert "scaled" in audited(4000, seed=1).refuted


def test_several_trainings_are_pooled_and_one_that_diverges_is_no_audit():
    both = audited(500, runs=2)
    assert (both.runs, both.canaries) == (2, 1000)
    assert both.refuted == {}
    with pytest.raises(Diverged):
        audit_of(*problem_and_schedule(), learning_rate=1e39)


def audit_of(problem, w, **changes):
    return audit.audit_gradients(
        problem, w, replace(Training.preset("digits"), **changes), digits(), 0, 20
    )


REFUSED = [
    ("guesses", lambda *_: audit.one_run_tail(10, 11, 3, 1, 0)),
    ("right", lambda *_: audit.one_run_tail(10, 5, 6, 1, 0)),
    ("epsilon", lambda *_: audit.one_run_tail(10, 5, 3, -1, 0)),
    ("delta", lambda *_: audit.one_run_tail(10, 5, 3, 1, 1)),
    ("canaries", lambda *_: audit.one_run_tail(1000, 5, 3, 1, 1e-2)),
    ("confidence", lambda *_: audit.one_run_bound(10, 5, 3, 0, 1)),
    ("hits", lambda *_: audit.clopper_pearson(3, 2, 0.9)),
    ("hits", lambda *_: audit.rates_bound(audit.Counts(2, 3, 2, 1), 0, 0.9)),
    ("canaries", lambda *_: audited(canaries=9371)),
    ("canaries", lambda *_: audited(delta=0.01)),
    ("delta", lambda *_: audited(delta=0.0)),
    ("norm", lambda *_: audited(norm=0.0)),
    ("runs", lambda *_: audited(runs=0)),
    ("confidence", lambda *_: audited(confidence=1.0)),
    ("canaries", lambda *_: audit.plan(0.2, np.full(20, 2.0), 9, 1e-5, 0.95)),
    ("power limit", lambda problem, w: audit_of(problem, 1e-9 * w)),
    (
        "lane",
        lambda problem, w: audit_of(
            ReceiveScalingProblem(SCENARIO, np.stack([problem.min_gain] * 2), NU), w
        ),
    ),
]


@pytest.mark.parametrize(("said", "call"), REFUSED)
def test_bad_arguments_are_refused(said, call):
    with pytest.raises(ValueError, match=said):
        call(*problem_and_schedule())


DELTA = 1e-5


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_tail_is_the_formula_of_the_theorem(delta):
    """Without delta it is that of randomised response."""
    m, r, v, epsilon = 60, 30, 24, 0.7
    chance = 1 / (1 + math.exp(-epsilon))

    def tail(least):  # f, by a plain sum
        return sum(
            math.comb(r, k) * chance**k * (1 - chance) ** (r - k)
            for k in range(max(least, 0), r + 1)
        )

    steepest = max((tail(v - i) - tail(v)) / i for i in range(1, m + 1))
    assert audit.one_run_tail(m, r, v, epsilon, delta) == pytest.approx(
        tail(v) + 2 * m * delta * steepest, rel=1e-10
    )


@given(
    st.integers(1, 300),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([0.0, 1e-5, 1e-3]),
)
def test_the_tail_grows_with_epsilon_so_that_the_bound_is_where_it_crosses(
    canaries, asked, right, delta
):
    guesses = round(asked * canaries)
    right = round(right * guesses)
    tails = [
        audit.one_run_tail(canaries, guesses, right, epsilon, delta)
        for epsilon in np.linspace(0, 8, 30)
    ]
    assert (np.diff(tails) >= -1e-12).all()
    bound = audit.one_run_bound(canaries, guesses, right, delta, 0.95)
    assert bound >= 0
    if bound:
        assert audit.one_run_tail(
            canaries, guesses, right, bound, delta
        ) == pytest.approx(0.05, abs=1e-6)


def test_all_guesses_right_say_what_a_product_says_and_chance_says_nothing():
    chance = 0.05 ** (1 / 90)  # chance ** r = doubt
    assert audit.one_run_bound(200, 90, 90, 0.0, 0.95) == pytest.approx(
        math.log(chance / (1 - chance)), rel=1e-8
    )
    even = audit.Counts(100, 50, 100, 50)
    assert (
        audit.one_run_bound(1000, 500, 260, DELTA, 0.95)
        == audit.one_run_bound(1000, 500, 0, DELTA, 0.95)
        == 0
    )
    assert (
        audit.rates_bound(even, DELTA, 0.95)
        == audit.scaled_bound(even, 0.1, np.ones(5), DELTA, 0.95)
        == 0
    )


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_randomised_response_is_under_the_bound_no_more_often_than_stated(epsilon):
    # the mechanism that the theorem is tight for; 2,000 runs, so four standard errors are 0.02
    rng = np.random.default_rng(1)
    right, times = np.unique(
        rng.binomial(400, 1 / (1 + math.exp(-epsilon)), 2000), return_counts=True
    )
    wrong = (
        sum(
            times[
                [
                    audit.one_run_bound(400, 400, int(v), 0.0, 0.9) > epsilon
                    for v in right
                ]
            ]
        )
        / 2000
    )
    assert (
        0.05 < wrong < 0.12
    )  # the upper end is the claim; the lower: it is tight, and no bound of nothing


def gaussian_counts(rng, trials, mu, threshold):
    """Alarms where N(mu, 1) is told from N(0, 1)."""
    hits = (rng.binomial(trials, stats.norm.sf(threshold - mean)) for mean in (mu, 0))
    return audit.Counts(trials, next(hits), trials, next(hits))


def test_the_gaussian_mechanism_is_under_its_true_epsilon_as_often_as_stated():
    rng, mu = np.random.default_rng(2), 1.0
    epsilon = accounting.exact_epsilon(1.0, np.array([1 / mu]), DELTA).lower
    # against the best that this threshold can show at all, which is far below epsilon
    true, false = stats.norm.sf(1.5 - mu), stats.norm.sf(1.5)
    best = math.log((true - DELTA) / false)
    assert best < epsilon
    found = [
        audit.rates_bound(gaussian_counts(rng, 1000, mu, 1.5), DELTA, 0.9)
        for _ in range(1000)
    ]
    assert np.mean(np.array(found) > best) <= 0.1
    assert np.median(found) > 0.7 * best  # and they see most of it


def test_the_scaled_bound_comes_near_stays_below_and_finds_half_the_noise():
    rng, sigma = np.random.default_rng(3), np.full(3, 1.5)
    mu, exact = math.sqrt(3) / 1.5, accounting.exact_epsilon(1.0, sigma, DELTA)
    # the likelihood ratio is above 1 where the normal variable is above mu / 2
    found = [
        audit.scaled_bound(
            gaussian_counts(rng, 4000, mu, mu / 2), 1.0, sigma, DELTA, 0.95
        )
        for _ in range(8)
    ]
    assert max(found) <= exact.lower
    assert min(found) > 0.85 * exact.lower
    counts = gaussian_counts(rng, 400, 2 * mu, mu)  # of half the noise that is claimed
    assert audit.scaled_bound(counts, 1.0, sigma, DELTA, 0.95) > exact.upper
    claimed_rightly = audit.scaled_bound(counts, 1.0, sigma / 2, DELTA, 0.95)
    assert claimed_rightly < 2.5 * exact.upper  # negative control


def test_the_rates_bound_is_the_ratio_of_the_ends_of_both_intervals():
    true, false = (
        stats.binomtest(hits, 200).proportion_ci(0.95, method="exact")
        for hits in (80, 3)
    )
    found = audit.rates_bound(audit.Counts(200, 80, 200, 3), DELTA, 0.95)
    assert found == pytest.approx(math.log((true.low - DELTA) / false.high))
    never_missed = audit.Counts(1000, 1000, 1000, 500)
    assert (
        audit.rates_bound(never_missed, DELTA, 0.95) > 4
    )  # by the misses; the alarms alone say ln 2 at most


@given(st.integers(1, 2000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_interval_is_the_exact_one_of_scipy(trials, share, confidence):
    hits = round(share * trials)
    exact = stats.binomtest(hits, trials).proportion_ci(confidence, method="exact")
    found = audit.clopper_pearson(hits, trials, confidence)
    np.testing.assert_allclose(found, (exact.low, exact.high), rtol=1e-9, atol=1e-12)
