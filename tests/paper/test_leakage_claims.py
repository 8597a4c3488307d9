"""What the paper says of its MNIST figure: AdaScale is close to the offline optimum, EqualAlloc is not."""

from typing import NamedTuple

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies, tuning

BUDGETS = np.array([0.01, 0.04, 0.16])
SEEDS = range(100)


class Ratios(NamedTuple):
    """Leakage at order 3 over that of the offline optimum, shape (budgets, realisations)."""

    adascale: np.ndarray
    equal: np.ndarray
    excess_cost: np.ndarray


@pytest.fixture(scope="module")
def ratios():
    scenario = Scenario.mnist()
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, list(SEEDS)).gain
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), BUDGETS[:, None])
    best = problem.rdp(policies.Optimal().schedule(problem))
    eta = policies.AdaScale(tuning.match_budget(policies.AdaScale, problem)).schedule(problem)
    equal = policies.EqualAlloc().schedule(problem)
    return Ratios(problem.rdp(eta) / best, problem.rdp(equal) / best, problem.cost(eta) / BUDGETS[:, None] - 1)


def test_the_comparison_is_at_equal_cost(ratios):
    assert np.abs(ratios.excess_cost).max() < 1e-9


def test_nothing_leaks_less_than_the_optimum(ratios):
    # a cost 1e-9 above the budget could buy about as much
    assert ratios.adascale.min() > 1 - 1e-8
    assert ratios.equal.min() > 1 - 1e-12


def test_adascale_is_within_20_percent_of_the_optimum_at_the_smallest_budget(ratios):
    assert ratios.adascale[0].mean() <= 1.2


def test_adascale_is_within_5_percent_of_the_optimum_at_the_largest_budget(ratios):
    assert ratios.adascale[2].mean() <= 1.05


def test_equal_allocation_leaks_ten_times_the_optimum_at_the_smallest_budget(ratios):
    assert np.median(ratios.equal[0]) > 10


def test_gaps_shrink_as_the_budget_grows(ratios):
    assert (np.diff(ratios.adascale.mean(axis=1)) < 0).all()
    assert (np.diff(np.median(ratios.equal, axis=1)) < 0).all()


def test_adascale_beats_equal_allocation_in_every_realisation_of_the_smallest_budget(ratios):
    assert (ratios.adascale[0] < ratios.equal[0]).all()
