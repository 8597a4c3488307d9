"""Every closed form of every channel model against draws, and what is left of it where the draws are replaced."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
from scipy import integrate, special, stats

from adascale import channel
from adascale.channel import (
    ChannelModel,
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
CLOSE = 0.05  # the distance of 500 floors from their law is larger once in six; rounds that are correlated count as one
GAIN = np.array([1e-10, 2e-11, 4e-11])

# name: model, whether it has a survival function, E|h|^2 PL or None
MODELS = {
    "rayleigh": (Rayleigh(), True, 1.0),
    "rician": (Rician(), True, 1.0),
    "rician without sight": (Rician(K=0), True, 1.0),
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


def distance(model, scenario=EVEN, gain=GAIN[[1, 1, 1]]):
    """How far floors drawn at these mean gains are from the law of the model."""
    floor = (
        scenario.noise_scale
        / scenario.x_max
        / (unit(model) * gain[:, None]).min(axis=0)
    )
    return stats.ks_1samp(floor, model.floor_law(scenario, gain).cdf).statistic


@pytest.mark.parametrize("name", MODELS)
def test_closed_forms_agree_with_draws(name):
    model, survives, mean = MODELS[name]
    model = replace(
        model, distance_range=(50.0, 50.0)
    )  # which antenna is the best depends on distances
    power = unit(model, 1)[0]
    if survives:
        assert stats.ks_1samp(power, lambda x: 1 - model.survival(x)).statistic < CLOSE
        assert (
            stats.ks_1samp(1.5 * power, lambda x: 1 - model.survival(x)).statistic
            > CLOSE
        )  # the control
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


class Halving(ChannelModel):
    """A mixin that halves what is drawn."""

    def draw(self, num_devices, num_rounds, seed):
        drawn = super().draw(num_devices, num_rounds, seed)
        return drawn._replace(coefficient=drawn.coefficient / 2)


def faded(base):
    """A subclass whose coefficients are half as large."""
    return type(
        "Half",
        (base,),
        {
            "fading": lambda self, rng, num_rounds: (
                base.fading(self, rng, num_rounds) / 2
            )
        },
    )


def halved(hidden, base):
    """A subclass that halves what is drawn, also where the base comes first."""
    return type("Half", (base, Halving) if hidden else (Halving, base), {})


@pytest.mark.parametrize(
    "name", ["rician", "antennas"]
)  # what is replaced is found out by the base of all models
@pytest.mark.parametrize("half", [faded, partial(halved, False), partial(halved, True)])
def test_subclass_with_other_draws_has_their_law(name, half):
    model = MODELS[name][0]
    mine = half(type(model))(**{key: getattr(model, key) for key in asdict(model)})
    assert type(mine.floor_law(EVEN, GAIN)) is channel.EmpiricalFloors
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
    assert type(faded(Hills)().floor_law(EVEN, GAIN)) is channel.EmpiricalFloors


def fade(model, devices, rounds=1, seed=11):
    """Unit coefficients of independent devices, (devices, rounds)."""
    drawn = model.draw(devices, rounds, seed)
    return drawn.coefficient * np.sqrt(drawn.path_loss)[:, None]


@pytest.mark.parametrize("model", [Rician(), Nakagami(m=0.5)])
def test_rounds_of_a_device_are_uncorrelated(model):
    power = np.abs(fade(model, 1, 20_000)[0]) ** 2
    assert abs(np.corrcoef(power[1:], power[:-1])[0, 1]) < 5 / np.sqrt(
        20_000
    )  # five standard errors
    assert np.corrcoef(power[1:] + power[:-1], power[:-1])[0, 1] > 5 / np.sqrt(
        20_000
    )  # the control


def test_line_of_sight_has_one_uniform_phase_per_device():
    many = fade(Rician(K=100), 2000, 40).mean(axis=1)
    # the scattered part of a mean of 40 rounds is 1/sqrt(4040) strong
    assert (np.abs(np.abs(many) - np.sqrt(100 / 101)) < 5 / np.sqrt(4040)).all()
    assert (
        stats.kstest(np.angle(many), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    )
    for model in (Rayleigh(), Nakagami()):
        assert (
            stats.kstest(
                np.angle(fade(model, 1, 3000)[0]), stats.uniform(-np.pi, 2 * np.pi).cdf
            ).pvalue
            > 1e-3
        )


def correlation(drawn, lag):
    """The autocorrelation at a lag over devices, and its standard error."""
    each = (drawn[:, lag:] * drawn[:, : drawn.shape[1] - lag].conj()).mean(axis=1)
    return each.mean(), each.std() / np.sqrt(len(each))


def test_gauss_markov_is_its_recursion():
    plain, drawn = fade(Rayleigh(), 2, 50), fade(GaussMarkov(correlation=0.8), 2, 50)
    expected = [plain[:, 0]]
    for t in range(1, 50):
        expected.append(0.8 * expected[-1] + 0.6 * plain[:, t])
    np.testing.assert_allclose(drawn, np.transpose(expected), rtol=1e-12)
    for limit in (GaussMarkov(correlation=0), Rician(K=0)):
        np.testing.assert_array_equal(fade(limit, 2, 50), plain)
    still = fade(GaussMarkov(correlation=1), 2, 50)
    np.testing.assert_allclose(still, plain[:, :1] * np.ones(50), rtol=1e-12)


@pytest.mark.parametrize(("doppler", "paths"), [(2.0, 64), (0.7, 8)])
def test_mean_autocorrelation_of_jakes_is_bessel(doppler, paths):
    drawn = fade(Jakes(doppler=doppler, paths=paths), 1500, 80)
    for lag in (1, 2, 5, 11, 40, 79):
        found, error = correlation(drawn, lag)
        assert abs(found - special.j0(2 * np.pi * doppler * 0.26 * lag)) < 4.5 * error
    found, error = correlation(drawn, 5)
    assert (
        abs(found - special.j0(2 * np.pi * 1.3 * doppler * 0.26 * 5)) > 4.5 * error
    )  # the control: another speed


def test_waves_are_the_sum_over_paths():
    rounds, turns, paths = 1300, 0.37, 9
    rng = np.random.default_rng(3)
    angle, height = (
        rng.random(paths),
        rng.standard_normal((paths, 2)) @ [1, 1j] / np.sqrt(2 * paths),
    )
    expected = [
        sum(
            a * np.exp(2j * np.pi * turns * t * np.cos(2 * np.pi * x))
            for a, x in zip(height, angle, strict=True)
        )
        for t in range(rounds)
    ]
    found = waves(np.random.default_rng(3), rounds, turns, paths)
    np.testing.assert_allclose(
        found, expected, atol=1e-11
    )  # phases of 3,000 radians have thirteen digits


@pytest.mark.parametrize("rate", [0.2, 1.0, 4.0])
@pytest.mark.parametrize(
    "model",
    [Rician(), Rician(K=0.5), Rician(K=60), Nakagami(), Nakagami(m=0.5)],
    ids=repr,
)
def test_survival_is_the_integral_of_the_density(model, rate):
    if isinstance(model, Rician):
        K = model.K

        def density(x):  # of the squared modulus
            z = 2 * np.sqrt(K * (K + 1) * x)
            return (K + 1) * np.exp(z - K - (K + 1) * x) * special.i0e(z)
    else:

        def density(x):
            return (
                model.m**model.m
                * x ** (model.m - 1)
                * np.exp(-model.m * x)
                / special.gamma(model.m)
            )

    exact, _ = integrate.quad(density, rate, 60, epsabs=0, epsrel=1e-11)
    assert model.survival(np.array([rate]))[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    "model", [Rician(K=1e4), Nakagami(m=1e4), Nakagami(m=0.5)], ids=repr
)
def test_laws_at_the_ends_of_their_range_have_levels(model):
    law = model.floor_law(MIXED, GAIN)
    middle = float(law.quantile(0.5))
    for budget in (1e-3, 1.0, 1e3):
        assert law.mean_cost(law.level(budget * middle)) == pytest.approx(
            budget * middle, rel=1e-9
        )
