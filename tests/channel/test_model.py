"""Channels: the path loss, what one seed fixes, and the distribution of the gains, with controls that must fail."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adascale import Scenario, channel, registry
from adascale.channel import (
    ChannelModel,
    Jakes,
    Moving,
    Nakagami,
    Shadowed,
    TappedDelayLine,
    UrbanMicro,
)
from adascale.errors import InvalidInput

ROUNDS = 20_000
MODELS = [type(channel.find(name)) for name in registry.names("channels")]
LIMITS = [
    (model, name, *limits) for model in MODELS for name, limits in model.limits.items()
]
CHOICES = [(model, name) for model in MODELS for name in model.choices]


def test_path_loss_is_the_cost_hata_formula():
    drawn = channel.draw(4, 2, [1, 2])
    expected = 10 ** ((33.44 + 35.22 * np.log10(drawn.distance)) / 10)
    np.testing.assert_allclose(drawn.path_loss, expected, rtol=1e-14)
    hundred = 10 * math.log10(channel.cost_hata_path_loss(100.0))
    assert hundred == pytest.approx(103.88, abs=1e-12)


def test_distances_are_uniform_in_their_range():
    distance = channel.draw(10, 1, range(200)).distance
    assert distance.shape == (200, 10)
    # 2,000 uniform draws; a false alarm once in 1,000 seeds, and the seeds are fixed
    assert stats.kstest(distance.ravel(), stats.uniform(10, 190).cdf).pvalue > 1e-3
    # the control
    assert stats.kstest(distance.ravel(), stats.uniform(10, 170).cdf).pvalue < 1e-6


def test_squared_norms_of_rayleigh_fading_are_independent_from_round_to_round():
    for power in channel.draw(4, ROUNDS, 7).gain:
        correlation = np.corrcoef(power[:-1], power[1:])[0, 1]
        assert abs(correlation) < 5 / math.sqrt(ROUNDS)  # five standard errors


def assert_refused(model, name, value):
    with pytest.raises(InvalidInput) as error:
        model(**{name: value})
    assert error.value.argument == name
    assert "\n" not in str(error.value)


def test_every_number_of_a_model_has_limits():
    for model in MODELS:
        defaults = {field.name: field.default for field in fields(model)}
        numbers = {
            name for name, value in defaults.items() if type(value) in (int, float)
        }
        assert numbers == {*model.limits}


@pytest.mark.parametrize(("model", "name", "low", "high"), LIMITS)
def test_number_beyond_its_limits_is_refused(model, name, low, high):
    for value in (low - 1, high * (1 + 1e-9), math.nan, "much"):
        assert_refused(model, name, value)
    if isinstance(getattr(model, name), int):
        assert_refused(model, name, low + 0.5)
    for value in (low, high):
        assert getattr(model(**{name: value}), name) == value


@pytest.mark.parametrize(("model", "name"), CHOICES)
def test_unknown_choice_is_refused(model, name):
    assert_refused(model, name, "D")


class Hills(Shadowed):
    """A subclass, for which the limits of its base hold."""


WRONG_RANGES = [5, (5, 2), (1, 2, 3), (0, 2), "far"]


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        *((channel.Rayleigh, "distance_range", value) for value in WRONG_RANGES),
        (UrbanMicro, "distance_range", (1, 50)),
        (Hills, "correlation_distance", -1),
    ],
)
def test_wrong_parameter_is_refused(model, name, value):
    assert_refused(model, name, value)


def test_model_without_fading_draws_nothing():
    with pytest.raises(NotImplementedError):
        ChannelModel().draw(1, 1, 0)


def test_draw_that_no_memory_holds_is_refused():
    with pytest.raises(InvalidInput, match="must have at most 100,000,000 entries"):
        Shadowed().draw(20_000, 10_000, 0)


WIDE = {"delay_spread": 1e-6, "bandwidth": 1e8, "subcarriers": 7, "energy": "anywhere"}
SEEDED = {
    **{name: channel.find(name) for name in registry.names("channels")},
    "tapped-delay-line": TappedDelayLine(
        subcarriers=9
    ),  # instead of 64, which are slow
    "area": Nakagami(placement="area", m=0.5),
    "one path": Jakes(paths=1),
    "fast": Moving(speed=300.0),
    "dense": Shadowed(correlation_distance=1e6),
    "wide": TappedDelayLine(profile="C", **WIDE),
}
CHOOSES_TOGETHER = ("antenna-selection", "beamforming")
"""Models in which one more device may change what the others have, and say so."""

# of each of seventeen models
FEW = settings(max_examples=settings.default.max_examples // 4)
HORIZONS = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 500, 511, 512, 513, 700])
SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("name", SEEDED)
@FEW
@given(SEEDS, st.integers(1, 4), st.integers(0, 8), HORIZONS, st.integers(0, 600))
def test_more_rounds_and_devices_extend_a_realisation(
    name, seed, devices, others, rounds, more
):
    model, others = SEEDED[name], 0 if name in CHOOSES_TOGETHER else others
    short = model.draw(devices, rounds, seed)
    long = model.draw(devices + others, rounds + more, seed)
    for array, longer in zip(short, long, strict=True):
        if array is not None:
            first = tuple(slice(size) for size in array.shape)
            np.testing.assert_array_equal(array, longer[first])


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_stack_single_draws_and_no_coefficient_is_a_copy(name):
    many = SEEDED[name].draw(5, 100, [3, 9, 4])
    for i, seed in enumerate([3, 9, 4]):
        one = SEEDED[name].draw(5, 100, seed)
        for array, stacked in zip(one, many, strict=True):
            if array is not None:
                np.testing.assert_array_equal(array, stacked[i])
    assert np.isfinite(many.coefficient).all()
    assert np.unique(many.coefficient).size == 3 * 5 * 100


@pytest.mark.parametrize("name", SEEDED)
def test_least_gains_are_those_of_the_whole_draw(name):
    scenario = replace(Scenario.mnist(), num_devices=7, num_rounds=64)
    drawn = SEEDED[name].draw(7, 64, [5, 3])
    least, path_loss = SEEDED[name].min_gains(scenario, [5, 3])
    np.testing.assert_array_equal(least, scenario.min_gain(drawn.gain))
    np.testing.assert_array_equal(path_loss, drawn.path_loss)


@pytest.mark.parametrize("model", SEEDED.values(), ids=SEEDED)
def test_specification_makes_the_model_again(model):
    parameters = channel.specification(model)
    name = parameters.pop("model")
    assert channel.find(name, **parameters) == model
