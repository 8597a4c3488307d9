"""Trainings in which devices invert an estimate: the step at signal level, and its equivalent form."""

import numpy as np
import torch

from adascale import Scenario, channel
from adascale.learning import Training, data
from adascale.learning.fedsgd import effective_update
from companion.training import channel_estimates
from companion.training.signals import OnChannel, receiver_noise, transmit

DIGITS = data.load("digits")
SCENARIO = Scenario.digits()
TRAINING = Training.preset("digits")
DRAWN = channel.draw(10, 4, 0)
ESTIMATE = channel_estimates.estimate(DRAWN, 0.1, "least-squares", seed=0)
ALIGNMENT = DRAWN.coefficient / ESTIMATE
ETA = SCENARIO.x_max * SCENARIO.min_gain(np.abs(ESTIMATE) ** 2)


def run(alignment=ALIGNMENT, coefficient=None):
    federation = OnChannel(SCENARIO, TRAINING, DIGITS, 0)
    state = federation.start()
    for t in range(3):
        h, c = (
            None if array is None else array[:, t] for array in (coefficient, alignment)
        )
        state, _ = federation.step(state, float(ETA[t]), h, alignment_t=c)
    return state.parameters.double()


def test_signals_weigh_gradients_by_the_real_alignment():
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(10, 60, generator=generator, dtype=torch.float64)
    noise = receiver_noise(np.random.default_rng(1), 60, SCENARIO.noise_power)
    h = DRAWN.coefficient[:, 0]
    believed = ESTIMATE[:, 0]
    c = ALIGNMENT[:, 0]
    eta = float(ETA[0])
    update, power = transmit(gradients, h, eta, noise, believed)
    aligned = (torch.as_tensor(c.real)[:, None] * gradients).mean(0)
    torch.testing.assert_close(
        update, effective_update(aligned, eta, noise.real), rtol=0, atol=1e-13
    )
    energy = gradients.square().sum(1).numpy() / 60
    spent = eta / (100 * np.abs(believed) ** 2) * energy
    np.testing.assert_allclose(power.numpy(), spent, rtol=1e-12)


def test_step_on_signals_is_the_step_with_alignments():
    effective = run()
    signal = run(coefficient=DRAWN.coefficient)
    # single precision, summed in another order
    assert float((effective - signal).abs().max()) < 1e-5
    assert float((effective - run(alignment=None)).abs().max()) > 1e-3  # the control
