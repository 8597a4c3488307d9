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

from adascale import Problem, Scenario, audit, policies
from adascale.learning import Diverged, Training, data, fedsgd, train

from ..problems import make

ROUNDS, NU, DELTA = 20, 2.56, 1e-5
SCENARIO = replace(Scenario.digits(), num_rounds=ROUNDS)
TRAINING = Training.preset("digits")
PROBLEM = make(SCENARIO, NU)
W = policies.Optimal().schedule(PROBLEM)
DIGITS = data.load("digits")


@cache
def audited(canaries=1000, seed=0, training=TRAINING, **options):
    return audit.audit_gradients(
        PROBLEM, W, training, DIGITS, seed, canaries, **options
    )


def absent(count):
    """Return canaries that are not in the data."""
    canaries = audit.GradientCanaries.draw(SCENARIO, count, 0)
    return replace(canaries, present=np.zeros(count, dtype=bool))


# Trainings ------------------------------------------------------------------------------------------------------------


def test_gradient_canary_is_heard_where_it_was_sent_and_nowhere_else():
    canaries = audit.GradientCanaries.draw(SCENARIO, 300, seed=1, norm=10)
    sent = np.array([3, 77, 250])
    signal = canaries.signal(SCENARIO, sent, torch.zeros(SCENARIO.num_parameters))
    expected = np.where(np.isin(np.arange(300), sent), 10, 0)
    np.testing.assert_allclose(canaries.heard(SCENARIO, signal), expected, rtol=1e-6)


def test_without_canaries_it_is_the_training_of_the_package():
    accuracy, state, _ = audit.observe(PROBLEM, W, TRAINING, DIGITS, 0, absent(10))
    usual = train(PROBLEM, W, TRAINING, DIGITS, 0)
    assert torch.equal(state.parameters, usual.state.parameters)
    assert accuracy == usual.history.accuracy.iloc[-1]


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_residual_noise_matches_the_noise_multiplier(share):
    """What is left without the data has the variance that the accountant believes in."""
    scenario = replace(SCENARIO, privacy_noise_power=share * SCENARIO.noise_power)
    problem = Problem(scenario, PROBLEM.min_gain, NU)
    heard = audit.observe(problem, W, TRAINING, DIGITS, 0, absent(4000)).heard
    sigma = problem.noise_multiplier(W)[0]
    square = ((heard / sigma[:, None]) ** 2).sum()
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 4000 * ROUNDS)
    assert low < square < high
    assert not low < square / 1.05**2 < high  # negative control: five per cent more


def test_bounds_are_below_the_accounted_epsilon_and_near_it():
    result = audited(4500, runs=2)
    assert (result.runs, result.canaries) == (2, 9000)
    assert result.refuted == {}
    assert 0 < result.one_run < result.accounted < result.renyi
    assert 0 < result.rates < result.accounted
    assert 0.55 * result.accounted < result.scaled < result.accounted
    assert result.lower == max(result.one_run, result.rates)
    assert result.accuracy > 0.15  # it is a training, though a short one


def test_missing_noise_is_found():
    result = audited(noise=False)
    assert {"one_run", "rates"} <= set(result.refuted)
    assert result.right == result.guesses


def test_missing_clipping_is_found():
    assert {"rates", "scaled"} <= set(audited(norm=10.0).refuted)


def test_half_of_the_noise_is_found(monkeypatch):
    real = fedsgd.real_receiver_noise
    monkeypatch.setattr(fedsgd, "real_receiver_noise", lambda *about: real(*about) / 2)
    assert "scaled" in audited(4000, seed=1).refuted


def test_training_that_diverges_is_no_audit():
    with pytest.raises(Diverged):
        audited(20, training=replace(TRAINING, learning_rate=1e39))


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("canaries", {"canaries": 9371}),
        ("canaries", {"delta": 0.01}),
        ("norm", {"norm": 0.0}),
        ("runs", {"runs": 0}),
        ("confidence", {"confidence": 1.0}),
    ],
)
def test_arguments_out_of_range_are_refused(argument, options):
    with pytest.raises(ValueError, match=f"^{argument} must"):
        audited(**options)


# Scores ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.2, 1.0])
def test_score_is_the_logarithm_of_two_densities(q):
    y = np.linspace(-3, 4, 30)
    sigma = 0.8
    outside, inside = (stats.norm.pdf(y, mean, sigma) for mean in (0, 1))
    expected = np.log(((1 - q) * outside + q * inside) / outside)
    np.testing.assert_allclose(audit.log_likelihood_ratio(y, q, sigma), expected)


# Bounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_tail_is_the_formula_of_the_theorem(delta):
    """Without delta it is that of randomised response."""
    right = stats.binom(30, 1 / (1 + math.exp(-0.7)))
    tail = right.sf(23 - np.arange(61))  # 24 or more, 23 or more, ...
    steepest = ((tail[1:] - tail[0]) / np.arange(1, 61)).max()
    expected = tail[0] + 2 * 60 * delta * steepest
    assert audit.one_run_tail(60, 30, 24, 0.7, delta) == pytest.approx(expected)


@given(
    st.integers(1, 300),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([0.0, 1e-5, 1e-3]),
)
def test_tail_grows_with_epsilon_and_crosses_at_the_bound(m, share, hits, delta):
    guesses = round(share * m)
    counts = m, guesses, round(hits * guesses)
    bound = audit.one_run_bound(*counts, delta, 0.95)
    at, below, above = (
        audit.one_run_tail(*counts, x, delta) for x in (bound, bound / 2, bound + 1)
    )
    assert below - 1e-12 <= at <= above + 1e-12
    assert at == pytest.approx(0.05, abs=1e-6) or (at > 0.05 and bound == 0)


def test_guesses_by_chance_show_nothing():
    even = audit.Counts(100, 50, 100, 50)
    assert audit.one_run_bound(1000, 500, 260, DELTA, 0.95) == 0
    assert audit.rates_bound(even, DELTA, 0.95) == 0
    assert audit.scaled_bound(even, 0.1, np.ones(5), DELTA, 0.95) == 0


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_randomised_response_exceeds_the_bound_as_often_as_stated(epsilon):
    """The theorem is tight for this mechanism; 2,000 runs, so four standard errors are 0.02."""
    rng = np.random.default_rng(1)
    p = 1 / (1 + math.exp(-epsilon))
    right = rng.binomial(400, p, 2000).tolist()
    bounds = {v: audit.one_run_bound(400, 400, v, 0.0, 0.9) for v in set(right)}
    wrong = np.mean([bounds[v] > epsilon for v in right])
    assert 0.05 < wrong < 0.12


@given(st.integers(1, 2000), st.floats(0, 1), st.sampled_from([0.5, 0.95, 0.999]))
def test_interval_is_the_exact_one_of_scipy(trials, share, confidence):
    hits = round(share * trials)
    exact = stats.binomtest(hits, trials).proportion_ci(confidence, method="exact")
    interval = audit.clopper_pearson(hits, trials, confidence)
    np.testing.assert_allclose(interval, (exact.low, exact.high), rtol=1e-9, atol=1e-12)
