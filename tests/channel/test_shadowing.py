"""Shadows, motion and the street canyon: against closed forms, a traced ray, and the standard."""

import cmath
import math

import numpy as np
import pytest
from scipy import special, stats

from adascale import channel
from adascale.channel import Moving, Rayleigh, Shadowed, UrbanMicro

SEEDS = range(1500)


def shadow(drawn):
    """The shadows in dB of a model that includes them in the path loss."""
    return 10 * np.log10(drawn.path_loss / channel.cost_hata_path_loss(drawn.distance))


def assert_mean(values, expected):
    """The mean of independent values is as expected, with a false alarm once in 1e5."""
    error = values.std() / math.sqrt(len(values))
    assert abs(values.mean() - expected) < 4.5 * error


def test_shadows_are_correlated_by_distance():
    """On a circle two uniform angles are 2 r sin(u) apart, with u uniform on (0, pi/2)."""
    model = Shadowed(distance_range=(20.0, 20.0), correlation_distance=50.0)
    drawn = shadow(model.draw(3, 1, SEEDS)) / model.deviation
    u = (np.arange(1000) + 0.5) / 1000 * np.pi / 2
    expected = np.exp(-2 * 20 * np.sin(u) / 50).mean()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert_mean(drawn[:, i] * drawn[:, j], expected)


def test_shadow_is_in_the_gains_known_or_not():
    models = Rayleigh(), Shadowed(), Shadowed(known=False)
    clear, visible, hidden = (model.draw(4, 30, 5) for model in models)
    np.testing.assert_array_equal(visible.coefficient, hidden.coefficient)
    np.testing.assert_array_equal(hidden.path_loss, clear.path_loss)
    assert (visible.path_loss != hidden.path_loss).all()


def traced(start, direction, step, rounds, near, far):
    """Distances from the server of a ray in the plane, reflected at both circles, by a thousand steps a round."""
    place, heading = complex(start), cmath.rect(1, direction)
    distances = []
    for _ in range(rounds):
        distances.append(abs(place))
        for _ in range(1000):
            place += step / 1000 * heading
            normal = place / abs(place)
            outwards = (heading * normal.conjugate()).real
            if outwards * (abs(place) - np.clip(abs(place), near, far)) > 0:
                heading -= 2 * outwards * normal
    return distances


@pytest.mark.parametrize("direction", [0.0, 0.4, 2.0, 3.0, 5.0])
def test_distance_is_that_of_a_ray_between_mirrors(direction):
    model = Moving(distance_range=(20.0, 90.0), speed=13.0, round_time=1.0)
    distances = model.distances(np.array(60.0), np.array(direction), 60)
    expected = traced(60.0, direction, 13.0, 60, 20.0, 90.0)
    # each reflection may be late by a step
    np.testing.assert_allclose(distances, expected, atol=0.5)
    assert np.ptp(distances) > 20  # the control: it moves


def test_speed_sets_the_doppler():
    model = Moving(speed=0.2, carrier=1e9, distance_range=(70.0, 70.0))
    drawn = model.draw(1, 20, SEEDS)
    unit = drawn.coefficient[:, 0] * np.sqrt(drawn.path_loss)
    turns = 0.2 * 1e9 / 299_792_458 * 0.26
    for lag in (1, 3, 12):
        correlation = (unit[:, lag:] * unit[:, :-lag].conj()).mean(axis=1)
        assert_mean(correlation, special.j0(2 * np.pi * turns * lag))


def standard(d, f, h, sees):
    """Path loss in dB by 3GPP TR 38.901, table 7.4.1-1, UMi street canyon, written down once more."""
    log_r, log_f = math.log10(math.hypot(d, 10 - h)), math.log10(f)
    edge = 4 * (10 - 1) * (h - 1) * f * 1e9 / 299792458
    in_sight = 32.4 + 21 * log_r + 20 * log_f
    if d > edge:
        bend = 19 * math.log10(math.hypot(edge, 10 - h))
        in_sight = 32.4 + 40 * log_r + 20 * log_f - bend
    hidden = 35.3 * log_r + 22.4 + 21.3 * log_f - 0.3 * (h - 1.5)
    return in_sight if sees else max(in_sight, hidden)


@pytest.mark.parametrize(("f", "h"), [(0.7, 1.5), (2.0, 10.0), (28.0, 2.0)])
def test_street_path_loss_is_that_of_the_standard(f, h):
    model = UrbanMicro(carrier=f * 1e9, height=h)
    distance = np.array([10.0, 18.0, 42.0, 100.0, 130.0, 500.0, 4000.0])
    for sees, loss in ((True, model.path_loss), (False, model.hidden_path_loss)):
        expected = [standard(d, f, h, sees) for d in distance]
        np.testing.assert_allclose(10 * np.log10(loss(distance)), expected, rtol=1e-12)
    chance = model.sight_probability(np.array([10.0, 18.0, 100.0]))
    expected = [1, 1, 0.18 + 0.82 * np.exp(-100 / 36)]
    np.testing.assert_allclose(chance, expected, rtol=1e-14)


def test_street_devices_see_the_server_at_the_standard_rate():
    drawn = UrbanMicro(distance_range=(60.0, 60.0)).draw(2, 400, SEEDS)
    loss, unit = 10 * np.log10(drawn.path_loss), drawn.gain * drawn.path_loss[..., None]
    # in sight, the power varies less than its mean; those with K < 0.75, two deviations below 9 dB, look hidden
    spread = unit.std(axis=-1)
    looks = stats.norm.sf((10 * np.log10(0.75) - 9) / 5)
    chance = looks * UrbanMicro().sight_probability(np.array([60.0])).item()
    assert (spread < 0.8).mean() == pytest.approx(chance, abs=0.035)
    for devices, sees, deviation in (
        (spread < 0.8, True, 4.0),
        (spread > 0.99, False, 7.82),
    ):
        decibels = loss[devices] - standard(60.0, 2.0, 1.5, sees)
        assert abs(decibels.mean()) < 0.5 + 4 * deviation / np.sqrt(decibels.size)
        assert decibels.std() == pytest.approx(deviation, rel=0.1)
