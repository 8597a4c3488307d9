"""Channels: the path loss, what one seed fixes, and the distribution of the gains, with controls that must fail."""

import math
from dataclasses import dataclass, fields

import numpy as np
import pytest
from scipy import stats

from adascale import channel, registry
from adascale.channel import ChannelModel, Shadowed, TappedDelayLine, UrbanMicro
from adascale.errors import InvalidInput

ROUNDS = 20_000
SEED = 7
MODELS = [type(channel.find(name)) for name in registry.names("channels")]
OWNERS = [(model, vars(base).get("limits", {})) for model in MODELS for base in model.__mro__]
LIMITS = [(model, name, *limits[name]) for model, limits in OWNERS for name in limits]
CHOICES = [(model, name) for model in MODELS for name in ("placement", "energy", "profile", "known")]
CHOICES = [(model, name) for model, name in CHOICES if name in {field.name for field in fields(model)}]


def test_path_loss_is_the_cost_hata_formula():
    distance = [10.0, 37.0, 100.0, 200.0]
    expected = [10 ** ((33.44 + 35.22 * math.log10(d)) / 10) for d in distance]
    np.testing.assert_allclose(channel.cost_hata_path_loss(distance), expected, rtol=1e-14)  # a few roundings
    assert 10 * math.log10(channel.cost_hata_path_loss(100.0)) == pytest.approx(103.88, abs=1e-12)
    drawn = channel.draw(4, 2, [1, 2])
    np.testing.assert_array_equal(drawn.path_loss, channel.cost_hata_path_loss(drawn.distance))


def test_distances_lie_in_the_range_and_fill_it():
    distance = channel.draw(10, 1, range(200)).distance
    assert distance.shape == (200, 10)
    assert (distance >= 10).all()
    assert (distance <= 200).all()
    # 2,000 uniform draws; a false alarm once in 1,000 seeds, and the seeds are fixed
    assert stats.kstest(distance.ravel(), stats.uniform(10, 190).cdf).pvalue > 1e-3
    assert stats.kstest(distance.ravel(), stats.uniform(10, 170).cdf).pvalue < 1e-6  # the control
    narrow = channel.Rayleigh(distance_range=(50.0, 50.0)).draw(3, 2, 0).distance
    assert narrow.tolist() == [50, 50, 50]


def test_squared_norms_of_rayleigh_fading_are_independent_exponentials():
    drawn = channel.draw(4, ROUNDS, SEED)
    for device in drawn.gain * drawn.path_loss[:, None]:
        assert stats.kstest(device, stats.expon.cdf).pvalue > 1e-3
        # the control: a Nakagami gain of order 1.1 and the same mean is told apart
        assert stats.kstest(device, stats.gamma(1.1, scale=1 / 1.1).cdf).pvalue < 1e-3
        assert abs(np.corrcoef(device[:-1], device[1:])[0, 1]) < 5 / math.sqrt(ROUNDS)  # five standard errors


def test_model_without_a_fading_law_says_so():
    with pytest.raises(NotImplementedError):
        ChannelModel().draw(1, 1, 0)


@pytest.mark.parametrize("name", ["ricean", "rayleigh:K=3", "adascale.channel:ChannelModel", "numpy:pi"])
def test_find_refuses_what_is_no_model(name):
    with pytest.raises(ValueError, match=r"unknown|has no parameter 'K'|must define fading|must be a subclass of"):
        channel.find(name)


def refuses(model, name, value):
    with pytest.raises(InvalidInput) as error:
        model(**{name: value})
    assert error.value.argument == name
    assert "\n" not in str(error.value)
    return True


def test_every_number_of_a_model_has_limits_and_is_checked():
    for model in MODELS:
        numbers = {field.name for field in fields(model) if type(field.default) in (int, float)}
        assert numbers == {name for each, name, *_ in LIMITS if each is model}
    for model, name, low, high in LIMITS:
        for value in (low - 1, np.nextafter(low, -np.inf), high * (1 + 1e-9), math.nan, "much", (low, high), None):
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
    ranges = 5, (5, 2), (1, 2, 3), ((1, 2), (3, 4)), (0, 2), (1, math.inf), (1e-200, 1), (1, 1e300), "far"
    wrong += [(channel.Rayleigh, "distance_range", value) for value in ranges]
    wrong += [(UrbanMicro, "distance_range", value) for value in ((1, 50), (10, 5001))]
    wrong += [(Hills, "correlation_distance", -1), (Hills, "deviation", 31)]  # limits of a base hold
    assert all(refuses(*each) for each in wrong)


def test_draws_that_no_memory_holds_are_refused():
    for model, *shape in (
        (Shadowed(), 20_000, 1),
        (channel.BlockFading(blocks=10_000), 1, 20_000),
        (TappedDelayLine(subcarriers=4096), 1, 30_000),
    ):
        with pytest.raises(InvalidInput, match=r"must have at most 100,000,000 entries"):
            model.draw(*shape, 0)
