"""When noise hurts: the weights against plain trainings, sums in closed form and simulation."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.training import weighted_trainings as trainings
from companion.training.weights import (
    compare,
    loss_weights,
    saving,
)
from tests.problems import MNIST, make

CURVATURE = np.array([0.05, 0.3, 1.0, 2.2])


def plain_training(noise, learning_rate, momentum, weight_decay):
    """A loop over rounds, as the server steps, on the quadratic with those curvatures: the last model."""
    model = velocity = np.zeros_like(CURVATURE)
    for disturbance in noise:
        velocity = (
            momentum * velocity + CURVATURE * model + disturbance + weight_decay * model
        )
        model = model - learning_rate * velocity
    return model


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_loss_is_a_sum_of_weighted_noise_energies(momentum, weight_decay):
    rate = 0.4
    T = 12
    d = CURVATURE.size
    loss = np.zeros(T)
    # unit noise of one round and one entry at a time: the loss is quadratic in it
    for t in range(T):
        for i in range(d):
            noise = np.zeros((T, d))
            noise[t, i] = np.sqrt(1 / (2 * d))
            loss[t] += (
                np.sum(
                    CURVATURE * plain_training(noise, rate, momentum, weight_decay) ** 2
                )
                / 2
            )
    np.testing.assert_allclose(
        loss_weights(CURVATURE, rate, T, momentum, weight_decay), loss, rtol=1e-11
    )


def test_weighted_optimum_saves_what_theory_says():
    weights = loss_weights(1.0, 1 - np.exp(-6 / 200), 100)
    for nu in (0.04, 30.0):
        ratios = compare(make(MNIST, nu, [0, 1], 100), weights, orders=(2.0,))
        assert np.all(ratios["leakage"] < 1)
    # a hundred rounds for the limit of many
    np.testing.assert_allclose(ratios["leakage"], saving(6.0), rtol=0.02)


def test_a_disturbed_state_is_that_of_a_round_with_that_noise():
    setting = trainings.SETTINGS["momentum 0.9"]
    digits = trainings.Digits.at(setting, 0, 4)
    before = digits.run(digits.federation.start(), np.full(3, 0.5))[-1]
    (noisy,), (quiet,) = (digits.run(before, np.array([w])) for w in (2.0, 0.0))
    noise = (noisy.velocity - quiet.velocity).numpy()
    again = trainings.disturbed(quiet, noise, setting.learning_rate)
    single = {"rtol": 0, "atol": 1e-6}  # precision
    torch.testing.assert_close(again.parameters, noisy.parameters, **single)
    assert np.sum(noise**2) == pytest.approx(2.0 / 2, rel=0.1)  # w / 2
    # negative control
    assert (quiet.parameters - noisy.parameters).abs().max() > 1e-3


def test_the_contest_is_at_equal_leakage():
    weights = np.geomspace(1, 20, 6)
    rows = trainings.contest(
        "momentum 0.9", 0, {"late": weights, "early": weights[::-1]}
    )
    table = pd.DataFrame(rows).set_index("schedule")
    assert list(table.index) == ["none", "flat", "late", "early"]
    np.testing.assert_allclose(table.rdp[1:], table.rdp["flat"], rtol=1e-8)
