"""The trainings at one epsilon: the even split that reaches it, and what the sweep file says of the others."""

from dataclasses import replace

import numpy as np
import pytest

from adascale import channel
from adascale.accounting import epsilon
from adascale.policies import EqualAlloc
from adascale.problem import Problem
from adascale.runs.sweep import read_sweep
from adascale.scenario import Scenario
from companion.results import folder
from companion.training.equal_epsilon import EqualAllocAt

SCENARIO = replace(Scenario.mnist(), num_rounds=50)
DRAWN = channel.draw(SCENARIO.num_devices, SCENARIO.num_rounds, 3)
PROBLEM = Problem(SCENARIO, SCENARIO.min_gain(DRAWN.gain), 1.0)
ENTRIES = read_sweep(folder() / "mnist/guaranteed.toml")


def exact(w):
    """The certified interval of a device, from the noise multipliers by the formula; all devices are alike."""
    s = SCENARIO
    sigma = (
        s.num_devices * s.batch_size / s.clip_norm * np.sqrt(w / (2 * s.num_parameters))
    )
    rate = s.batch_size / s.dataset_size
    return epsilon([(rate, each, 1) for each in sigma], 1e-5)


@pytest.mark.parametrize("target", [0.3, 2.0])
def test_even_split_reaches_its_epsilon(target):
    floor = PROBLEM.min_noise_energy
    w = EqualAllocAt(target).schedule(PROBLEM)
    nu = w - floor
    np.testing.assert_allclose(nu, nu.mean(), rtol=1e-9)
    reached = exact(w)
    assert reached.lower <= target <= reached.upper * (1 + 1e-6)
    assert exact(floor + 0.999 * nu.mean()).lower > target  # less noise would exceed it
    guaranteed = EqualAlloc.budget_for(SCENARIO, target)
    assert nu.mean() < guaranteed
    assert (
        exact(floor + guaranteed).upper < 0.999 * target
    )  # and this nu is more than it needs


def test_sweep_has_the_budgets_that_guarantee_epsilon():
    even = [
        (entry.reading, entry.run)
        for entry in ENTRIES
        if entry.run.policy == "EqualAlloc"
    ]
    assert len(even) == 24
    for reading, run in even:
        target = float(reading.split()[-1])
        assert run.nu == pytest.approx(
            EqualAlloc.budget_for(run.scenario, target), rel=1e-9
        )
