"""Every closed form of every channel model against draws, and what is left of it where the draws are replaced."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from adascale import channel
from adascale.channel import ChannelModel, EmpiricalFloors, Moving, Nakagami, Rician, Shadowed

from ..problems import MIXED

EVEN = replace(MIXED, batch_size=20, dataset_size=1000)
SEEDS, ROUNDS = range(500), 20
CLOSE = 0.05  # the distance of 500 floors from their law is larger once in six; rounds that are correlated count as one
GAIN = np.array([1e-10, 2e-11, 4e-11])

# name: model, whether it has a survival function, E|h|^2 PL or None
MODELS = {
    "rayleigh": (channel.Rayleigh(), True, 1.0),
    "rician": (Rician(), True, 1.0),
    "rician without sight": (Rician(K=0), True, 1.0),
    "nakagami": (Nakagami(), True, 1.0),
    "nakagami, deep": (Nakagami(m=0.5), True, 1.0),
    "gauss-markov": (channel.GaussMarkov(correlation=0.3), True, 1.0),
    "jakes": (channel.Jakes(), True, 1.0),
    "jakes of one path": (channel.Jakes(paths=1), True, 1.0),
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


def distance(model, scenario=EVEN, gain=GAIN[[1, 1, 1]]):
    """How far floors drawn at these mean gains are from the law of the model."""
    floor = scenario.noise_scale / scenario.x_max / (unit(model) * gain[:, None]).min(axis=0)
    return stats.ks_1samp(floor, model.floor_law(scenario, gain).cdf).statistic


@pytest.mark.parametrize("name", MODELS)
def test_closed_forms_agree_with_draws(name):
    model, survives, mean = MODELS[name]
    model = replace(model, distance_range=(50.0, 50.0))  # which antenna is the best depends on distances
    power = unit(model, 1)[0]
    if survives:
        assert stats.ks_1samp(power, lambda x: 1 - model.survival(x)).statistic < CLOSE
        assert stats.ks_1samp(1.5 * power, lambda x: 1 - model.survival(x)).statistic > CLOSE  # the control
    else:
        with pytest.raises(NotImplementedError):
            model.survival(power)
    assert (distance(model) < CLOSE) == (name != "urban-micro")  # whose law is a belief
    if mean:
        assert abs(power.mean() - mean) < 4.5 * power.std() / np.sqrt(len(SEEDS))
    else:
        assert abs(power.mean() - 1) > 4.5 * power.std() / np.sqrt(len(SEEDS))


def test_unknown_shadow_is_in_no_law_of_floors():
    model = Shadowed(known=False, distance_range=(50.0, 50.0))
    assert type(model.floor_law(EVEN, GAIN)) is channel.RayleighFloors
    assert distance(model) > 2 * CLOSE  # the control of "shadowed" above


def faded(base):
    """A subclass whose coefficients are half as large."""

    class Half(base):
        def fading(self, rng, num_rounds):
            return super().fading(rng, num_rounds) / 2

    return Half


class Halving(ChannelModel):
    """A mixin that halves what is drawn."""

    def draw(self, num_devices, num_rounds, seed):
        drawn = super().draw(num_devices, num_rounds, seed)
        return drawn._replace(coefficient=drawn.coefficient / 2)


def drawn(base):
    """A subclass that halves what is drawn."""
    return type("Half", (Halving, base), {})


def hidden(base):
    """The same, the other way round: the base comes first."""
    return type("Half", (base, Halving), {})


@pytest.mark.parametrize("name", ["rician", "antennas"])  # what is replaced is found out by the base of all models
@pytest.mark.parametrize("half", [faded, drawn, hidden])
def test_subclass_with_other_draws_has_their_law(name, half):
    model = MODELS[name][0]
    mine = half(type(model))(**{key: getattr(model, key) for key in asdict(model)})
    assert type(mine.floor_law(EVEN, GAIN)) is EmpiricalFloors
    assert distance(mine) < CLOSE
    with pytest.raises(NotImplementedError):
        mine.survival(GAIN)


class Hills(Rician, same_law=True):
    """A subclass that draws anew, and says that it keeps the law of a round."""

    def draw(self, num_devices, num_rounds, seed):
        return super().draw(num_devices, num_rounds, seed)


def test_subclass_of_the_same_law_keeps_it():
    assert type(Hills().floor_law(EVEN, GAIN)) is channel.FadingFloors
    np.testing.assert_array_equal(Hills().survival(GAIN), Rician().survival(GAIN))
    assert type(faded(Hills)().floor_law(EVEN, GAIN)) is EmpiricalFloors
