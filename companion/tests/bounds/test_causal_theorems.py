"""What is leaked beyond the constant level, and what the offline optimum pays for it."""

from typing import NamedTuple

import numpy as np
import pytest

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from companion import bounds
from companion.causal.growth import surplus


class Case(NamedTuple):
    scenario: Scenario
    law: RayleighFloors
    nu: float

    @property
    def F(self):
        return RoundLeakage(self.scenario)

    @property
    def value(self):
        value = bounds.level_value(self.F, self.law, self.nu)
        return bounds.LevelValue(*map(float, value))


# a device that takes part in every round: its leakage is 1 / w
UNIT = Scenario("unit", 1, 100, 1, 10, 10, np.sqrt(100 / 3), 0.2, 1e-12, 3)
BOTH = pytest.mark.parametrize(
    "case",
    [
        Case(UNIT, RayleighFloors(1.0), 0.5),
        Case(Scenario.mnist(), RayleighFloors(0.037), 0.04),
    ],
    ids=["unit", "mnist"],
)


def within(values, expected):
    """Whether a sample's mean is a number, up to three standard errors."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return abs(values.mean() - expected) <= 3 * error


@BOTH
def test_offline_optimum_leaks_A_more_than_the_level(case):
    floor = case.law.draw(np.random.default_rng(3), 2000, 1000)
    best = np.maximum(water_level(floor, case.nu)[:, None], floor)
    extra = surplus(case.F, case.value, floor, best).sum(axis=1)
    assert within(extra, case.value.log_coefficient)
