"""Shadows, motion and the street canyon: against closed forms, a traced ray, and the standard."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from adascale import channel
from adascale.channel import Moving, Rayleigh, Shadowed, UrbanMicro

SEEDS = range(1500)


def shadow(drawn):
    """Of a model that tells it, in dB."""
    return 10 * np.log10(drawn.path_loss / channel.cost_hata_path_loss(drawn.distance))


def test_shadows_are_normal_in_decibels():
    drawn = shadow(Shadowed(deviation=6.0).draw(1, 1, SEEDS)).ravel()
    assert stats.kstest(drawn, stats.norm(0, 6).cdf).pvalue > 1e-3
    assert stats.kstest(drawn, stats.norm(0, 7.5).cdf).pvalue < 1e-3  # the control


@pytest.mark.parametrize(("radius", "memory"), [(20.0, 50.0), (200.0, 500.0)])
def test_shadows_are_correlated_by_distance(radius, memory):
    """On a circle two uniform angles are 2 r sin(u) apart, with u uniform on (0, pi/2)."""
    model = Shadowed(
        distance_range=(radius, radius), deviation=8.0, correlation_distance=memory
    )
    drawn = shadow(model.draw(3, 1, SEEDS)) / 8
    expected = integrate.quad(
        lambda u: np.exp(-2 * radius * np.sin(u) / memory), 0, np.pi / 2
    )[0] / (np.pi / 2)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        product = drawn[:, one] * drawn[:, other]
        assert abs(product.mean() - expected) < 4.5 * product.std() / np.sqrt(
            len(product)
        )  # once in 1e5
    every = np.concatenate(
        [
            drawn[:, 0] * drawn[:, 1],
            drawn[:, 0] * drawn[:, 2],
            drawn[:, 1] * drawn[:, 2],
        ]
    )
    far = integrate.quad(
        lambda u: np.exp(-4 * radius * np.sin(u) / memory), 0, np.pi / 2
    )[0] / (np.pi / 2)
    assert (
        abs(every.mean() - far) > 2 * every.std() / np.sqrt(len(SEEDS))
        or expected - far < 0.1
    )  # the control


def test_shadow_is_in_the_gains_known_or_not():
    known, unknown = Shadowed().draw(4, 30, 5), Shadowed(known=False).draw(4, 30, 5)
    np.testing.assert_array_equal(known.coefficient, unknown.coefficient)
    np.testing.assert_array_equal(
        unknown.path_loss, channel.cost_hata_path_loss(unknown.distance)
    )
    assert (known.path_loss != unknown.path_loss).all()
    clear = Rayleigh().draw(4, 30, 5)
    np.testing.assert_allclose(
        known.gain * known.path_loss[:, None],
        clear.gain * clear.path_loss[:, None],
        rtol=1e-12,
    )
    np.testing.assert_array_equal(
        Shadowed(deviation=0).draw(4, 30, 5).coefficient, clear.coefficient
    )


def traced(start, direction, step, rounds, near, far):
    """Distances from the server of a ray in the plane, reflected at both circles, step by step."""
    place, heading, seen = (
        np.array([start, 0.0]),
        np.array([math.cos(direction), math.sin(direction)]),
        [start],
    )
    for _ in range(rounds - 1):
        left = step
        while True:
            b, r2 = place @ heading, place @ place
            hits = []
            if b * b - r2 + far**2 >= 0:
                hits.append((-b + math.sqrt(b * b - r2 + far**2), far))
            if b < 0 and b * b - r2 + near**2 >= 0:
                hits.append((-b - math.sqrt(b * b - r2 + near**2), near))
            length, radius = min((max(hit, 0.0), radius) for hit, radius in hits)
            if length >= left:
                place = place + left * heading
                break
            place = place + length * heading
            normal = place / np.linalg.norm(place)
            place, left = normal * radius, left - length
            heading = heading - 2 * (heading @ normal) * normal
        seen.append(np.linalg.norm(place))
    return seen


@given(
    st.floats(1, 300),
    st.floats(1, 400),
    st.floats(0, 1),
    st.floats(0, 2 * math.pi),
    st.floats(0.1, 90),
)
def test_distance_is_that_of_a_ray_between_mirrors(near, width, share, direction, step):
    start, far = near + share * width, near + width
    offset = abs(math.sin(direction)) * start  # of the line from the server
    assume(
        min(abs(offset - near), far - offset, abs(offset)) > 0.01 * near
    )  # elsewhere the tracer loses its digits
    model = Moving(distance_range=(near, far), speed=step, round_time=1.0)
    found = model.distances(np.array(start), np.array(direction), 60)
    np.testing.assert_allclose(
        found, traced(start, direction, step, 60, near, far), rtol=1e-7
    )


class Walking(Moving):
    """Path loss alone, without fading."""

    def fading(self, rng, num_rounds):
        return np.ones(num_rounds, dtype=complex)


def test_path_loss_follows_the_motion():
    model = Walking(speed=20.0)
    drawn = model.draw(5, 300, 4)
    np.testing.assert_allclose(
        1 / drawn.gain[:, 0], channel.cost_hata_path_loss(drawn.distance), rtol=1e-12
    )
    away = 10 ** ((10 * np.log10(1 / drawn.gain) - 33.44) / 35.22)  # back to metres
    assert np.abs(np.diff(away)).max() == pytest.approx(
        20 * 0.26, rel=0.05
    )  # the way in and out is as fast as can be
    np.testing.assert_allclose(
        Walking(speed=0).draw(5, 30, 4).gain,
        1 / drawn.path_loss[:, None] + np.zeros(30),
    )


def test_uniform_place_stays_uniform():
    """In squared distance; the paper's uniform distance does not stay, which is the control."""

    def away(placement, t):
        drawn = Walking(placement=placement, speed=200.0).draw(1, t + 1, SEEDS)
        return 10 ** ((-10 * np.log10(drawn.gain[:, 0, t]) - 33.44) / 35.22)

    for t in (0, 1, 4):
        assert (
            stats.kstest(
                away("area", t) ** 2, stats.uniform(100, 200**2 - 100).cdf
            ).pvalue
            > 1e-3
        )
    assert stats.kstest(away("radius", 0), stats.uniform(10, 190).cdf).pvalue > 1e-3
    assert stats.kstest(away("radius", 4), stats.uniform(10, 190).cdf).pvalue < 1e-3


def test_speed_sets_the_doppler():
    model = Moving(speed=0.2, carrier=1e9, distance_range=(70.0, 70.0))
    drawn = model.draw(1, 60, SEEDS)
    unit = drawn.coefficient[:, 0] * np.sqrt(drawn.path_loss)
    for lag in (1, 3, 12):
        each = (unit[:, lag:] * unit[:, :-lag].conj()).mean(axis=1)
        expected = special.j0(2 * np.pi * 0.2 * 1e9 / 299_792_458 * 0.26 * lag)
        assert abs(each.mean() - expected) < 4.5 * each.std() / np.sqrt(len(each))
    assert stats.kstest(np.abs(unit[:, 30]) ** 2, stats.expon.cdf).pvalue > 1e-3


def standard(d, f, h, sees):
    """Path loss in dB by 3GPP TR 38.901, table 7.4.1-1, UMi street canyon, written down once more."""
    r = math.sqrt(d * d + (10 - h) ** 2)
    edge = 4 * (10 - 1) * (h - 1) * f * 1e9 / 299792458
    if d <= edge:
        in_sight = 32.4 + 21 * math.log10(r) + 20 * math.log10(f)
    else:
        in_sight = (
            32.4
            + 40 * math.log10(r)
            + 20 * math.log10(f)
            - 9.5 * math.log10(edge**2 + (10 - h) ** 2)
        )
    return (
        in_sight
        if sees
        else max(
            in_sight,
            35.3 * math.log10(r) + 22.4 + 21.3 * math.log10(f) - 0.3 * (h - 1.5),
        )
    )


@pytest.mark.parametrize("h", [1.5, 2.0, 10.0])
@pytest.mark.parametrize("f", [0.7, 2.0, 28.0])
def test_street_path_loss_is_that_of_the_standard(f, h):
    model = UrbanMicro(carrier=f * 1e9, height=h)
    distance = np.array([10.0, 18.0, 42.0, 100.0, 130.0, 500.0, 4000.0])
    for sees, found in (
        (True, model.path_loss(distance)),
        (False, model.hidden_path_loss(distance)),
    ):
        np.testing.assert_allclose(
            10 * np.log10(found),
            [standard(d, f, h, sees) for d in distance],
            rtol=1e-12,
        )
    seen = model.sight_probability(np.array([10.0, 18.0, 100.0]))
    np.testing.assert_allclose(
        seen, [1, 1, 0.18 + 0.82 * np.exp(-100 / 36)], rtol=1e-14
    )
    # continuous where the slope changes, and doubled there from 21 to 40 dB a decade
    edge = 4 * 9 * (h - 1) * f * 1e9 / 299792458
    below, above = model.path_loss(edge * np.array([1 - 1e-9, 1 + 1e-9]))
    assert above / below == pytest.approx(1, rel=1e-7)


def test_street_devices_see_the_server_at_the_standard_rate():
    at = 60.0
    model = UrbanMicro(distance_range=(at, at))
    drawn = model.draw(2, 400, SEEDS)
    loss = 10 * np.log10(drawn.path_loss)
    unit = drawn.gain * drawn.path_loss[..., None]
    # a line of sight makes the power vary less than its mean; and out of sight the loss is some 17 dB more
    steady = unit.std(axis=-1) < 0.8
    share, p = steady.mean(), float(model.sight_probability(np.array([at]))[0])
    # a third of those in sight with a small K look like the others: K < 0.75, 10 log10 K < -1.2, two deviations below 9
    p *= 1 - stats.norm.cdf((10 * np.log10(0.75) - 9) / 5)
    assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / steady.size) + 0.005
    for these, sees, deviation in (
        (steady, True, 4.0),
        (unit.std(axis=-1) > 0.99, False, 7.82),
    ):
        found = loss[these] - standard(at, 2.0, 1.5, sees)
        error = deviation / np.sqrt(these.sum())
        assert abs(found.mean()) < 4 * error + 0.3  # some few are of the other kind
        assert abs(found.std() / deviation - 1) < 0.1
    # the mean power is that of the loss: averaged over 3,000 devices
    mean = unit.mean(axis=-1)
    assert abs(mean.mean() - 1) < 4 * mean.std() / np.sqrt(mean.size)


def test_ricean_factor_in_the_street_is_log_normal():
    drawn = UrbanMicro(distance_range=(15.0, 15.0)).draw(1, 2000, SEEDS)  # all in sight
    power = drawn.gain[:, 0] * drawn.path_loss
    # E|f|^4 = 1 + (2K + 1)/(K + 1)^2, solved for K
    spread = power.var(axis=-1)
    K = (1 - spread + np.sqrt(1 - np.minimum(spread, 1))) / np.maximum(spread, 1e-9)
    decibels = 10 * np.log10(np.maximum(K, 1e-9))
    assert np.median(decibels) == pytest.approx(
        9, abs=4 * 1.25 * 5 / np.sqrt(len(SEEDS))
    )
    low, high = np.quantile(decibels, [0.25, 0.9])
    assert high - 9 == pytest.approx(5 * stats.norm.ppf(0.9), abs=0.8)
    assert 9 - low == pytest.approx(5 * stats.norm.ppf(0.75), abs=0.8)
