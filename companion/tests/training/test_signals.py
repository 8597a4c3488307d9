"""The step on the channel and its equivalent form."""

import numpy as np
import pytest
import torch
from scipy import stats

from adascale import Scenario, channel
from adascale.learning import FedSGD, Training, data
from adascale.learning.fedsgd import effective_update, real_receiver_noise
from adascale.policies import Truncated
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
    equivalent = effective_update(gradients.mean(0), eta, real)
    # a few roundings of the type, relative to the largest entry
    assert float((signal - equivalent).abs().max() / signal.abs().max()) < tolerance
    quiet = effective_update(gradients.mean(0), float("inf"), real)
    assert (
        float((signal - quiet).abs().max() / signal.abs().max()) > 1e3 * tolerance
    )  # the noise is not negligible
    assert torch.equal(quiet, gradients.mean(0))


def test_the_noise_has_half_its_power_in_the_real_part():
    noise = receiver_noise(np.random.default_rng(1), 100_000, 1e-12)
    for part in (noise.real, noise.imag):
        # the sample variance of n normal numbers: chi-square with n degrees; 99.9 % at a fixed seed
        low, high = np.array(stats.chi2.interval(0.999, part.size)) / part.size
        assert low < np.mean(part**2) / 0.5e-12 < high
    assert abs(np.corrcoef(noise.real, noise.imag)[0, 1]) < 3.3 / np.sqrt(noise.size)


def test_the_power_limit_holds_in_expectation_and_the_bottleneck_meets_it():
    """All sample gradients of a batch alike and at the clip norm: then ||g_m|| = |B| C / B_m, the worst case."""
    drawn = channel.draw(10, 1, 3)
    coefficient, gain = drawn.coefficient[:, 0], drawn.gain[:, 0]
    eta = float(SCENARIO.x_max * SCENARIO.min_gain(drawn.gain)[0])
    d, rounds = 3, 5_000
    size = np.random.default_rng(0).binomial(6000, 0.01, (rounds, 10))
    direction = torch.tensor([2.0, 1.0, 2.0], dtype=torch.float64) / 3
    # x_max is for d = 26,010 symbols; the power per symbol of the same gradient over 3 symbols is 26,010 / 3 as large
    gradients = torch.tensor(size / 60)[..., None] * direction
    spent = [transmit(each, coefficient, eta, np.zeros(d)).power for each in gradients]
    power = torch.stack(spent).numpy() * d / SCENARIO.num_parameters
    centre, error = power.mean(0), power.std(0) / np.sqrt(rounds)
    bottleneck = np.argmin(gain)
    assert (centre <= SCENARIO.max_power + 3.3 * error).all()  # 99.9 %, at a fixed seed
    assert abs(centre[bottleneck] - SCENARIO.max_power) < 3.3 * error[bottleneck]
    others = np.delete(np.arange(10), bottleneck)
    expected = SCENARIO.max_power * gain[bottleneck] / gain[others]
    assert (np.abs(centre[others] - expected) < 4 * error[others]).all()
    # without k_m^2 the average would exceed the limit
    assert (
        centre[bottleneck] * SCENARIO.batch_second_moment
        > SCENARIO.max_power + 3.3 * error[bottleneck]
    )


DIGITS, TRAINING, SMALL = (
    data.load("digits"),
    Training.preset("digits"),
    Scenario.digits(),
)


def test_signal_level_and_equivalent_form_give_the_same_training():
    drawn = channel.draw(10, 10, 0)
    eta, server = (
        SMALL.x_max * SMALL.min_gain(drawn.gain),
        OnChannel(SMALL, TRAINING, DIGITS, 0),
    )
    plain, start = FedSGD(SMALL, TRAINING, DIGITS, 0), server.start()
    fast = signal = start
    spent = []
    for t in range(10):
        fast, seen = plain.step(fast, eta[t])
        signal, shown = server.step(signal, eta[t], drawn.coefficient[:, t])
        spent.append(shown.power)
        assert (seen.batch_size, seen.power) == (shown.batch_size, None)
    # 1e-4: ten steps in single precision, relative to the way they went
    way = (fast.parameters - start.parameters).norm()
    assert float((fast.parameters - signal.parameters).norm() / way) < 1e-4
    assert server.step(start, eta[0])[0].parameters.equal(
        plain.step(start, eta[0])[0].parameters
    )
    # sample gradients differ, so that their mean is shorter than C: the limit is never reached by far
    assert np.max(np.mean(spent, axis=0)) < SMALL.max_power


def test_with_senders_signal_level_is_the_equivalent_form():
    """Of the senders alone; the power of each grows by the square of their share, as the mean has fewer members."""
    drawn, some, server = (
        channel.draw(10, 1, 0),
        np.arange(10) % 3 != 0,
        OnChannel(SMALL, TRAINING, DIGITS, 0),
    )
    start, eta, h = (
        server.start(),
        float(SMALL.x_max * SMALL.min_gain(drawn.gain).min()),
        drawn.coefficient[:, 0],
    )
    fast, _ = server.step(start, eta, senders_t=some)
    signal, shown = server.step(start, eta, h, senders_t=some)
    way = (fast.parameters - start.parameters).norm()
    assert (
        float((fast.parameters - signal.parameters).norm() / way) < 1e-4
    )  # single precision
    assert ((shown.power > 0) == some).all()
    everybody = server.step(start, eta, h)[1].power
    np.testing.assert_allclose(
        shown.power[some], everybody[some] * (10 / some.sum()) ** 2, rtol=1e-4
    )
    skipped, idle = server.step(start, 0.0, h, senders_t=np.zeros(10, bool))
    assert skipped.round == 1
    assert idle.power.tolist() == [0] * 10


def test_noise_of_the_air_has_the_variance_of_the_senders():
    """Monte Carlo at signal level: the noise in the mean of the senders, and the power of the worst of them."""
    d, rng = 4000, np.random.default_rng(0)
    h = channel.draw(10, 40, 7).coefficient
    found = Truncated.of_total(SCENARIO, np.abs(h) ** 2, 0.08).select(
        SCENARIO, np.abs(h) ** 2
    )
    assert found.senders.sum(axis=0).min() < 10
    ratio, power = [], 0.0
    for t in range(40):
        on = found.senders[:, t]
        gradients = torch.as_tensor(rng.standard_normal((int(on.sum()), d)))
        gradients *= 1 / gradients.norm(
            dim=1, keepdim=True
        )  # the longest that one sample gives
        noise = receiver_noise(rng, d, SCENARIO.noise_power)
        received = transmit(gradients, h[on, t], float(found.eta[t]), noise)
        ratio.append(
            float((received.update - gradients.mean(0)).var())
            * 2
            * found.eta[t]
            / SCENARIO.noise_power
        )
        power = max(
            power,
            float(received.power.max())
            * d
            / SCENARIO.num_parameters
            / SCENARIO.max_power,
        )
    low, high = stats.chi2.interval(0.999, 40 * d)
    assert low < np.mean(ratio) * 40 * d < high
    assert 0.8 < power <= 1
