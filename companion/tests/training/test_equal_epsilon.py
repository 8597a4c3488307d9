"""The trainings at one epsilon: the even split that reaches it, and what the sweep file says of the others."""

from dataclasses import replace

import numpy as np
import pytest

from adascale.accounting import epsilon
from adascale.policies import EqualAlloc
from adascale.runs.execution import decided
from adascale.runs.sweep import read_sweep
from adascale.scenario import Scenario
from companion.results import folder, load
from companion.training.equal_epsilon import EqualAllocAt
from tests.problems import make

SCENARIO = replace(Scenario.mnist(), num_rounds=50)
PROBLEM = make(SCENARIO, 1.0, 3)
ENTRIES = read_sweep(folder() / "mnist/guaranteed.toml")
TABLE = load("mnist/guaranteed")


def worst(scenario, schedule):
    """The certified interval of the device that leaks most; the noise multipliers are those of the formula."""
    sends = getattr(schedule, "senders", np.ones((scenario.num_devices, 1), bool))
    number = sends.sum(axis=0)
    w = getattr(schedule, "noise_energy", schedule)
    sigma = (
        number
        * scenario.batch_size
        / scenario.clip_norm
        * np.sqrt(w / (2 * scenario.num_parameters))
    )
    sends = np.broadcast_to(sends, (scenario.num_devices, w.size))
    most = max(sends, key=lambda own: np.sum(sigma[own] ** -2.0))
    rate = scenario.batch_size / scenario.dataset_size
    return epsilon([(rate, each, 1) for each in sigma[most]], 1e-5)


@pytest.mark.parametrize("target", [0.3, 2.0])
def test_even_split_reaches_its_epsilon(target):
    floor = PROBLEM.min_noise_energy
    w = EqualAllocAt(target).schedule(PROBLEM)
    nu = w - floor
    np.testing.assert_allclose(nu, nu.mean(), rtol=1e-9)
    reached = worst(SCENARIO, w)
    assert reached.lower <= target <= reached.upper * (1 + 1e-6)
    # less noise would exceed it
    assert worst(SCENARIO, floor + 0.999 * nu.mean()).lower > target
    guaranteed = EqualAlloc.budget_for(SCENARIO, target)
    assert nu.mean() < guaranteed
    # and this nu is more than it needs
    assert worst(SCENARIO, floor + guaranteed).upper < 0.999 * target


@pytest.mark.parametrize("number", [2, 3])
def test_committed_rows_have_the_exact_epsilon_of_their_schedules(number):
    own = [
        entry.run
        for entry in ENTRIES
        if entry.run.seed == number and entry.reading == "momentum 0.9, epsilon 2"
    ]
    assert len(own) == 4
    for run in own:
        row = TABLE[TABLE.run == run.address].iloc[0]
        problem, _, schedule = decided(run)
        reached = worst(run.scenario, schedule)
        assert reached.lower * (1 - 1e-6) <= row.epsilon <= reached.upper * (1 + 1e-6)
        # narrow enough to see a difference
        assert reached.upper < 1.001 * reached.lower
        w = getattr(schedule, "noise_energy", schedule)
        cost = w.mean() - problem.min_noise_energy.mean()
        assert row.cost == pytest.approx(cost, rel=1e-9)
