"""Closed forms of the channel models against draws, and what is left of them where the draws are replaced."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from adascale import channel
from adascale.channel import (
    GaussMarkov,
    Jakes,
    Moving,
    Nakagami,
    Rayleigh,
    Rician,
    Shadowed,
)
from adascale.channel.fading import waves

from ..problems import MIXED

EVEN = replace(MIXED, batch_size=20, dataset_size=1000)
SEEDS, ROUNDS = range(500), 20
# the distance of 500 floors from their law is larger once in six; rounds that are correlated count as one
CLOSE = 0.05
GAIN = np.array([1e-10, 2e-11, 4e-11])

# name: model, whether it has a survival function, E|h|^2 PL or None
MODELS = {
    "rayleigh": (Rayleigh(), True, 1.0),
    "rician": (Rician(), True, 1.0),
    "nakagami": (Nakagami(), True, 1.0),
    "nakagami, deep": (Nakagami(m=0.5), True, 1.0),
    "gauss-markov": (GaussMarkov(correlation=0.3), True, 1.0),
    "jakes": (Jakes(), True, 1.0),
    "jakes of one path": (Jakes(paths=1), True, 1.0),
    "shadowed": (Shadowed(), True, 1.0),
    "moving": (Moving(), True, 1.0),  # in round 0
    "urban-micro": (channel.UrbanMicro(), False, 1.0),
    "blocks": (channel.BlockFading(blocks=3), False, 1 / 3),
    "blocks, even": (channel.BlockFading(energy="even"), False, None),
    "delay line": (channel.TappedDelayLine(bandwidth=2e7, subcarriers=8), False, None),
    "antennas": (channel.AntennaSelection(antennas=4), False, None),
}


def unit(model, devices=3):
    """Squared fading, (devices, draws); of round 0 alone where devices move."""
    drawn = model.draw(devices, ROUNDS, SEEDS)
    power = drawn.gain * drawn.path_loss[..., None]
    if isinstance(model, Moving):
        power = power[..., :1]
    return np.moveaxis(power, 1, 0).reshape(devices, -1)


def distance(model):
    """How far floors drawn at even mean gains are from the law of the model."""
    gain = GAIN[[1, 1, 1]]
    least = (unit(model) * gain[:, None]).min(axis=0)
    law = model.floor_law(EVEN, gain)
    return stats.ks_1samp(EVEN.floor(least), law.cdf).statistic


@pytest.mark.parametrize("name", MODELS)
def test_closed_forms_agree_with_draws(name):
    model, survives, mean = MODELS[name]
    # which antenna is the best depends on distances
    model = replace(model, distance_range=(50.0, 50.0))
    power = unit(model, 1)[0]
    if survives:
        right, wrong = (
            stats.ks_1samp(x, lambda x: 1 - model.survival(x)).statistic
            for x in (power, 1.5 * power)
        )
        assert right < CLOSE < wrong
    else:
        with pytest.raises(NotImplementedError):
            model.survival(power)
    assert (distance(model) < CLOSE) == (name != "urban-micro")  # whose law is a belief
    error = 4.5 * power.std() / np.sqrt(len(SEEDS))
    assert (abs(power.mean() - (mean or 1)) < error) == (mean is not None)


def test_unknown_shadow_is_in_no_law_of_floors():
    model = Shadowed(known=False, distance_range=(50.0, 50.0))
    assert type(model.floor_law(EVEN, GAIN)) is channel.RayleighFloors
    assert distance(model) > 2 * CLOSE  # the control of "shadowed" above


class FadingHalved(Rician):
    def fading(self, rng, num_rounds):
        return super().fading(rng, num_rounds) / 2


class SameLaw(Rician, same_law=True):
    """A subclass that draws anew, and says that it keeps the law of a round."""

    def draw(self, num_devices, num_rounds, seed):
        return super().draw(num_devices, num_rounds, seed)


def test_subclass_with_other_draws_has_their_law():
    assert type(FadingHalved().floor_law(EVEN, GAIN)) is channel.EmpiricalFloors
    assert distance(FadingHalved()) < CLOSE
    with pytest.raises(NotImplementedError):
        FadingHalved().survival(GAIN)


def test_subclass_of_the_same_law_keeps_it():
    assert type(SameLaw().floor_law(EVEN, GAIN)) is channel.FadingFloors
    np.testing.assert_array_equal(SameLaw().survival(GAIN), Rician().survival(GAIN))


def fade(model):
    """Unit coefficients of two devices in fifty rounds."""
    drawn = model.draw(2, 50, 11)
    return drawn.coefficient * np.sqrt(drawn.path_loss)[:, None]


def test_gauss_markov_is_its_recursion():
    plain, drawn = fade(Rayleigh()), fade(GaussMarkov(correlation=0.8))
    expected = [plain[:, 0]]
    for t in range(1, 50):
        expected.append(0.8 * expected[-1] + 0.6 * plain[:, t])
    np.testing.assert_allclose(drawn, np.transpose(expected), rtol=1e-12)
    np.testing.assert_array_equal(fade(Rician(K=0)), plain)


def test_waves_are_the_sum_over_paths():
    rng = np.random.default_rng(3)
    angle = 2 * np.pi * rng.random(9)
    height = rng.standard_normal((9, 2)) @ [1, 1j] / np.sqrt(18)
    turns = 0.37 * np.arange(1300)[:, None] * np.cos(angle)
    expected = np.exp(2j * np.pi * turns) @ height
    drawn = waves(np.random.default_rng(3), 1300, 0.37, 9)
    # phases of 3,000 radians have thirteen digits
    np.testing.assert_allclose(drawn, expected, atol=1e-11)


def rician_density(x, K):
    z = 2 * np.sqrt(K * (K + 1) * x)
    return (K + 1) * np.exp(z - K - (K + 1) * x) * special.i0e(z)


@pytest.mark.parametrize("rate", [0.2, 4.0])
@pytest.mark.parametrize(
    ("model", "density"),
    [
        (Rician(K=0.5), lambda x: rician_density(x, 0.5)),
        (Nakagami(m=0.5), stats.gamma(0.5, scale=2).pdf),
    ],
)
def test_survival_is_the_integral_of_the_density(model, density, rate):
    exact, _ = integrate.quad(density, rate, 60, epsabs=0, epsrel=1e-11)
    assert model.survival(np.array([rate]))[0] == pytest.approx(exact, rel=1e-9)
