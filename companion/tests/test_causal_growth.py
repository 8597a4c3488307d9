"""How regret grows without the future, and policies that believe a wrong channel."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario
from adascale.channel import RayleighFloors
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from companion import bounds
from companion.causal import growth as causal_growth
from companion.causal import wrong_laws as causal_beliefs

COMMITTED = Path(__file__).parents[2] / "results" / "causal" / "growth.csv"
MNIST = Scenario.mnist()


def floors(rng, lanes, rounds):
    return RayleighFloors(0.033).draw(rng, lanes, rounds)


def problem_of(floor, budget=0.04):
    return ReceiveScalingProblem(MNIST, MNIST.noise_scale / (MNIST.x_max * floor), budget)


def test_the_level_of_the_past_is_the_water_level_of_the_rounds_before():
    floor = floors(np.random.default_rng(0), 3, 40)
    problem = problem_of(floor)
    energy = problem.noise_energy(causal_growth.LevelOfThePast().schedule(problem))
    np.testing.assert_allclose(energy[:, :2], floor[:, :2] + 0.04, rtol=1e-12)
    for t in range(2, 40):
        level = water_level(problem.floor[:, :t], 0.04)
        np.testing.assert_allclose(energy[:, t], np.maximum(level, floor[:, t]), rtol=1e-9)


def test_a_surplus_is_never_negative_and_zero_for_the_level_alone():
    leakage, law = RoundLeakage(MNIST), RayleighFloors(0.033)
    value = bounds.level_value(leakage, law, 0.04)
    floor = floors(np.random.default_rng(1), 5, 100)
    spent = np.random.default_rng(2).exponential(0.05, floor.shape)
    assert causal_growth.surplus(leakage, value, floor, floor + spent).min() > 0
    steady = np.maximum(value.level, floor)
    assert (causal_growth.surplus(leakage, value, floor, steady) == 0).all()
    # control: below its floor a round may gain
    assert causal_growth.surplus(leakage, value, floor, 0.9 * floor).min() < 0


@pytest.mark.parametrize(
    ("policy", "slope"), [("re-solving, hard", 1), ("level of the past", 1), ("learning, hard", 2)]
)
def test_regret_grows_by_as_many_a_per_unit_of_the_logarithm_as_proved(policy, slope):
    table = pd.read_csv(COMMITTED)
    unit = table.predicted[table.policy == "offline optimum"].iloc[0]
    rows = table[table.policy == policy]
    half = rows.half / unit
    fit, covariance = np.polyfit(np.log(rows["T"]), rows.regret / unit, 1, w=1 / half, cov="unscaled")
    assert abs(fit[0] - slope) < 2 * np.sqrt(covariance[0, 0])
    assert abs(fit[0] - (3 - slope)) > 2 * np.sqrt(covariance[0, 0])  # the other one is told apart


def test_wrong_beliefs_cost_the_level_its_budget_and_resolving_its_leakage_but_not_warm_adascale():
    table = causal_beliefs.beliefs_table(seeds=range(12))
    assert len(table) == 12 * len(causal_beliefs.WORLDS) * len(causal_beliefs.BELIEVERS)
    worst = table.groupby(["world", "policy"]).ratio.max().unstack()
    believed, wrong, slow = causal_beliefs.WORLDS
    assert worst.loc[believed].max() < 1.2
    assert worst.loc[wrong, "ReSolve"] > 2
    assert worst.loc[slow, "ReSolve, hard"] > 2
    assert worst["AdaScale, warm"].max() < 1.5
    same = table[table.policy == "Learn"].pivot(index="seed", columns="world", values="ratio")
    np.testing.assert_array_equal(same[believed], same[wrong])  # it believes nothing
