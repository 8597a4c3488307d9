"""The step on the channel and its equivalent form."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import ReceiveScalingProblem, Scenario, channel
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


def test_bad_input_is_named():
    for name, call in [
        *(
            ("eta", lambda g, h, n, bad=bad: transmit(g, h, bad, n))
            for bad in (0.0, np.inf)
        ),
        *(
            ("eta", lambda g, h, n, bad=bad: effective_update(g[0], bad, n.real))
            for bad in (np.nan, -1.0)
        ),
        (
            "eta",
            lambda g, h, n: effective_update(g[0].float(), 1e-90, n.real + 1),
        ),  # whose noise is no float32
        *(
            ("coefficient", lambda g, h, n, bad=bad: transmit(g, bad * h, 1.0, n))
            for bad in (0, np.nan)
        ),
        ("coefficient", lambda g, h, n: transmit(g, h[:3], 1.0, n)),
        ("power", lambda g, h, n: transmit(g, h * 1e-300, 1.0, n)),
        ("signal", lambda g, h, n: transmit(g, h, 1.0, n + np.inf)),
        (
            "noise_power",
            lambda g, h, n: receiver_noise(np.random.default_rng(), 6, -1.0),
        ),
    ]:
        gradients, coefficient, _ = one_round(6)
        with pytest.raises(ValueError, match=f"^{name} "):
            call(gradients, coefficient, np.zeros(6, dtype=complex))


DECADES = st.floats(-300, 300)


@given(
    DECADES,
    st.tuples(*[st.floats(-150, 150)] * 3),
    DECADES,
    st.floats(-30, 30),
    st.booleans(),
)
def test_any_eta_gain_and_noise_give_a_finite_update_or_are_refused(
    eta, gain, power, length, single
):
    eta, noise_power, h = (
        10**eta,
        10**power,
        10 ** np.array(gain) * np.exp(1j * np.arange(3)),
    )
    gradients = 10**length * torch.ones(
        3, 4, dtype=torch.float32 if single else torch.float64
    )
    noise = receiver_noise(np.random.default_rng(0), 4, noise_power)
    received = given_or_refused(
        lambda: transmit(gradients, h, eta, noise), "must be finite, got eta"
    )
    if received is not None:
        assert all(torch.isfinite(each).all() for each in received)
        # what the two square roots of eta and the division by M h leave: some roundings of the largest part
        size = float(gradients.max()) + np.abs(noise).max() / np.sqrt(eta)
        expected = 10**length + noise.real / np.sqrt(eta)
        tolerance = 1e-6 if single else 1e-12
        assert np.abs(received.update.numpy() - expected).max() <= tolerance * size
    message = f"so large that the noise is finite in {gradients.dtype}"
    update = given_or_refused(
        lambda: effective_update(gradients.mean(0), eta, noise.real), message
    )
    assert update is None or torch.isfinite(update).all()


def given_or_refused(call, message):
    """What it returns, or None if it is a ValueError of that message."""
    try:
        return call()
    except ValueError as error:
        if message not in str(error):
            raise
    return None


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


def test_a_round_without_a_sample_runs_at_signal_level():
    scenario, training = (
        replace(SMALL, batch_size=1e-6),
        replace(TRAINING, weight_decay=0.0),
    )
    server = OnChannel(scenario, training, DIGITS, 0)
    _, shown = server.step(
        server.start(), 1e-9, channel.draw(10, 1, 0).coefficient[:, 0]
    )
    assert shown.batch_size == 0
    assert (shown.power == 0).all()


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


@pytest.mark.parametrize("left", [0, 40])
def test_in_equal_shares_the_received_signal_does_not_depend_on_who_holds_the_samples(
    left,
):
    """With all samples in every batch there is no chance left; unequal shares are the negative control."""
    kept = torch.cat(
        [
            (DIGITS.labels == each).nonzero()[: 60 - left * (each == 3)].flatten()
            for each in range(10)
        ]
    )
    loaded = DIGITS._replace(images=DIGITS.images[kept], labels=DIGITS.labels[kept])
    moved = []
    for kind in ("iid", "two-classes"):
        sizes = np.array(
            [len(part) for part in data.partition(loaded.labels, 10, kind, 0)],
            dtype=float,
        )
        scenario = replace(SMALL, batch_size=tuple(sizes), dataset_size=tuple(sizes))
        server = FedSGD(scenario, replace(TRAINING, partition=kind), loaded, 0)
        start = server.start()
        moved.append(server.step(start, np.inf)[0].parameters - start.parameters)
    apart = float((moved[0] - moved[1]).norm() / moved[0].norm())
    assert apart < 1e-5 if left == 0 else apart > 1e-3  # single precision


def test_noise_has_its_share_of_energy_along_the_signal_alone():
    """1/d of it: the mean over eight rounds within what chi-square allows."""
    training = replace(TRAINING, learning_rate=1.0, weight_decay=0.0)
    server, rounds = FedSGD(SMALL, training, DIGITS, 0), 8
    min_gain = SMALL.min_gain(channel.draw(SMALL.num_devices, rounds, 0).gain)
    problem = ReceiveScalingProblem(replace(SMALL, num_rounds=rounds), min_gain, 0.01)
    along = []
    for t, eta in enumerate(problem.max_eta):
        at = server.start()._replace(round=t)
        silent, noisy = (
            server.step(at, each)[0].parameters.double()
            for each in (np.inf, float(eta))
        )
        signal = silent - at.parameters
        along.append(
            float((noisy - silent) @ signal / signal.norm()) ** 2
            / (problem.min_noise_energy[t] / 2)
        )
    low, high = stats.chi2.ppf([0.0005, 0.9995], rounds)
    assert low < SMALL.num_parameters * np.sum(along) < high
