"""Correlated floors: each kind has the law of a round that Rayleigh fading gives, and hangs together as it says."""

import numpy as np
import pytest
from scipy import stats

from adascale import Scenario
from adascale.policies import adascale_energies
from adascale.problem import RoundLeakage
from companion.bounds import stationary_level
from companion.theory import correlated

SCALES = np.array([0.02, 0.01, 0.007])


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
    floor = correlated.gauss_markov_floors(SCALES, r, (200, 400), np.random.default_rng(1))
    gain = SCALES.sum() / floor
    assert stats.kstest(gain[:, ::100].ravel(), "expon").pvalue > 0.01
    one = 1 / correlated.gauss_markov_floors(SCALES[:1], r, (200, 400), np.random.default_rng(2))
    for gap in (1, 3):  # the correlation of |h|^2 is the square of that of h
        assert np.corrcoef(one[:, gap:].ravel(), one[:, :-gap].ravel())[0, 1] == pytest.approx(r ** (2 * gap), abs=0.04)
    # control: the floors of independent rounds have none
    free = 1 / correlated.block_floors(0.02, 1, (200, 400), np.random.default_rng(3))
    assert abs(np.corrcoef(free[:, 1:].ravel(), free[:, :-1].ravel())[0, 1]) < 0.02


def test_regret_against_the_level_is_a_plain_mean():
    floor = correlated.block_floors(0.037, 3, (8, 60), np.random.default_rng(4))
    leakage = RoundLeakage(Scenario.mnist())
    energy, _ = adascale_energies(floor, 0.04, 3.0, leakage)
    level = float(stationary_level(0.037, 0.04))
    plain = [
        np.mean([leakage(w) - leakage(max(level, f)) for w, f in zip(*pair, strict=True)])
        for pair in zip(energy, floor, strict=True)
    ]
    found = correlated.level_regret(floor, 0.037, 0.04, 3.0, leakage)
    assert found.centre == pytest.approx(np.mean(plain), rel=1e-9)
    assert found.low < found.centre < found.high


def test_bad_input_is_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="correlation must be one number strictly between 0 and 1"):
        correlated.gauss_markov_floors(SCALES, 1.0, (1, 2), rng)
    with pytest.raises(ValueError, match="block must be a whole number"):
        correlated.block_floors(0.1, 0, (1, 2), rng)
