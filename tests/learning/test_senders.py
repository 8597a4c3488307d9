"""Rounds of FedSGD in which some devices do not send: the mean is that of the senders."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from adascale import Scenario, channel
from adascale.learning import FedSGD, Training, data
from adascale.learning.gradients import clipped_sum
from adascale.learning.models import build

DIGITS = data.load("digits")
SCENARIO = Scenario.digits()
TRAINING = replace(Training.preset("digits"), weight_decay=0.0)
ETA = float(SCENARIO.x_max * SCENARIO.min_gain(channel.draw(10, 3, 0).gain).min())
SOME = np.arange(10) % 3 != 0


def step(senders=None, eta=ETA, scenario=SCENARIO, training=TRAINING):
    federation = FedSGD(scenario, training, DIGITS, 0)
    return federation, *federation.step(federation.start(), eta, senders_t=senders)


def test_all_senders_change_no_bit():
    (_, plain, before), (_, named, after) = step(), step(np.ones(10, bool))
    assert torch.equal(plain.parameters, named.parameters)
    assert before == after


def test_update_is_the_mean_over_the_senders():
    sizes = tuple(20.0 + m for m in range(10))
    federation, after, shown = step(SOME, math.inf, scenario=replace(SCENARIO, batch_size=sizes))
    model, received = build(TRAINING.model, 0), 0.0
    for m in np.flatnonzero(SOME):
        batch = federation.batches(0)[m]
        total = clipped_sum(model, DIGITS.images[batch], DIGITS.labels[batch], SCENARIO.clip_norm).gradient
        received = received + total / sizes[m] / SOME.sum()
    moved = (federation.start().parameters - after.parameters) / TRAINING.learning_rate
    # 2e-5: the step is a difference of parameters in single precision
    assert float((moved - received).norm() / received.norm()) < 2e-5
    assert shown.batch_size == sum(federation.batches(0)[m].size for m in np.flatnonzero(SOME))


def test_round_without_senders_is_skipped():
    training = replace(Training.preset("digits"), momentum=0.5, weight_decay=0.1)
    federation, before, _ = step(training=training)
    after, shown = federation.step(before, 0.0, senders_t=np.zeros(10, bool))
    assert after.round == before.round + 1
    assert torch.equal(after.parameters, before.parameters)
    assert torch.equal(after.velocity, before.velocity)
    assert shown.batch_size == 0
    assert math.isnan(shown.loss)
    assert not torch.equal(federation.step(after, ETA, senders_t=SOME)[0].parameters, after.parameters)


@pytest.mark.parametrize("wrong", [np.ones(10), np.ones(9, bool), [0, 1], True])
def test_bad_senders_are_named(wrong):
    with pytest.raises(ValueError, match="senders must be 10 booleans"):
        step(wrong)
