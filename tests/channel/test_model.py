"""Channels: the path loss, what one seed fixes, and the law of the gains, each with a control that must fail."""

import math

import numpy as np
import pytest
from scipy import stats

from adascale import channel

ROUNDS = 20_000
SEED = 7


def test_path_loss_is_the_cost_hata_formula():
    distance = [10.0, 37.0, 100.0, 200.0]
    expected = [10 ** ((33.44 + 35.22 * math.log10(d)) / 10) for d in distance]
    np.testing.assert_allclose(channel.cost_hata_path_loss(distance), expected, rtol=1e-14)  # a few roundings
    assert 10 * math.log10(channel.cost_hata_path_loss(100.0)) == pytest.approx(103.88, abs=1e-12)
    # ten times the distance is 35.22 dB
    ratio = channel.cost_hata_path_loss(100.0) / channel.cost_hata_path_loss(10.0)
    assert ratio == pytest.approx(10**3.522, rel=1e-13)


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


def test_path_loss_belongs_to_the_distance_drawn():
    drawn = channel.draw(4, 2, [1, 2])
    np.testing.assert_array_equal(drawn.path_loss, channel.cost_hata_path_loss(drawn.distance))


def test_gain_is_the_squared_norm():
    drawn = channel.draw(3, 50, 0)
    assert drawn.gain.shape == (3, 50)
    np.testing.assert_allclose(drawn.gain, np.abs(drawn.coefficient) ** 2, rtol=1e-14)  # hypot rounds otherwise


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_same_seed_draws_the_same():
    assert same(channel.draw(5, 20, 3), channel.draw(5, 20, 3))
    assert not same(channel.draw(5, 20, 3), channel.draw(5, 20, 4))


def test_global_random_state_plays_no_part():
    before = channel.draw(5, 20, 3)
    np.random.seed(0)  # noqa: NPY002
    assert same(before, channel.draw(5, 20, 3))


def test_a_sequence_of_seeds_stacks_the_single_draws():
    many = channel.draw(5, 20, [3, 9, 4])
    assert many.coefficient.shape == (3, 5, 20)
    for i, seed in enumerate([3, 9, 4]):
        assert same(channel.draw(5, 20, seed), (field[i] for field in many))


def test_a_longer_horizon_extends_a_realisation():
    short, long = channel.draw(5, 20, 3), channel.draw(5, 33, 3)
    np.testing.assert_array_equal(short.distance, long.distance)
    np.testing.assert_array_equal(short.coefficient, long.coefficient[:, :20])


def test_an_extra_device_extends_a_realisation():
    few, many = channel.draw(5, 20, 3), channel.draw(8, 20, 3)
    np.testing.assert_array_equal(few.distance, many.distance[:5])
    np.testing.assert_array_equal(few.coefficient, many.coefficient[:5])


def test_devices_and_rounds_are_not_copies_of_each_other():
    drawn = channel.draw(6, 500, 3)
    assert np.unique(drawn.distance).size == 6
    assert np.unique(drawn.coefficient).size == 3000
    unit = (drawn.coefficient * np.sqrt(drawn.path_loss)[:, None]).view(float).reshape(6, -1)
    correlation = np.corrcoef(unit) - np.eye(6)
    # 1,000 samples: a standard error of 0.032, five of them
    assert np.abs(correlation).max() < 0.16


def normalised_gain():
    drawn = channel.draw(4, ROUNDS, SEED)
    return drawn.gain * drawn.path_loss[:, None]


def mean_within_its_interval(sample, expected):
    """Whether the expected mean lies in the sample's interval of four standard errors (6e-5 two-sided)."""
    return abs(sample.mean() - expected) < 4 * sample.std(ddof=1) / math.sqrt(sample.size)


def test_mean_squared_norm_is_one_over_the_path_loss():
    for device in normalised_gain():
        assert mean_within_its_interval(device, 1.0)
        assert not mean_within_its_interval(device, 1.05)  # the control: 5 % are 7 standard errors
    # ... and the common mistake of half the power in each part, twice
    assert not mean_within_its_interval(normalised_gain().ravel(), 2.0)


def test_squared_norms_of_rayleigh_fading_are_exponential():
    for device in normalised_gain():
        assert stats.kstest(device, stats.expon.cdf).pvalue > 1e-3
        # the control: a Nakagami gain of order 1.1 and the same mean is told apart
        assert stats.kstest(device, stats.gamma(1.1, scale=1 / 1.1).cdf).pvalue < 1e-3


def test_phases_are_uniform_and_parts_have_half_the_power():
    drawn = channel.draw(2, ROUNDS, SEED)
    for device, loss in zip(drawn.coefficient, drawn.path_loss, strict=True):
        assert stats.kstest(np.angle(device), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
        assert mean_within_its_interval(device.real**2 * loss, 0.5)
        assert mean_within_its_interval(device.imag**2 * loss, 0.5)


def test_the_minimum_over_devices_is_exponential():
    """Its rate is the sum of the path losses."""
    drawn = channel.draw(10, ROUNDS, SEED)
    least = drawn.gain.min(axis=0) * drawn.path_loss.sum()
    assert stats.kstest(least, stats.expon.cdf).pvalue > 1e-3
    assert stats.kstest(drawn.gain.max(axis=0) * drawn.path_loss.sum(), stats.expon.cdf).pvalue < 1e-6


def test_rounds_are_independent():
    for device in normalised_gain():
        lag_one = np.corrcoef(device[:-1], device[1:])[0, 1]
        assert abs(lag_one) < 5 / math.sqrt(ROUNDS)  # five standard errors


def test_any_fading_law_can_take_the_place_of_rayleigh():
    class Constant(channel.ChannelModel):
        def fading(self, rng, num_rounds):
            return np.ones(num_rounds, dtype=complex)

    drawn = channel.draw(3, 4, 0, Constant())
    np.testing.assert_allclose(drawn.gain, 1 / drawn.path_loss[:, None] * np.ones(4), rtol=1e-14)  # a root, squared
    np.testing.assert_array_equal(drawn.distance, channel.draw(3, 4, 0).distance)


def test_a_model_without_a_fading_law_says_so():
    with pytest.raises(NotImplementedError, match="ChannelModel has no fading law"):
        channel.ChannelModel().draw(1, 1, 0)


def test_a_model_is_found_by_name_with_its_parameters_and_says_them():
    found = channel.find("rayleigh:placement=area,distance_range=(20, 30)")
    assert found == channel.Rayleigh((20.0, 30.0), "area")
    known = channel.specification(found)
    assert known == {"model": "rayleigh", "distance_range": (20.0, 30.0), "placement": "area"}
    assert channel.find(known.pop("model"), **known) == found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ricean", "channel 'ricean' is unknown; expected one of .*, rayleigh, rician, .*, or module:object"),
        ("rayleigh:K=3", "unknown key 'K' of channel 'rayleigh'; expected distance_range, placement"),
        ("adascale.channel:ChannelModel", "must define fading"),
        ("rayleigh:placement=line", "placement must be 'radius' or 'area', got 'line'"),
        ("numpy:pi", "must be a subclass of adascale.channel.ChannelModel, got float"),
    ],
)
def test_what_is_no_model_is_refused(name, said):
    with pytest.raises(ValueError, match=said):
        channel.find(name)
