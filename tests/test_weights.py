"""Devices that count differently: sensitivity, power limit and privacy, against the sums over devices written out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from adascale import InvalidInput, Problem, accounting, channel, policies

from .problems import MIXED

WEIGHTS = (1.0, 5.0, 2.0)
WEIGHTED = replace(MIXED, weights=WEIGHTS)
SHARE = np.array(WEIGHTS) / 8  # p_m
SIZES = st.lists(st.integers(50, 5000), min_size=2, max_size=5)


def unequal(sizes, **changes):
    """Devices with data sets of these sizes, which all sample at one rate."""
    batches = tuple(0.1 * size for size in sizes)
    many = {"num_devices": len(sizes), "batch_size": batches, "dataset_size": sizes}
    return replace(MIXED, **many, **changes)


def leakages(scenario, min_gain):
    """The Renyi leakage of each device in one round at full power."""
    problem = Problem(scenario, [min_gain], 1.0)
    sigma = problem.noise_multiplier(problem.min_noise_energy)[:, 0]
    return accounting.rdp(scenario.sampling_rate, sigma, 3)


def test_weights_set_the_power_limit():
    """Batches of Poisson size, and sample gradients that all have norm G and one direction: the largest power."""
    gain = np.array([3e-12, 8e-12, 1e-12])
    size, rate = np.array(MIXED.dataset_size), MIXED.sampling_rate
    square = binom.var(size, rate) + binom.mean(size, rate) ** 2
    energy = square / np.square(MIXED.batch_size) * MIXED.clip_norm**2
    power = SHARE**2 / gain * energy / MIXED.num_parameters
    expected = (MIXED.max_power / power).min()  # the largest eta within all limits
    problem = Problem(WEIGHTED, WEIGHTED.min_gain(gain[:, None]), 1.0)
    assert problem.max_eta[0] == pytest.approx(expected, rel=1e-12)


def test_noise_multiplier_is_noise_over_what_a_sample_moves():
    problem = Problem(WEIGHTED, [1e-12], 0.1)
    w = 2 * problem.min_noise_energy
    moves = SHARE * MIXED.clip_norm / MIXED.batch_size
    noise = np.sqrt(MIXED.noise_power / 2 / problem.eta(w)[0])
    sigma = problem.noise_multiplier(w)[:, 0]
    np.testing.assert_allclose(sigma, noise / moves, rtol=1e-12)
    each = accounting.rdp(MIXED.sampling_rate, sigma, 3)
    assert problem.rdp(w) == pytest.approx(np.mean(each), rel=1e-12)


@given(SIZES, st.floats(1e-3, 10))
def test_data_weights_give_all_devices_one_epsilon(sizes, energy):
    fair = unequal(sizes, weights=sizes)
    gain = fair.noise_scale / (fair.x_max * energy)
    each = leakages(fair, gain)
    np.testing.assert_allclose(each, each[0], rtol=1e-9)


def test_weights_are_refused_where_devices_stay_idle():
    gain = channel.draw(3, 8, seed=0).gain
    for policy in policies.Truncated(1e-12), policies.Best(2), policies.Joint(1.0):
        with pytest.raises(InvalidInput, match="weights"):
            policy.select(WEIGHTED, gain)
