"""Channels: the path loss, what one seed fixes, and the distribution of the gains, with controls that must fail."""

import math
from dataclasses import dataclass, fields, replace

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
    each_device,
)
from adascale.errors import InvalidInput

ROUNDS = 20_000
SEED = 7
MODELS = [type(channel.find(name)) for name in registry.names("channels")]
OWNERS = [
    (model, vars(base).get("limits", {})) for model in MODELS for base in model.__mro__
]
LIMITS = [(model, name, *limits[name]) for model, limits in OWNERS for name in limits]
CHOICES = [
    (model, name)
    for model in MODELS
    for name in ("placement", "energy", "profile", "known")
]
CHOICES = [
    (model, name)
    for model, name in CHOICES
    if name in {field.name for field in fields(model)}
]


def test_path_loss_is_the_cost_hata_formula():
    distance = [10.0, 37.0, 100.0, 200.0]
    expected = [10 ** ((33.44 + 35.22 * math.log10(d)) / 10) for d in distance]
    np.testing.assert_allclose(
        channel.cost_hata_path_loss(distance), expected, rtol=1e-14
    )  # a few roundings
    assert 10 * math.log10(channel.cost_hata_path_loss(100.0)) == pytest.approx(
        103.88, abs=1e-12
    )
    drawn = channel.draw(4, 2, [1, 2])
    np.testing.assert_array_equal(
        drawn.path_loss, channel.cost_hata_path_loss(drawn.distance)
    )


def test_distances_lie_in_the_range_and_fill_it():
    distance = channel.draw(10, 1, range(200)).distance
    assert distance.shape == (200, 10)
    assert (distance >= 10).all()
    assert (distance <= 200).all()
    # 2,000 uniform draws; a false alarm once in 1,000 seeds, and the seeds are fixed
    assert stats.kstest(distance.ravel(), stats.uniform(10, 190).cdf).pvalue > 1e-3
    assert (
        stats.kstest(distance.ravel(), stats.uniform(10, 170).cdf).pvalue < 1e-6
    )  # the control
    narrow = channel.Rayleigh(distance_range=(50.0, 50.0)).draw(3, 2, 0).distance
    assert narrow.tolist() == [50, 50, 50]


def test_squared_norms_of_rayleigh_fading_are_independent_exponentials():
    drawn = channel.draw(4, ROUNDS, SEED)
    for device in drawn.gain * drawn.path_loss[:, None]:
        assert stats.kstest(device, stats.expon.cdf).pvalue > 1e-3
        # the control: a Nakagami gain of order 1.1 and the same mean is told apart
        assert stats.kstest(device, stats.gamma(1.1, scale=1 / 1.1).cdf).pvalue < 1e-3
        assert abs(np.corrcoef(device[:-1], device[1:])[0, 1]) < 5 / math.sqrt(
            ROUNDS
        )  # five standard errors


def refuses(model, name, value):
    with pytest.raises(InvalidInput) as error:
        model(**{name: value})
    assert error.value.argument == name
    assert "\n" not in str(error.value)
    return True


def test_every_number_of_a_model_has_limits_and_is_checked():
    for model in MODELS:
        numbers = {
            field.name for field in fields(model) if type(field.default) in (int, float)
        }
        assert numbers == {name for each, name, *_ in LIMITS if each is model}
    for model, name, low, high in LIMITS:
        for value in (
            low - 1,
            np.nextafter(low, -np.inf),
            high * (1 + 1e-9),
            math.nan,
            "much",
            (low, high),
            None,
        ):
            assert refuses(model, name, value)
        if isinstance(getattr(model, name), int):
            assert refuses(model, name, low + 0.5)
        for value in (low, high):
            assert getattr(model(**{name: value}), name) == value


def test_every_choice_and_range_of_a_model_is_checked():
    @dataclass(frozen=True)
    class Hills(Shadowed):
        deviation: float = 3.0

    assert {name for _, name in CHOICES} == {"placement", "energy", "profile", "known"}
    wrong = [(*choice, value) for choice in CHOICES for value in ("D", 1, (1,), None)]
    ranges = (
        5,
        (5, 2),
        (1, 2, 3),
        ((1, 2), (3, 4)),
        (0, 2),
        (1, math.inf),
        (1e-200, 1),
        (1, 1e300),
        "far",
    )
    wrong += [(channel.Rayleigh, "distance_range", value) for value in ranges]
    wrong += [(UrbanMicro, "distance_range", value) for value in ((1, 50), (10, 5001))]
    wrong += [
        (Hills, "correlation_distance", -1),
        (Hills, "deviation", 31),
    ]  # limits of a base hold
    assert all(refuses(*each) for each in wrong)
    for name in ("ricean", "rayleigh:K=3", "adascale.channel:ChannelModel", "numpy:pi"):
        with pytest.raises(
            ValueError,
            match=r"unknown|has no parameter 'K'|must define fading|must be a subclass of",
        ):
            channel.find(name)
    with pytest.raises(NotImplementedError):  # without a distribution of the fading
        ChannelModel().draw(1, 1, 0)


def test_draws_that_no_memory_holds_are_refused():
    for model, *shape in (
        (Shadowed(), 20_000, 1),
        (channel.BlockFading(blocks=10_000), 1, 20_000),
        (TappedDelayLine(subcarriers=4096), 1, 30_000),
    ):
        with pytest.raises(
            InvalidInput, match=r"must have at most 100,000,000 entries"
        ):
            model.draw(*shape, 0)


SEEDED = {
    **{name: channel.find(name) for name in registry.names("channels")},
    "tapped-delay-line": TappedDelayLine(
        subcarriers=9
    ),  # instead of 64, which are slow
    "area": Nakagami(placement="area", m=0.5),
    "one path": Jakes(paths=1),
    "fast": Moving(speed=300.0),
    "dense": Shadowed(correlation_distance=1e6),
    "wide": TappedDelayLine(
        profile="C", delay_spread=1e-6, bandwidth=1e8, subcarriers=7, energy="anywhere"
    ),
}
CHOOSES_TOGETHER = ("antenna-selection", "beamforming")
"""Models in which one more device may change what the others have, and say so."""

FEW = settings(
    max_examples=settings.default.max_examples // 4
)  # of each of seventeen models
HORIZONS = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 500, 511, 512, 513, 700])


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True) if x is not None)


@pytest.mark.parametrize("name", SEEDED)
@FEW
@given(
    st.integers(0, 2**40),
    st.integers(1, 4),
    st.integers(0, 8),
    HORIZONS,
    st.integers(0, 600),
)
def test_more_rounds_and_devices_extend_a_realisation(
    name, seed, devices, others, rounds, more
):
    others = 0 if name in CHOOSES_TOGETHER else others
    short, long = (
        SEEDED[name].draw(devices, rounds, seed),
        SEEDED[name].draw(devices + others, rounds + more, seed),
    )
    long = long._replace(coefficient=long.coefficient[:, :rounds])
    long = long._replace(
        exposure=None if long.exposure is None else long.exposure[:, :rounds]
    )
    assert same(short, (field if field is None else field[:devices] for field in long))


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_stack_single_draws_and_no_coefficient_is_a_copy(name):
    many = SEEDED[name].draw(5, 100, [3, 9, 4])
    for i, seed in enumerate([3, 9, 4]):
        assert same(
            SEEDED[name].draw(5, 100, seed),
            (field if field is None else field[i] for field in many),
        )
    assert np.isfinite(many.coefficient).all()
    assert (many.gain > 0).all()
    assert np.unique(many.coefficient).size == many.gain.size == 3 * 5 * 100


@pytest.mark.parametrize("name", SEEDED)
@FEW
@given(
    st.integers(0, 2**40),
    st.integers(1, 7),
    st.sampled_from([1, 17, 64]),
    st.integers(1, 300),
)
def test_blocks_of_devices_give_the_gains_of_the_whole_draw(
    name, seed, devices, rounds, block
):
    differ = {
        "batch_size": tuple(range(30, 30 + devices)),
        "max_power": tuple(np.geomspace(0.1, 0.3, devices)),
    }
    scenario = replace(
        Scenario.mnist(), num_devices=devices, num_rounds=rounds, **differ
    )
    whole = SEEDED[name].draw(devices, rounds, [seed, 3])
    expected = scenario.min_gain(whole.gain), whole.path_loss
    assert same(expected, SEEDED[name].min_gains(scenario, [seed, 3], block))


@pytest.mark.parametrize("name", registry.names("channels"))
def test_specification_makes_the_model_again(name):
    model = channel.find(name)
    said = channel.specification(model)
    assert said.pop("model") == name
    assert channel.find(name, **said) == model
    # whole numbers where floats are meant make the same model, in the address of a run too
    floats = {
        key: int(value)
        for key, value in said.items()
        if isinstance(value, float) and value == int(value)
    }
    again = channel.find(name, **said | floats)
    assert repr(channel.specification(again)) == repr(channel.specification(model))


def test_streams_of_two_purposes_differ():
    one, other = (
        each_device([4, 5], 3, purpose, lambda rng: rng.random(2)) for purpose in (7, 8)
    )
    assert one.shape == (2, 3, 2)
    assert np.unique([one, other]).size == 24
    assert np.array_equal(each_device(4, 2, 7, lambda rng: rng.random(2)), one[0, :2])
    fading = np.random.default_rng(np.random.SeedSequence(4).spawn(1)[0]).random(2)
    assert not np.array_equal(fading, one[0, 0])
