"""Audits of samples: the same small training with and without one, many times; and what a final model shows of many."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from adascale import Problem, Scenario, accounting, policies
from adascale.audit.canaries import unit
from adascale.learning import FedSGD, Training, data, fedsgd
from companion.privacy.black_box import audit_samples
from companion.privacy.paired_audit import (
    Audited,
    audit_paired,
    neighbours,
    paired_runs,
)
from tests.problems import make


def linear():
    """A network that takes a millisecond a round."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


ROUNDS, RUNS = 4, 80
SMALL = replace(
    Scenario.digits(),
    num_devices=2,
    num_rounds=ROUNDS,
    num_parameters=650,
    dataset_size=20,
    batch_size=10,
)
TRAINING = replace(Training.preset("digits"), model=f"{__name__}:linear", momentum=0.5)


@cache
def digits():
    whole = data.load("digits")
    train = {"images": whole.images[:40], "labels": whole.labels[:40]}
    return whole._replace(
        **train, test_images=whole.test_images[:20], test_labels=whole.test_labels[:20]
    )


def given(sigma, scenario=SMALL, seed=0):
    """Rounds with given noise multipliers, far from the power limit."""
    problem = Problem(scenario, np.full(len(sigma), 1e-3), 1.0)
    least = problem.noise_multiplier(problem.min_noise_energy)[0]
    w = problem.min_noise_energy * (np.asarray(sigma) / least) ** 2
    return Audited(problem, w, TRAINING, digits(), seed)


def audited(sigma=1.5, runs=RUNS, seed=0, **how):
    return audit_paired(given([sigma] * ROUNDS, seed=seed), runs, **how)


def test_training_adds_the_clipped_gradient_or_nothing():
    inside, outside, sample = neighbours(given([1.0]))
    place = inside.parts[-1][-1]
    seen = set()
    for seed in range(8):
        inside.seed = outside.seed = seed
        state = inside.start()
        difference = (
            inside.step(state, math.inf)[0].velocity
            - outside.step(state, math.inf)[0].velocity
        )
        in_batch = place in inside.batches(0)[-1]
        sent = sample.signal(SMALL, np.array([0]), state.parameters)
        # the sensitivity, as it is clipped
        assert float(sent.norm()) == pytest.approx(unit(SMALL), rel=1e-5)
        torch.testing.assert_close(
            difference,
            sent if in_batch else torch.zeros_like(sent),
            rtol=1e-4,
            atol=1e-7,
        )
        seen.add(in_batch)
    assert seen == {True, False}


def test_score_without_sampling_is_normal():
    # N(mu^2 / 2, mu^2) with the sample and N(-mu^2 / 2, mu^2) without, where mu^2 is the sum of 1 / sigma^2
    sigma = np.array([1.0, 2.0, 1.5])
    unsampled = replace(SMALL, batch_size=20, num_rounds=3)
    included, scores, *_ = paired_runs(given(sigma, unsampled, 1), 100)
    mu = math.sqrt((1 / sigma**2).sum())
    for present, sign in ((True, 1), (False, -1)):
        score = scores[included == present]
        assert stats.kstest(score, stats.norm(sign * mu**2 / 2, mu).cdf).pvalue > 1e-3
        # negative control
        assert stats.kstest(score, stats.norm(-sign * mu**2 / 2, mu).cdf).pvalue < 1e-6
    assert abs(included.mean() - 0.5) < 4 * 0.5 / math.sqrt(100)


def test_audit_shows_much_epsilon_of_an_honest_training():
    heard, final = audited(0.6, 160)
    assert heard.refuted == final.refuted == {}
    assert (heard.runs, heard.canaries, final.guesses) == (160, 160, 80)
    exact = accounting.exact_epsilon(0.5, np.full(ROUNDS, 0.6), 1e-5)
    assert heard.accounted == pytest.approx(exact.upper, rel=1e-3)
    assert 1 < heard.rates < heard.accounted < heard.renyi
    assert heard.lower == max(heard.one_run, heard.rates)
    assert 0.4 * heard.accounted < heard.scaled < heard.accounted
    assert final.one_run < heard.one_run


def over_a_quarter(real):
    return lambda model, images, labels, norm, weights, chunk: real(
        model, images, labels, norm, 4 * weights, chunk
    )


BROKEN = {
    "no noise": ({"noise": False}, None),
    "ten times the norm": ({"norm": 10.0}, None),
    "a quarter of the noise": (
        {},
        (fedsgd, "real_receiver_noise", lambda real: lambda *given: real(*given) / 4),
    ),
    "a wrong divisor": ({}, (fedsgd, "clipped_sum", over_a_quarter)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_refuted(monkeypatch, what):
    how, patched = BROKEN[what]
    if patched:
        module, name, wrap = patched
        monkeypatch.setattr(module, name, wrap(getattr(module, name)))
    assert "scaled" in audited(3.0, **how)[0].refuted


def test_a_sample_that_is_in_every_batch_is_refuted(monkeypatch):
    # the accountant believes in a rate of one tenth
    rare = replace(SMALL, batch_size=2)
    rarely = given([1.5] * ROUNDS, rare)
    assert audit_paired(rarely, RUNS)[0].refuted == {}
    monkeypatch.setattr(FedSGD, "batches", lambda self, round_index: self.parts)
    assert audit_paired(rarely, RUNS)[0].refuted != {}


# One training, and what its final model shows of mislabelled samples

WHOLE = replace(Scenario.digits(), num_rounds=20)
DIGITS = data.load("digits")


def test_the_final_model_tells_little():
    problem = make(WHOLE, 2.56)
    training = (
        problem,
        policies.Optimal().schedule(problem),
        Training.preset("digits"),
        DIGITS,
        0,
    )
    audit = audit_samples(*training, 280)
    assert (audit.kind, audit.guesses, audit.rates, audit.scaled) == (
        "samples",
        140,
        None,
        None,
    )
    assert audit.one_run < 0.3 < audit.accounted
    assert audit.refuted == {}
