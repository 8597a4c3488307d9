"""Two cases of the theorems without the future, one of them in closed form.

``UNIT`` is a device that takes part in every round: its leakage is 1 / w exactly, and with omega = 1 all that a theorem
speaks of has a closed form.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special

from adascale import Scenario
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from companion import bounds
from tests.problems import with_floors


class Case(NamedTuple):
    scenario: Scenario
    law: RayleighFloors
    nu: float

    @property
    def F(self):
        return RoundLeakage(self.scenario)

    @property
    def value(self):
        return bounds.LevelValue(
            *map(float, bounds.level_value(self.F, self.law, self.nu))
        )

    def problem(self, floor):
        return with_floors(
            replace(self.scenario, num_rounds=floor.shape[-1]), floor, self.nu
        )

    def energy(self, policy, floor):
        problem = self.problem(floor)
        return policy.schedule(problem)


UNIT = Case(
    Scenario("unit", 1, 100, 1, 10, 10, np.sqrt(100 / 3), 0.2, 1e-12, 3),
    RayleighFloors(1.0),
    0.5,
)
MNIST = Case(Scenario.mnist(), RayleighFloors(0.037), 0.04)
BOTH = pytest.mark.parametrize("case", [UNIT, MNIST], ids=["unit", "mnist"])


# the same in closed form, of UNIT
def unit_cost(level):
    return level * special.expn(2, 1 / level)


def unit_leakage(level):
    """The mean leakage of a round at a constant level."""
    return -np.expm1(-1 / level)


_RATES = np.geomspace(1e-6, 1e4, 100_001)
_LEVELS = UNIT.law.level(_RATES)


def unit_level(rate):
    """Interpolated, with a step of Newton's method after it."""
    level = np.exp(
        np.interp(np.log(np.maximum(rate, 1e-6)), np.log(_RATES), np.log(_LEVELS))
    )
    return level - (unit_cost(level) - np.maximum(rate, 1e-6)) * np.exp(1 / level)


def wandering(rate, after):
    """d_r of UNIT: what it costs a round that its rate wanders."""
    level = unit_level(rate)
    return (
        unit_leakage(unit_level(after))
        - unit_leakage(level)
        + (after - rate) / level**2
    )


def within(values, expected, errors=3.0):
    """Whether a sample's mean is a number, up to standard errors."""
    return abs(values.mean() - expected) <= errors * values.std(ddof=1) / np.sqrt(
        values.size
    )
