"""Distributions of the floors, against other integration, other precision and draws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from adascale import channel
from adascale.channel import (
    EmpiricalFloors,
    FadingFloors,
    FloorLaw,
    RayleighFloors,
    SelectionFloors,
)
from adascale.errors import InvalidInput

from ..problems import MIXED

GAIN = np.array([1e-10, 2e-11, 4e-11])
UNIT = MIXED.noise_scale / MIXED.x_max


def rayleigh(x):
    """P(|f|^2 > x) under Rayleigh fading."""
    return np.exp(-x)


def rician(x):
    """P(|f|^2 > x) with a line of sight 3 times as strong as the rest, and mean square 1."""
    return stats.ncx2.sf(8 * x, 2, 6)


FLOORS = 10 ** np.random.default_rng(5).uniform(-3, 1, 50)
LAWS = {
    "rayleigh": RayleighFloors.of(MIXED, GAIN),
    "rayleigh by quadrature": FadingFloors(MIXED, GAIN, rayleigh),
    "rician": FadingFloors(MIXED, GAIN, rician),
    "selection": SelectionFloors(0.7, 3),
    "empirical": EmpiricalFloors(FLOORS),
    "one floor": EmpiricalFloors([0.3]),
}
ATOMS = "empirical", "one floor"


def product_of(survival):
    """The distribution function of the largest floor of the devices."""
    return lambda w: np.prod([survival(UNIT / (w * gain)) for gain in GAIN])


@pytest.mark.parametrize(
    ("law", "share"),
    [
        (LAWS["rayleigh"], product_of(rayleigh)),
        (LAWS["rayleigh by quadrature"], product_of(rayleigh)),
        (LAWS["rician"], product_of(rician)),
        # the smallest of two and of sixteen independent floors
        (SelectionFloors(0.7, 2), lambda w: 1 - (1 - np.exp(-0.7 / w)) ** 2),
        (SelectionFloors(0.7, 16), lambda w: 1 - (1 - np.exp(-0.7 / w)) ** 16),
    ],
)
def test_cost_of_a_level_is_the_integral_of_the_cdf(law, share):
    for level in law.quantile(0.5) * np.array([0.3, 1.0, 4.0]):
        exact, _ = integrate.quad(share, 0, level, epsabs=0, epsrel=1e-9, limit=200)
        assert law.mean_cost(level) == pytest.approx(exact, rel=3e-7)
        assert law.cdf(level) == pytest.approx(share(level), rel=1e-6)


@pytest.mark.parametrize("name", LAWS)
def test_quantiles_invert_the_cdf(name):
    law, share = LAWS[name], np.array([1e-8, 1e-4, 0.05, 0.5, 0.95, 0.9999])
    floor = law.quantile(share)
    if name in ATOMS:
        assert (law.cdf(floor) >= share).all()
        assert (law.cdf(floor * (1 - 1e-12)) <= share).all()
    else:
        np.testing.assert_allclose(law.cdf(floor), share, rtol=4e-3)


@pytest.mark.parametrize("level", [FLOORS[7], 1e-4, 0.02, 99.0])
def test_empirical_law_is_its_floors_one_by_one(level):
    law = LAWS["empirical"]
    assert law.cdf(level) == (level >= FLOORS).mean()
    cost = np.maximum(level - FLOORS, 0).mean()
    assert law.mean_cost(level) == pytest.approx(cost, rel=1e-12, abs=1e-18)


@given(st.sampled_from([*LAWS]), st.floats(-8, 6))
def test_mean_cost_of_the_level_is_the_budget(name, exponent):
    law = LAWS[name]
    budget = 10.0**exponent * law.quantile(0.5)
    level = law.level(budget)
    rounding = 2 * np.spacing(level)  # of a level just above a floor that many share
    assert law.mean_cost(level) == pytest.approx(budget, rel=1e-11, abs=rounding)


@pytest.mark.parametrize("name", LAWS)
@given(
    st.floats(-150, 6),
    st.none() | st.floats(-3, 4),
    st.floats(1e-3, 1e6),
    st.none() | st.floats(-9, 9),
)
def test_shared_level_spends_the_budget(name, budget, floor, rounds, start):
    law = LAWS[name]
    median = float(law.quantile(0.5))
    budget = median * 10.0**budget
    floor, start = (x if x is None else median * 10.0**x for x in (floor, start))
    level = law.shared_level(budget, floor, rounds, start)

    def spent(at):
        with np.errstate(all="ignore"):
            later = rounds * float(law.mean_cost(at))
        return later + (0.0 if floor is None else max(at - floor, 0.0))

    assert level.shape == ()
    # to a relative 1e-12, or to the last digits of the level
    assert spent(level * (1 - 4e-15)) <= budget * (1 + 1e-12)
    assert spent(level * (1 + 4e-15)) >= budget * (1 - 1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda gain: RayleighFloors.of(MIXED, gain),
        lambda gain: SelectionFloors(RayleighFloors.of(MIXED, gain).scale, 3),
        lambda gain: FadingFloors(MIXED, gain, rician),
        lambda gain: EmpiricalFloors.of(MIXED, gain),
    ],
)
def test_leading_axes_hold_one_law_per_entry(make):
    gain = GAIN * np.array([[1.0], [3.0], [0.2]])
    left, floor = 10 ** np.random.default_rng(2).uniform(-4, 2, (2, 3))
    law = make(gain)
    assert law.draw(np.random.default_rng(0), 2, 5).shape == (3, 2, 5)
    levels, shared = law.level(left), law.shared_level(left, floor, 40.0)
    for r, alone in enumerate(map(make, gain)):
        assert levels[r] == pytest.approx(alone.level(left[r]), rel=1e-11)
        assert shared[r] == alone.shared_level(left[r], floor[r], 40.0)


class Uniform(FloorLaw):
    """On 1 ... 2, with a median that is no median: a search finds its way all the same."""

    def cdf(self, floor):
        return np.clip(np.asarray(floor) - 1, 0, 1)

    def mean_cost(self, level):
        inside = np.clip(np.asarray(level) - 1, 0, 1)
        return inside**2 / 2 + np.maximum(np.asarray(level) - 2, 0)

    def quantile(self, share):
        return np.asarray(share) / 100


class Contradicting(RayleighFloors):
    def mean_cost(self, level):
        return np.full(np.shape(level), np.nan)


def test_your_own_law_needs_three_functions_that_agree():
    assert Uniform().level(0.125) == pytest.approx(1.5, rel=1e-12)
    assert Uniform().level(3.5) == pytest.approx(5.0, rel=1e-12)
    # the root of max(x - 1.2, 0) + 3 (x - 1)^2 / 2 = 0.4
    exact = 1 + (math.sqrt(1 + 6 * 0.6) - 1) / 3
    assert Uniform().shared_level(0.4, 1.2, 3) == pytest.approx(exact, rel=1e-12)
    for function in (FloorLaw().cdf, FloorLaw().mean_cost, FloorLaw().quantile):
        with pytest.raises(NotImplementedError):
            function(0.5)
    with pytest.raises(RuntimeError):
        Contradicting(0.3).shared_level(0.1, 0.2, 5)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("scale", lambda: RayleighFloors([0.1, 0.0])),
        ("mean_gain", lambda: FadingFloors(MIXED, [1, -1, 1], rician)),
        ("mean_gain", lambda: channel.BlockFading().floor_law(MIXED, GAIN[:2])),
        ("survival", lambda: FadingFloors(MIXED, GAIN, lambda x: 1 - rician(x))),
        ("floor", lambda: EmpiricalFloors([0.1, np.nan])),
        ("energy", lambda: channel.effective_gain(np.ones(3), "all")),
        ("antennas", lambda: SelectionFloors(1.0, 17)),
        ("budget", lambda: LAWS["rician"].level(0.0)),
    ],
)
def test_bad_argument_is_named(argument, call):
    with pytest.raises(InvalidInput) as error:
        call()
    assert error.value.argument == argument


def test_level_out_of_floating_point_range_is_refused():
    with pytest.raises(RuntimeError, match="beyond floating point"):
        RayleighFloors(1.0).level(1e-320)


def test_levels_of_many_antennas_end_though_their_mean_cost_is_rounded():
    """Its alternating sum of sixteen antennas is exact to about 1e-12, and Newton's steps never get below that."""
    floors, budget = SelectionFloors(1.0, 16), np.geomspace(0.1, 1000, 100)
    level = floors.level(budget)
    np.testing.assert_allclose(floors.mean_cost(level), budget, rtol=1e-9)
