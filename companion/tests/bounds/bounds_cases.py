"""Random instances for the tests of the bounds, and how a bound is held to."""

import numpy as np
from hypothesis import strategies as st

from adascale import Scenario
from adascale.problem import RoundLeakage
from tests.problems import with_floors

LANES = 40


@st.composite
def instances(draw, orders=(2, 3, 5, 8)):
    """A problem of LANES lanes and a penalty for each: unlike devices, floors over six decades, in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    devices, rounds = rng.integers(1, (5, 31)).tolist()
    batch = rng.uniform(1, 300, devices)
    sizes = tuple(batch), tuple(batch / 10 ** rng.uniform(-3, 0, devices))
    order = draw(st.sampled_from(orders))
    scenario = Scenario("random", devices, rounds, 1000, *sizes, 1.0, 0.2, 1e-12, order)
    leakage = RoundLeakage(scenario)
    centre = np.median(leakage.unit_energy)  # where 1 / sigma^2 is 1
    floor = centre * 10 ** rng.uniform(-3, 3, (LANES, rounds))
    arrange = draw(st.sampled_from([np.array, np.sort, lambda a: -np.sort(-a)]))
    budget = centre * 10 ** rng.uniform(-3, 2, LANES)
    problem = with_floors(scenario, arrange(floor), budget)
    natural = budget / -leakage.slope(budget + np.median(floor, axis=-1))
    return problem, natural * 10 ** rng.uniform(-4, 6, LANES)


def assert_holds(sides, extra):
    # 1e-9: the roundings of a sum of squares, and of the root, which is stationary only to its last few digits
    assert (sides.left <= sides.right * (1 + 1e-9) + extra).all()
