"""What one seed fixes: of every registered model, by random horizons and numbers of devices."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale import Scenario, channel, registry
from adascale.channel import Jakes, Moving, Nakagami, Shadowed, TappedDelayLine, each_device

MODELS = {
    **{name: channel.find(name) for name in registry.names("channels")},
    "tapped-delay-line": TappedDelayLine(subcarriers=9),  # instead of 64, which are slow
    "area": Nakagami(placement="area", m=0.5),
    "one path": Jakes(paths=1),
    "fast": Moving(speed=300.0),
    "dense": Shadowed(correlation_distance=1e6),
    "wide": TappedDelayLine(profile="C", delay_spread=1e-6, bandwidth=1e8, subcarriers=7, energy="anywhere"),
}
CHOOSES_TOGETHER = ("antenna-selection", "beamforming")
"""Models in which one more device may change what the others have, and say so."""

FEW = settings(max_examples=settings.default.max_examples // 4)  # of each of seventeen models
ROUNDS = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 500, 511, 512, 513, 700])


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True) if x is not None)


@pytest.mark.parametrize("name", MODELS)
@FEW
@given(st.integers(0, 2**40), st.integers(1, 4), st.integers(0, 8), ROUNDS, st.integers(0, 600))
def test_more_rounds_and_devices_extend_a_realisation(name, seed, devices, others, rounds, more):
    others = 0 if name in CHOOSES_TOGETHER else others
    short, long = MODELS[name].draw(devices, rounds, seed), MODELS[name].draw(devices + others, rounds + more, seed)
    long = long._replace(coefficient=long.coefficient[:, :rounds])
    long = long._replace(exposure=None if long.exposure is None else long.exposure[:, :rounds])
    assert same(short, (field if field is None else field[:devices] for field in long))


@pytest.mark.parametrize("name", MODELS)
def test_seeds_stack_single_draws(name):
    many = MODELS[name].draw(3, 20, [3, 9, 3])
    assert many.coefficient.shape == (3, 3, 20)
    for i, seed in enumerate([3, 9, 3]):
        assert same(MODELS[name].draw(3, 20, seed), (field if field is None else field[i] for field in many))
    assert not same(*([field[i] for field in many if field is not None] for i in (0, 1)))  # the control


@pytest.mark.parametrize("name", MODELS)
@FEW
@given(st.integers(0, 2**40), st.integers(1, 7), st.sampled_from([1, 17, 64]), st.integers(1, 300))
def test_blocks_of_devices_give_the_gains_of_the_whole_draw(name, seed, devices, rounds, block):
    differ = {"batch_size": tuple(range(30, 30 + devices)), "max_power": tuple(np.geomspace(0.1, 0.3, devices))}
    scenario = replace(Scenario.mnist(), num_devices=devices, num_rounds=rounds, **differ)
    whole = MODELS[name].draw(devices, rounds, [seed, 3])
    expected = scenario.min_gain(whole.gain), whole.path_loss
    assert same(expected, MODELS[name].min_gains(scenario, [seed, 3], block))


@pytest.mark.parametrize("name", MODELS)
def test_gains_are_positive_and_no_coefficient_is_a_copy(name):
    drawn = MODELS[name].draw(5, 100, range(6))
    assert np.isfinite(drawn.coefficient).all()
    assert (drawn.gain > 0).all()
    assert np.unique(drawn.coefficient).size == drawn.gain.size


@pytest.mark.parametrize("name", registry.names("channels"))
def test_specification_makes_the_model_again(name):
    model = channel.find(name)
    said = channel.specification(model)
    assert said.pop("model") == name
    assert channel.find(name, **said) == model
    # whole numbers where floats are meant make the same model, in the address of a run too
    floats = {key: int(value) for key, value in said.items() if isinstance(value, float) and value == int(value)}
    again = channel.find(name, **said | floats)
    assert repr(channel.specification(again)) == repr(channel.specification(model))


def test_streams_of_two_purposes_differ():
    one, other = (each_device([4, 5], 3, purpose, lambda rng: rng.random(2)) for purpose in (7, 8))
    assert one.shape == (2, 3, 2)
    assert np.unique([one, other]).size == 24
    assert np.array_equal(each_device(4, 2, 7, lambda rng: rng.random(2)), one[0, :2])
    fading = np.random.default_rng(np.random.SeedSequence(4).spawn(1)[0]).random(2)
    assert not np.array_equal(fading, one[0, 0])
