"""Distributions of the floors, against other integration, other precision and draws."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

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


def rician(x, K=3.0):
    """P(|f|^2 > x) with a line of sight K times as strong as the rest, and mean square 1."""
    return stats.ncx2.sf(2 * (K + 1) * x, 2, 2 * K)


def shadowed(x):
    """Rayleigh fading under a log-normal shadow of 6 dB and mean square 1: an average over normal quantiles."""
    share = (np.arange(200) + 0.5) / 200
    factor = np.exp(0.6 * stats.norm.ppf(share))
    factor /= factor.mean()
    return np.exp(-np.asarray(x)[..., None] / factor).mean(axis=-1)


LAWS = {
    "rayleigh": RayleighFloors.of(MIXED, GAIN),
    "rayleigh by quadrature": FadingFloors(MIXED, GAIN, lambda x: np.exp(-x)),
    "rician": FadingFloors(MIXED, GAIN, rician),
    "shadowed": FadingFloors(MIXED, GAIN, shadowed),
    "selection": SelectionFloors(0.7, 3),
    "empirical": EmpiricalFloors(
        LAW_OF := 10 ** np.random.default_rng(5).uniform(-3, 1, 50)
    ),
    "one floor": EmpiricalFloors([0.3]),
}
ATOMS = "empirical", "one floor"


@pytest.mark.parametrize("ratio", [1e-3, 0.03, 0.3, 1.0, 30.0, 1e6])
def test_cost_under_rayleigh_fading_matches_many_digits(ratio):
    law, level = RayleighFloors(0.7), 0.7 / ratio
    with mpmath.workdps(40):
        exact = float(
            mpmath.mpf(level) * mpmath.expint(2, mpmath.mpf(0.7) / mpmath.mpf(level))
        )
    assert law.mean_cost(level) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(
    "name", [*(name for name in LAWS if name not in ATOMS), 1, 2, 4, 16]
)
def test_cost_of_a_level_is_the_integral_of_the_cdf(name):
    law = SelectionFloors(0.7, name) if isinstance(name, int) else LAWS[name]
    survival = {"rician": rician, "shadowed": lambda x: float(shadowed(x))}.get(
        name, lambda x: np.exp(-x)
    )

    def share(w):
        if isinstance(law, SelectionFloors):
            return -np.expm1(law.antennas * np.log1p(-np.exp(-0.7 / w)))
        return np.prod([survival(UNIT / (w * g)) for g in GAIN])

    median = float(law.quantile(0.5))
    for level in median * np.array([0.3, 1.0, 4.0]):
        exact, _ = integrate.quad(share, 0, level, epsabs=0, epsrel=1e-9, limit=200)
        assert law.mean_cost(level) == pytest.approx(exact, rel=3e-7)
        assert law.cdf(level) == pytest.approx(share(level), rel=1e-6)


def test_quadrature_gives_the_closed_form():
    closed, numeric = LAWS["rayleigh"], LAWS["rayleigh by quadrature"]
    level = float(closed.scale) * np.geomspace(0.06, 1e12, 1000)
    np.testing.assert_allclose(
        numeric.mean_cost(level), closed.mean_cost(level), rtol=2e-7
    )
    np.testing.assert_allclose(numeric.cdf(level), closed.cdf(level), rtol=1e-6)
    low = float(closed.scale) * np.geomspace(
        0.01, 0.06, 100
    )  # less than one round in 1e7 is under such a level
    assert (numeric.mean_cost(low) < 1.1e-7 * low).all()
    budget = np.geomspace(1e-8, 1e3, 50)
    np.testing.assert_allclose(numeric.level(budget), closed.level(budget), rtol=1e-7)


@pytest.mark.parametrize("name", LAWS)
def test_quantiles_invert_the_cdf_and_draws_are_those_of_uniform_shares(name):
    law, share = LAWS[name], np.array([1e-8, 1e-4, 0.05, 0.5, 0.95, 0.9999])
    drawn = law.quantile(np.random.default_rng(3).random(50))
    np.testing.assert_array_equal(law.draw(np.random.default_rng(3), 50), drawn)
    found = law.cdf(law.quantile(share))
    if name not in ATOMS:
        np.testing.assert_allclose(found, share, rtol=4e-3)
    else:
        assert (found >= share).all()
        assert (law.cdf(law.quantile(share) * (1 - 1e-12)) <= share).all()


def test_empirical_law_is_its_floors_one_by_one():
    law, seen = LAWS["empirical"], np.sort(LAW_OF)
    for level in [*seen[[0, 7, 49]], 0.5 * seen[0], 0.02, 1.0, 100.0]:
        assert law.cdf(level) == (seen <= level).mean()
        assert law.mean_cost(level) == pytest.approx(
            np.maximum(level - seen, 0).mean(), rel=1e-12, abs=1e-18
        )


@given(st.floats(-8, 6))
def test_level_under_rayleigh_fading_costs_the_budget(exponent):
    """Of the other laws it is the shared level of one round."""
    law = LAWS["rayleigh"]
    budget = 10.0**exponent * float(law.quantile(0.5))
    level = law.level(budget)
    assert law.mean_cost(level) == pytest.approx(budget, rel=1e-11)


@pytest.mark.parametrize("name", LAWS)
@given(
    st.floats(-150, 6),
    st.floats(-3, 4).map(lambda x: 10.0**x),
    st.floats(0, 1e6),
    st.none() | st.floats(-9, 9),
    st.booleans(),
)
def test_shared_level_spends_what_is_left(name, left, floor, rounds, start, alone):
    law = LAWS[name]
    median = float(law.quantile(0.5))
    left, floor = median * 10.0**left, None if alone else median * floor
    rounds = max(rounds, 1e-3) if alone else rounds
    level = law.shared_level(
        left, floor, rounds, None if start is None else median * 10.0**start
    )

    def spent(at):
        with np.errstate(all="ignore"):
            later = rounds * float(law.mean_cost(at))
        return later + (0.0 if floor is None else max(at - floor, 0.0))

    assert level.shape == ()
    # to a relative 1e-12, or to the last digits of the level
    assert spent(level * (1 - 4e-15)) <= left * (1 + 1e-12)
    assert spent(level * (1 + 4e-15)) >= left * (1 - 1e-12)


def test_shared_level_of_nothing_is_zero():
    for law in LAWS.values():
        level = law.shared_level(np.array([0.0, 0.1]), np.array([0.3, 0.3]), 5)
        assert level[0] == 0
        assert level[1] == law.shared_level(0.1, 0.3, 5)


def selection_of(gain):
    return SelectionFloors(RayleighFloors.of(MIXED, gain).scale, 3)


def test_lanes_are_solved_as_each_alone():
    gain = GAIN * np.array([[1.0], [3.0], [0.2]])
    rng = np.random.default_rng(2)
    left, floor = 10 ** rng.uniform(-4, 2, (2, 4, 3))
    for law, alone in (
        (RayleighFloors.of(MIXED, gain), lambda g: RayleighFloors.of(MIXED, g)),
        (selection_of(gain), selection_of),
        (FadingFloors(MIXED, gain, rician), lambda g: FadingFloors(MIXED, g, rician)),
        (EmpiricalFloors.of(MIXED, gain), lambda g: EmpiricalFloors.of(MIXED, g)),
    ):
        assert law.lanes == (3,)
        together, levels, quantiles = (
            law.shared_level(left, floor, 40.0),
            law.level(left),
            law.quantile(0.3 + 0 * left),
        )
        drawn = law.draw(np.random.default_rng(0), 2, 5)
        assert drawn.shape == (3, 2, 5)
        for k, r in np.ndindex(4, 3):
            one = alone(gain[r])
            assert together[k, r] == one.shared_level(left[k, r], floor[k, r], 40.0)
            assert levels[k, r] == pytest.approx(
                float(one.level(left[k, r])), rel=1e-11
            )
            assert quantiles[k, r] == one.quantile(0.3)
            assert law.cdf(left)[k, r] == one.cdf(left[k, r])
            assert law.mean_cost(left)[k, r] == one.mean_cost(left[k, r])


def test_your_own_law_needs_three_functions_that_agree():
    class Uniform(FloorLaw):
        """On 1 ... 2, with a median that is no median: a search finds its way all the same."""

        def cdf(self, floor):
            return np.clip(np.asarray(floor) - 1, 0, 1)

        def mean_cost(self, level):
            inside = np.clip(np.asarray(level) - 1, 0, 1)
            return inside**2 / 2 + np.maximum(np.asarray(level) - 2, 0)

        def quantile(self, share):
            return np.asarray(share) / 100

    assert Uniform().level(0.125) == pytest.approx(1.5, rel=1e-12)
    assert Uniform().level(3.5) == pytest.approx(5.0, rel=1e-12)
    exact = optimize.brentq(
        lambda x: max(x - 1.2, 0) + 3 * (x - 1) ** 2 / 2 - 0.4, 1, 2, xtol=1e-14
    )
    assert Uniform().shared_level(0.4, 1.2, 3) == pytest.approx(exact, rel=1e-12)
    for undefined in ("cdf", "mean_cost", "quantile"):
        with pytest.raises(NotImplementedError):
            getattr(FloorLaw(), undefined)(0.5)

    class Never(RayleighFloors):
        def mean_cost(self, level):
            return np.full(np.shape(level), np.nan)

    with pytest.raises(RuntimeError):
        Never(0.3).shared_level(0.1, 0.2, 5)


BAD = {
    "scale": [lambda: RayleighFloors([0.1, 0.0])],
    "mean_gain": [
        lambda gain=gain: FadingFloors(MIXED, gain, rician)
        for gain in ([1, -1, 1], 1.0, GAIN[:2])
    ]
    + [
        lambda: RayleighFloors.of(MIXED, GAIN[:2]),
        lambda: channel.BlockFading(energy="even").floor_law(MIXED, GAIN[:2]),
    ],
    "survival": [
        lambda f=f: FadingFloors(MIXED, GAIN, f)
        for f in (lambda x: 1 - rician(x), lambda x: 1.0, np.log)
    ],
    "floor": [
        lambda floor=floor: EmpiricalFloors(floor) for floor in ([0.1, np.nan], [], 0.1)
    ],
    "energy": [lambda: channel.effective_gain(np.ones(3), "all")],
    "antennas": [lambda: SelectionFloors(1.0, 17)],
    "budget": [
        lambda: LAWS["rician"].level(0.0),
        lambda: RayleighFloors(1.0).level(-1.0),
    ],
}


@pytest.mark.parametrize("argument", BAD)
def test_bad_arguments_are_named(argument):
    for call in BAD[argument]:
        with pytest.raises(InvalidInput) as error:
            call()
        assert error.value.argument == argument
    with pytest.raises(ValueError, match=r"^beyond floating point"):
        RayleighFloors(1.0).level(1e-320)
