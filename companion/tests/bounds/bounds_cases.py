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
    devices = draw(st.integers(1, 4))
    rounds = draw(st.integers(1, 30))
    sizes = st.lists(st.floats(1, 300), min_size=devices, max_size=devices)
    batch = np.array(draw(sizes))
    shares = draw(st.lists(st.floats(1e-3, 1), min_size=devices, max_size=devices))
    scenario = Scenario(
        "random",
        devices,
        rounds,
        draw(st.sampled_from([1, 1000, 10**6])),
        tuple(batch),
        tuple(batch / shares),
        draw(st.floats(0.1, 10)),
        0.2,
        1e-12,
        draw(st.sampled_from(orders)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    leakage = RoundLeakage(scenario)
    # where 1 / sigma^2 is 1
    centre = np.median(np.repeat(leakage.unit_energy, leakage.count.astype(int)))
    floor = centre * 10 ** rng.uniform(-3, 3, (LANES, rounds))
    arrange = draw(st.sampled_from([np.array, np.sort, lambda a: -np.sort(-a)]))
    budget = centre * 10 ** rng.uniform(-3, 2, LANES)
    problem = with_floors(scenario, arrange(floor), budget)
    natural = problem.budget / -leakage.slope(
        problem.budget + np.median(floor, axis=-1)
    )
    return problem, natural * 10 ** rng.uniform(-4, 6, LANES)


def assert_holds(sides, extra):
    # 1e-9: the roundings of a sum of squares, and of the root, which is stationary only to its last few digits
    assert (sides.left <= sides.right * (1 + 1e-9) + extra).all()
