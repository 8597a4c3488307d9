"""What chapters 4 and 5 prove: convexity at every real order, one penalty for a budget; and what fails without them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import policies
from adascale.policies import adascale_energies
from adascale.problem import RoundLeakage

from .problems import CIFAR, FULL, MIXED, MNIST, make, powers

noises, orders = powers(-1, 3), st.floats(1.01, 20)


@given(noises, noises, orders, st.sampled_from([MNIST, MIXED, CIFAR, FULL]))
def test_leakage_is_strictly_convex_and_w_squared_times_its_slope_never_rises(
    one, other, order, scenario
):
    leakage = RoundLeakage(scenario, order)
    v, w = sorted((one / 10, other / 10))
    steep, flat = -leakage.slope(v), -leakage.slope(w)
    assert w**2 * flat <= v**2 * steep * (1 + 1e-10)
    units = order / 2 * leakage.unit_energy * leakage.multiplicity
    assert np.sum(units * leakage.rate**2) * (1 - 1e-10) <= w**2 * flat
    assert v**2 * steep <= np.sum(units) * (1 + 1e-10)
    if w > v * (1 + 1e-6):
        assert steep > flat


floors = st.lists(powers(-3, 1), min_size=1, max_size=20).map(np.array)


@given(
    floors,
    powers(-3, 1),
    powers(-4, 4),
    powers(-2, 2),
    st.sampled_from([2, 3, 1.5, 7.3]),
)
def test_a_larger_penalty_costs_more_and_leaks_less(
    floor, budget, penalty, rise, order
):
    leakage = RoundLeakage(MNIST, order)
    both = penalty * np.array([1, 1 + rise])
    energy, _ = adascale_energies(floor, budget, both, leakage)
    spent, total = energy - floor, leakage(energy).sum(axis=-1)
    rounding = 1e-13 * energy.sum()
    more = spent[1] - spent[0]
    assert (np.cumsum(more) >= -rounding).all()  # every partial sum
    least = (more**2).sum() / (2 * (both[1] - both[0]))
    assert total[0] - total[1] >= least - 1e-12 * total[0]
    if spent[0].sum() > 1e3 * rounding:
        assert more.sum() > 0


def test_a_single_round_may_spend_less_at_a_larger_penalty():
    """So the theorem is not one about rounds."""
    problem = make(MNIST, 0.04)
    energy, _ = adascale_energies(
        problem.min_noise_energy, 0.04, np.array([1.0, 1.2]), RoundLeakage(MNIST)
    )
    more = np.diff(energy, axis=0)
    assert more.min() < -1e-3 * more.max()
    assert more.sum() > 0


@pytest.mark.parametrize("order", [3, 1.5])
def test_the_cost_runs_from_nothing_to_infinity(order):
    problem = make(replace(MNIST, order=order), 0.04, rounds=50)
    slope = -RoundLeakage(problem.scenario).slope(problem.min_noise_energy)
    # the queue stays empty, and a round spends V |F'| at its floor
    tiny = 1e-6 * 0.04 / slope.max()
    cost = float(problem.cost(policies.AdaScale(tiny).schedule(problem)))
    # V F'' moves it, and the rounding of the floors
    assert cost == pytest.approx(tiny * slope.mean(), rel=1e-2)
    assert problem.cost(policies.AdaScale(1e12).schedule(problem)) > 1e3 * 0.04
