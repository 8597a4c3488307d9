"""Correlated noise over the air: dense matrices, simulation, and the accountant."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm, toeplitz

from adascale import Problem, Scenario
from adascale.accounting import ExactAccountant
from adascale.learning import FedSGD, Training, data
from companion.theory.correlated_noise import (
    coefficients,
    epsilon,
    error,
    multipliers,
    power_factor,
    water_level,
)
from companion.training.correlated_noise import (
    CorrelatedFedSGD,
    of_channel,
)

C = coefficients(4)
T = 12
ENERGY = np.random.default_rng(0).uniform(0.5, 4, T)


DENSE = toeplitz(np.append(C, np.zeros(T - C.size)), np.zeros(T))


def test_coefficients_are_the_first_of_the_root_of_ones():
    root = sqrtm(np.tril(np.ones((T, T)) + 0j)).real
    np.testing.assert_allclose(C / C[0], root[:4, 0], atol=1e-6)
    assert np.linalg.norm(C) == pytest.approx(1)


def test_error_matches_dense_matrices():
    sums = np.tril(np.ones((T, T))) @ np.linalg.inv(DENSE)
    assert error(C, ENERGY) == pytest.approx((sums**2 @ ENERGY).mean())


def test_multipliers_are_those_of_a_participation_in_whitened_signals():
    seen = DENSE / np.sqrt(ENERGY)[:, None]
    for r in range(4):
        expected = 1 / np.linalg.norm(seen[:, r::4], axis=0)
        np.testing.assert_allclose(multipliers(C, ENERGY, r), expected)


def test_white_noise_has_the_accountants_epsilon():
    scenario = replace(Scenario.mnist(), num_rounds=T)
    unit, rate, _ = of_channel(scenario, 0)
    problem = Problem(scenario, np.full(T, 1.0), 1.0)
    expected = problem.epsilon(np.maximum(ENERGY * unit, 0), ExactAccountant())
    assert epsilon(np.ones(1), ENERGY, rate) == pytest.approx(expected, rel=1e-6)
    # four bands with one coefficient: the sampling alone is cyclic, and costs more
    single = np.array([1.0, 0, 0, 0])
    assert epsilon(single, np.ones(T), rate) > epsilon(np.ones(1), np.ones(T), rate)


def test_water_level_meets_epsilon_above_raised_floors():
    floor = ENERGY / 4
    noise = water_level(C, power_factor(C) * floor, 0.05, 2.0)
    assert epsilon(C, noise, 0.05) == pytest.approx(2, rel=1e-3)
    assert (noise >= power_factor(C) * floor).all()
    high = np.full(T, 1e3)  # floors that protect more than enough
    np.testing.assert_array_equal(water_level(C, high, 0.05, 2.0), high)


def test_server_decodes_what_devices_filtered():
    scenario = replace(Scenario.digits(), batch_size=10)
    training = Training.preset("digits")
    dataset = data.load(training.dataset, training.input_scaling)

    def trained(c):
        federation = CorrelatedFedSGD(scenario, training, dataset, 0, c=c)
        state = federation.start()
        for _ in range(6):
            state, _ = federation.step(state, np.inf)
        return state.parameters, federation

    filtered, federation = trained(C)
    plain, _ = trained(np.array([1.0, 0, 0, 0]))  # the same batches
    torch.testing.assert_close(filtered, plain, rtol=0, atol=1e-5)
    start = FedSGD(scenario, training, dataset, 0).start().parameters
    assert (plain - start).abs().max() > 1e-2
    assert np.max(federation.sent) <= power_factor(C)
