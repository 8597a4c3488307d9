"""Audits of real trainings: below the accounted epsilon, and above it once something is broken."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from adascale.audit import GradientCanaries, audit_gradients, log_likelihood_ratio, observe, plan
from adascale.audit.canaries import audited_devices, batch_of, unit
from adascale.audit.conclusions import simulated_scores
from adascale.learning import Diverged, Training, data, fedsgd, train

ROUNDS, NU = 20, 2.56
SCENARIO = replace(Scenario.digits(), num_rounds=ROUNDS)


@cache
def digits():
    return data.load("digits")


@cache
def problem_and_eta():
    gain = channel.draw(SCENARIO.num_devices, ROUNDS, seed=0).gain
    problem = ReceiveScalingProblem(SCENARIO, SCENARIO.min_gain(gain), NU)
    return problem, policies.Optimal().schedule(problem)


@cache
def audited(canaries=1000, seed=0, **how):
    problem, eta = problem_and_eta()
    return audit_gradients(problem, eta, Training.preset("digits"), digits(), seed, canaries, **how)


def test_the_score_is_the_logarithm_of_two_densities():
    y, q, sigma = np.linspace(-3, 4, 30), 0.2, 0.8
    mixture = (1 - q) * stats.norm.pdf(y, 0, sigma) + q * stats.norm.pdf(y, 1, sigma)
    np.testing.assert_allclose(log_likelihood_ratio(y, q, sigma), np.log(mixture / stats.norm.pdf(y, 0, sigma)))
    np.testing.assert_allclose(log_likelihood_ratio(y, 1.0, sigma), (y - 0.5) / sigma**2)


def test_at_a_threshold_of_zero_the_alarms_differ_by_the_exact_delta_of_epsilon_zero():
    rng, q, sigma, count = np.random.default_rng(0), 0.2, np.full(30, 1.5), 40_000
    inside, outside = (simulated_scores(rng, q, sigma, count, each) > 0 for each in (True, False))
    exact = accounting.exact_delta(q, sigma, 0.0).delta
    assert inside.mean() - outside.mean() == pytest.approx(exact, abs=4 * math.sqrt(0.5 / count))
    assert inside.mean() - outside.mean() != pytest.approx(accounting.exact_delta(q, 2 * sigma, 0.0).delta, abs=0.02)


def test_a_gradient_canary_is_heard_where_it_was_sent_and_nowhere_else():
    canaries = GradientCanaries.draw(SCENARIO, 300, seed=1, norm=10)
    chosen = np.array([3, 77, 250])
    sent = canaries.signal(SCENARIO, chosen, torch.zeros(SCENARIO.num_parameters))
    expected = np.zeros(300)
    expected[chosen] = 10
    np.testing.assert_allclose(canaries.heard(SCENARIO, sent), expected, rtol=1e-6)
    assert float(sent.norm()) == pytest.approx(10 * math.sqrt(3) * unit(SCENARIO), rel=1e-6)


def test_half_of_the_canaries_are_in_and_only_these_enter_batches_at_the_sampling_rate():
    canaries = GradientCanaries.draw(SCENARIO, 9000, seed=2)
    assert abs(canaries.present.mean() - 0.5) < 4 * 0.5 / math.sqrt(9000)
    drawn = np.concatenate([batch_of(canaries.present, 0.2, 2, t) for t in range(50)])
    assert canaries.present[drawn].all()
    expected = 50 * 0.2 * canaries.present.sum()
    assert abs(drawn.size - expected) < 4 * math.sqrt(expected)
    assert set(batch_of(canaries.present, 0.2, 2, 0)) != set(batch_of(canaries.present, 0.2, 2, 1))


def test_only_devices_with_the_guarantee_of_the_first_one_hold_canaries():
    sizes = replace(SCENARIO, batch_size=(30.0,) * 9 + (15.0,))
    np.testing.assert_array_equal(audited_devices(sizes), range(9))
    np.testing.assert_array_equal(audited_devices(SCENARIO), range(10))


def test_without_canaries_it_is_the_training_of_the_package():
    problem, eta = problem_and_eta()
    absent = replace(GradientCanaries.draw(SCENARIO, 10, 0), present=np.zeros(10, dtype=bool))
    accuracy, last = observe(problem, eta, Training.preset("digits"), digits(), 0, absent)
    usual = train(problem, eta, Training.preset("digits"), digits(), 0)
    torch.testing.assert_close(last.parameters, usual.state.parameters, rtol=0, atol=0)
    assert accuracy == usual.history.accuracy.iloc[-1]


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_what_is_left_when_the_data_are_taken_off_is_the_noise_that_the_accountant_believes_in(share):
    problem, eta = problem_and_eta()
    part = replace(SCENARIO, privacy_noise_power=share * SCENARIO.noise_power)
    problem = ReceiveScalingProblem(part, problem.min_gain, problem.budget)
    absent = replace(GradientCanaries.draw(SCENARIO, 4000, 0), present=np.zeros(4000, dtype=bool))
    heard = []
    given = (problem, eta, Training.preset("digits"), digits(), 0, absent)
    observe(*given, lambda t, residual: heard.append(absent.heard(SCENARIO, residual)))
    squares = (np.array(heard) / problem.noise_multiplier(eta)[0][:, None]) ** 2
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], squares.size)
    assert low < squares.sum() < high
    assert not low < squares.sum() / 1.05**2 < high  # negative control: five per cent more is seen


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


def test_several_trainings_are_pooled():
    problem, eta = problem_and_eta()
    both = audit_gradients(problem, eta, Training.preset("digits"), digits(), 0, 500, runs=2)
    assert (both.runs, both.canaries) == (2, 1000)
    assert both.refuted == {}


def audit_of(problem, eta, **changes):
    return audit_gradients(problem, eta, replace(Training.preset("digits"), **changes), digits(), 0, 20)


REFUSED = [
    ("canaries", lambda *_: audited(canaries=9371)),
    ("canaries", lambda *_: audited(delta=0.01)),
    ("delta", lambda *_: audited(delta=0.0)),
    ("norm", lambda *_: audited(norm=0.0)),
    ("runs", lambda *_: audited(runs=0)),
    ("confidence", lambda *_: audited(confidence=1.0)),
    ("canaries", lambda *_: plan(0.2, np.full(20, 2.0), 9, 1e-5, 0.95)),
    ("power limit", lambda problem, eta: audit_of(problem, 1e9 * eta)),
    ("lane", lambda problem, eta: audit_of(ReceiveScalingProblem(SCENARIO, np.stack([problem.min_gain] * 2), NU), eta)),
]


@pytest.mark.parametrize(("said", "call"), REFUSED)
def test_bad_arguments_are_refused(said, call):
    with pytest.raises(ValueError, match=said):
        call(*problem_and_eta())


def test_a_training_that_diverges_is_no_audit():
    with pytest.raises(Diverged):
        audit_of(*problem_and_eta(), learning_rate=1e39)
