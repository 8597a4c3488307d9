"""What breaks an assumption: correlated rounds, changes within a round, and sizes that follow the data."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.stats import norm

from adascale import accounting
from companion.theory import correlated
from companion.theory.air_time import block_floors
from companion.theory.neighbours import size_follows_data

SCALES = np.array([0.02, 0.01, 0.007])
SHARES = np.array([0.5, 0.3, 0.2])  # omega = 1


def test_gauss_markov_floors_have_the_stated_correlation():
    def gains(scales, seed):
        rng = np.random.default_rng(seed)
        floor = correlated.gauss_markov_floors(scales, 0.8, (200, 400), rng)
        return scales.sum() / floor

    def correlation(gain, gap):
        return np.corrcoef(gain[:, gap:].ravel(), gain[:, :-gap].ravel())[0, 1]

    assert stats.kstest(gains(SCALES, 1)[:, ::100].ravel(), "expon").pvalue > 0.01
    single = gains(SCALES[:1], 2)
    for gap in (1, 3):  # the correlation of |h|^2 is the square of that of h
        assert correlation(single, gap) == pytest.approx(0.8 ** (2 * gap), abs=0.04)
    # control: the floors of independent rounds have none
    free = correlated.block_floors(0.02, 1, (200, 400), np.random.default_rng(3))
    assert abs(correlation(1 / free, 1)) < 0.02


def test_the_leakage_is_that_of_an_independent_integral():
    sizes = {0: 0.25, 1: 0.5, 2: 0.25}  # two gradients 1, rate 1/2
    # and one of -1
    added = {
        k: 0.5 * sizes.get(k, 0) + 0.5 * sizes.get(k + 1, 0) for k in (-1, 0, 1, 2)
    }

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


def test_the_other_rules_keep_the_tail_and_raise_the_bulk():
    floors = block_floors(np.random.default_rng(0), SHARES, 13, 100_000)
    for rule in (floors.one, floors.limit_on_energy, floors.own_scaling):
        # about six standard errors, and the tail's own second order
        assert abs(np.mean(rule > 100) - 0.01) < 0.002
    assert np.mean(floors.limit_in_blocks > 100) > 0.1  # negative control: J omega / w
    medians = [np.median(rule) for rule in floors]
    assert medians[0] < medians[2] < medians[3] < medians[1]
