"""The step on the channel and its equivalent form."""

import numpy as np
import pytest
import torch

from adascale import Scenario, channel
from adascale.learning import FedSGD, Training, data
from adascale.learning.fedsgd import effective_update, real_receiver_noise
from companion.training.signals import OnChannel, receiver_noise, transmit

SCENARIO = Scenario.mnist()


def one_round(size=500, dtype=torch.float64):
    drawn = channel.draw(10, 1, 0)
    gradients = torch.randn(
        10, size, generator=torch.Generator().manual_seed(0), dtype=dtype
    )
    eta = float(SCENARIO.x_max * SCENARIO.min_gain(drawn.gain)[0])
    return gradients, drawn.coefficient[:, 0], eta


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 3e-7)]
)
def test_both_forms_give_the_same_update(dtype, tolerance):
    gradients, coefficient, eta = one_round(dtype=dtype)
    seed = np.random.SeedSequence(4)
    noise = receiver_noise(np.random.default_rng(seed), 500, SCENARIO.noise_power)
    real = real_receiver_noise(np.random.default_rng(seed), 500, SCENARIO.noise_power)
    assert (noise.real == real).all()
    signal = transmit(gradients, coefficient, eta, noise).update

    def apart(other):
        return float((signal - other).abs().max() / signal.abs().max())

    # a few roundings of the type, relative to the largest entry
    assert apart(effective_update(gradients.mean(0), eta, real)) < tolerance
    quiet = effective_update(gradients.mean(0), float("inf"), real)
    assert apart(quiet) > 1e3 * tolerance  # the noise is not negligible
    assert torch.equal(quiet, gradients.mean(0))


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


def test_signal_level_and_equivalent_form_give_the_same_training():
    drawn = channel.draw(10, 10, 0)
    eta = SMALL.x_max * SMALL.min_gain(drawn.gain)
    server, plain = (
        federation(SMALL, TRAINING, DIGITS, 0) for federation in (OnChannel, FedSGD)
    )
    start = fast = signal = server.start()
    spent = []
    for t in range(10):
        fast, seen = plain.step(fast, eta[t])
        signal, shown = server.step(signal, eta[t], drawn.coefficient[:, t])
        spent.append(shown.power)
        assert (seen.batch_size, seen.power) == (shown.batch_size, None)
    assert apart(start, fast, signal) < 1e-4  # ten steps in single precision
    # sample gradients differ, so that their mean is shorter than C
    assert np.max(np.mean(spent, axis=0)) < SMALL.max_power
