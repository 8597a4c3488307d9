"""A training told apart at its deepest fade: what the branch changes, and what it shares."""

import numpy as np
import pytest

from adascale.comparison import find_method
from adascale.learning import data, train
from adascale.runs.execution import problem_of
from adascale.runs.specification import make_run
from companion.training.counterfactual import fork, levelled


@pytest.mark.parametrize("rounds", [30, 31])
def test_one_floor_is_levelled_and_no_cost(rounds):
    run = make_run("digits", "AdaScale", 0.1, 3, rounds=rounds)
    problem, mean_gain = problem_of(run)
    w = find_method("AdaScale")[1](problem, mean_gain).schedule(problem)
    without, schedule = levelled(run)
    gain = problem.min_gain
    (changed,) = np.flatnonzero(gain != without.min_gain)
    assert changed == gain.argmin()
    assert without.min_gain[changed] == np.sort(gain)[(rounds - 1) // 2]
    np.testing.assert_array_equal(np.delete(schedule, changed), np.delete(w, changed))
    spend = without.spend(schedule), problem.spend(w)
    np.testing.assert_allclose(*spend, rtol=1e-9, atol=1e-12)


RUN = {
    "dataset": "digits",
    "policy": "AdaScale",
    "nu": 0.05,
    "seed": 1,
    "rounds": 12,
    "every": 2,
}


@pytest.fixture(scope="module")
def branch():
    return fork(make_run(**RUN))


def test_branches_are_one_training_up_to_the_fade(branch):
    run = make_run(**RUN)
    problem, mean_gain = problem_of(run)
    w = find_method(run.policy)[1](problem, mean_gain).schedule(problem)
    dataset = data.load("digits", run.training.input_scaling)
    with_fade = (
        train(problem, w, run.training, dataset, run.seed, every=run.every)
        .history.set_index("round")
        .test_loss
    )
    without = branch.set_index("round").test_loss
    with_fade = with_fade.dropna()
    before = without.index < problem.min_noise_energy.argmax()
    assert 0 < before.sum() < len(branch)
    assert without[before].equals(with_fade[before])
    assert (without[~before] != with_fade[~before]).all()
