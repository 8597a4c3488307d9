"""What the chapter on guarantees concludes from its own numbers, for the paper's scenario and noise allowance."""

import numpy as np

from adascale import Scenario, channel
from adascale.problem import RoundLeakage
from companion.theory import correlated


def test_blocks_break_the_bound_for_independent_rounds_and_only_they_do():
    scenario, rng, lag = Scenario.mnist(), np.random.default_rng(6), np.arange(60)
    path_loss = channel.draw(scenario.num_devices, 1, seed=0).path_loss
    scales = np.ravel(scenario.noise_scale / scenario.x_max / scenario.mean_gain(path_loss))
    omega, shape = float(scales.sum()), (20, 8_000)
    kinds = {
        "independent": (correlated.block_floors(omega, 1, shape, rng), np.zeros(60)),
        "blocks of 10": (correlated.block_floors(omega, 10, shape, rng), np.where(lag < 9, 0.25, 0)),
        "Gauss-Markov": (correlated.gauss_markov_floors(scales, 0.9, shape, rng), 0.9 ** (2 * (lag + 1)) / 4),
    }
    found = correlated.compare(kinds, omega, 0.04, (1.0, 10.0), RoundLeakage(scenario))
    assert (found["high"] < found["correlated"]).all()
    assert ((found["low"] > found["independent"]) == (found["rounds"] == "blocks of 10")).all()
