"""The step on the channel and its equivalent form."""

import numpy as np
import torch

from adascale import Scenario, channel
from adascale.learning import Training, data
from adascale.learning.fedsgd import effective_update, real_receiver_noise
from companion.training.signals import OnChannel, receiver_noise, transmit

SCENARIO = Scenario.mnist()


def test_both_forms_give_the_same_update():
    drawn = channel.draw(10, 1, 0)
    eta = float(SCENARIO.x_max * SCENARIO.min_gain(drawn.gain)[0])
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(10, 500, generator=generator, dtype=torch.float64)
    seed = np.random.SeedSequence(4)
    noise = receiver_noise(np.random.default_rng(seed), 500, SCENARIO.noise_power)
    real = real_receiver_noise(np.random.default_rng(seed), 500, SCENARIO.noise_power)
    assert (noise.real == real).all()
    signal = transmit(gradients, drawn.coefficient[:, 0], eta, noise).update
    effective = effective_update(gradients.mean(0), eta, real)
    torch.testing.assert_close(signal, effective, rtol=1e-12, atol=1e-13)
    # control: the noise is not negligible
    assert float((signal - gradients.mean(0)).abs().max()) > 1e-3


def test_bottleneck_meets_the_power_limit_on_average():
    """All sample gradients of a batch alike and at the clip norm: then ||g_m|| = |B| C / B_m, the worst case."""
    drawn = channel.draw(10, 1, 3)
    coefficient = drawn.coefficient[:, 0]
    gain = drawn.gain[:, 0]
    eta = float(SCENARIO.x_max * SCENARIO.min_gain(drawn.gain)[0])
    size = np.random.default_rng(0).binomial(6000, 0.01, (5000, 10))
    direction = torch.tensor([2.0, 1.0, 2.0], dtype=torch.float64) / 3
    gradients = torch.tensor(size / 60)[..., None] * direction
    spent = [
        transmit(gradient, coefficient, eta, np.zeros(3)).power
        for gradient in gradients
    ]
    # x_max is for d = 26,010 symbols, of which there are three here
    power = torch.stack(spent).numpy() * 3 / SCENARIO.num_parameters
    mean = power.mean(0)
    error = power.std(0) / np.sqrt(5000)
    expected = SCENARIO.max_power * gain.min() / gain
    assert (np.abs(mean - expected) < 4 * error).all()


DIGITS = data.load("digits")
TRAINING = Training.preset("digits")
SMALL = Scenario.digits()


def test_with_senders_signal_level_is_the_equivalent_form():
    """Of the senders alone; the power of each grows by the square of their share, as the mean has fewer members."""
    drawn = channel.draw(10, 1, 0)
    senders = np.arange(10) % 3 != 0
    server = OnChannel(SMALL, TRAINING, DIGITS, 0)
    start = server.start()
    h = drawn.coefficient[:, 0]
    eta = float(SMALL.x_max * SMALL.min_gain(drawn.gain).min())
    fast, _ = server.step(start, eta, senders_t=senders)
    signal, shown = server.step(start, eta, h, senders_t=senders)
    assert apart(start, fast, signal) < 1e-4  # single precision
    assert ((shown.power > 0) == senders).all()
    growth = shown.power[senders] / server.step(start, eta, h)[1].power[senders]
    np.testing.assert_allclose(growth, (10 / senders.sum()) ** 2, rtol=1e-4)


def apart(start, model, other):
    """The distance of two models, relative to the way that one went."""
    way = (model.parameters - start.parameters).norm()
    return float((model.parameters - other.parameters).norm() / way)
