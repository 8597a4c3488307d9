"""What breaks an assumption: correlated rounds, changes within a round, and sizes that follow the data."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.stats import norm

from adascale import Scenario, accounting
from adascale.policies import adascale_energies
from adascale.problem import RoundLeakage
from companion.bounds import stationary_level, stationary_square
from companion.theory import correlated
from companion.theory.air_time import block_floors
from companion.theory.neighbours import size_follows_data

SCALES = np.array([0.02, 0.01, 0.007])
SHARES = np.array([0.5, 0.3, 0.2])  # omega = 1


def test_blocks_share_a_floor_and_nothing_else():
    floor = correlated.block_floors(0.037, 10, (50, 1003), np.random.default_rng(0))
    assert floor.shape == (50, 1003)
    blocks = floor[:, :1000].reshape(50, 100, 10)
    assert (blocks == blocks[..., :1]).all()
    gain = 0.037 / blocks[..., 0]
    assert stats.kstest(gain.ravel(), "expon").pvalue > 0.01
    assert abs(np.corrcoef(gain[:, 1:].ravel(), gain[:, :-1].ravel())[0, 1]) < 0.05


def test_gauss_markov_floors_have_rayleigh_s_law_and_the_stated_correlation():
    r = 0.8
    floor = correlated.gauss_markov_floors(
        SCALES, r, (200, 400), np.random.default_rng(1)
    )
    gain = SCALES.sum() / floor
    assert stats.kstest(gain[:, ::100].ravel(), "expon").pvalue > 0.01
    one = 1 / correlated.gauss_markov_floors(
        SCALES[:1], r, (200, 400), np.random.default_rng(2)
    )
    for gap in (1, 3):  # the correlation of |h|^2 is the square of that of h
        assert np.corrcoef(one[:, gap:].ravel(), one[:, :-gap].ravel())[
            0, 1
        ] == pytest.approx(r ** (2 * gap), abs=0.04)
    # control: the floors of independent rounds have none
    free = 1 / correlated.block_floors(0.02, 1, (200, 400), np.random.default_rng(3))
    assert abs(np.corrcoef(free[:, 1:].ravel(), free[:, :-1].ravel())[0, 1]) < 0.02


def test_regret_against_the_level_is_a_plain_mean():
    floor = correlated.block_floors(0.037, 3, (8, 60), np.random.default_rng(4))
    leakage = RoundLeakage(Scenario.mnist())
    energy, _ = adascale_energies(floor, 0.04, 3.0, leakage)
    level = float(stationary_level(0.037, 0.04))
    pairs = (zip(*pair, strict=True) for pair in zip(energy, floor, strict=True))
    plain = [
        np.mean([leakage(w) - leakage(max(level, f)) for w, f in pair])
        for pair in pairs
    ]
    found = correlated.level_regret(floor, 0.037, 0.04, 3.0, leakage)
    assert found.centre == pytest.approx(np.mean(plain), rel=1e-9)
    assert found.low < found.centre < found.high


def test_only_what_is_correlated_breaks_the_bound_of_independent_rounds():
    nu, rng, lag, shape = 0.04, np.random.default_rng(6), np.arange(60), (20, 8000)
    scale = float(SCALES.sum())
    kinds = {
        "independent": (correlated.block_floors(scale, 1, shape, rng), np.zeros(60)),
        "blocks of 10": (
            correlated.block_floors(scale, 10, shape, rng),
            np.where(lag < 9, 0.25, 0),
        ),
        "Gauss-Markov": (
            correlated.gauss_markov_floors(SCALES, 0.9, shape, rng),
            0.9 ** (2 * (lag + 1)) / 4,
        ),
    }
    found = correlated.compare(
        kinds, scale, nu, (1.0, 10.0), RoundLeakage(Scenario.mnist())
    )
    assert found.V.tolist() == [1, 10] * 3
    assert (found.high < found.correlated).all()
    assert (found.low > found.independent).tolist()[:4] == [False, False, True, True]
    np.testing.assert_allclose(found.correlated[:2], found.independent[:2], rtol=1e-12)
    # the wider form, with E y^2 in place of E (y - nu)_+^2, is broken too
    assert (
        found.low[3]
        > (stationary_square(scale, stationary_level(scale, nu)) + nu**2) / 20
    )


@pytest.mark.parametrize("sigma", [2.0, 10.0, 30.0])
def test_only_public_constants_keep_the_lemma(sigma):
    found = size_follows_data(sigma=sigma)
    assert found.nothing <= 1
    assert min(found.rate, found.divisor) > 1  # negative controls


def test_the_leakage_is_that_of_an_independent_integral():
    sizes = {0: 0.25, 1: 0.5, 2: 0.25}  # two gradients 1, rate 1/2
    added = {
        k: 0.5 * sizes.get(k, 0) + 0.5 * sizes.get(k + 1, 0) for k in (-1, 0, 1, 2)
    }  # and one of -1

    def density(law, z):
        return sum(weight * norm.pdf(z, mean, 2) for mean, weight in law.items())

    def rdp(top, base):
        return (
            np.log(
                quad(lambda z: density(top, z) ** 3 * density(base, z) ** -2, -40, 40)[
                    0
                ]
            )
            / 2
        )

    larger = max(rdp(added, sizes), rdp(sizes, added)) / accounting.rdp(0.5, 2.0, 3)
    np.testing.assert_allclose(size_follows_data(2, 1, 2.0).nothing, larger, rtol=1e-6)


def uniform(floor, scale):
    """The p-value of a Fréchet law of shape 1 and this scale."""
    return stats.kstest(np.exp(-scale / floor), "uniform").pvalue


@pytest.mark.parametrize("blocks", [1, 2, 13])
def test_a_limit_in_every_block_multiplies_the_scale_by_the_blocks(blocks):
    floors = block_floors(np.random.default_rng(blocks), SHARES, blocks, 4000)
    assert uniform(floors.one, 1) > 0.01
    assert uniform(floors.limit_in_blocks, blocks) > 0.01
    if blocks > 1:
        assert uniform(floors.limit_in_blocks, 1) < 1e-6  # negative control


def test_the_other_rules_keep_the_tail_and_raise_the_bulk():
    floors = block_floors(np.random.default_rng(0), SHARES, 13, 100_000)
    for rule in (floors.one, floors.limit_on_energy, floors.own_scaling):
        assert (
            abs(np.mean(rule > 100) - 0.01) < 0.002
        )  # about six standard errors, and the tail's own second order
    assert np.mean(floors.limit_in_blocks > 100) > 0.1  # negative control: J omega / w
    medians = [np.median(rule) for rule in floors]
    assert medians[0] < medians[2] < medians[3] < medians[1]
