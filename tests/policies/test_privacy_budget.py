"""PrivacyBudget: no channel exceeds its epsilon, and independent rounds spend nearly all of it at little noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale.accounting import ExactAccountant, RenyiAccountant, order_grid
from adascale.channel import RayleighFloors
from adascale.errors import BudgetNotReached
from adascale.policies import PrivacyBudget

from ..problems import MIXED, MNIST, powers, with_floors

EXACT = ExactAccountant()
RENYI = RenyiAccountant(order_grid(1e5, 1.01))
SCALE = 0.0327  # of MNIST's floors
LAWS = {"learning": None, "known law": RayleighFloors(SCALE)}
both = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def rayleigh(seed, *shape):
    return SCALE / np.random.default_rng(seed).exponential(size=shape)


@settings(max_examples=settings.default.max_examples // 4)
@given(
    st.lists(powers(-6, 3), min_size=1, max_size=12),
    st.floats(0.3, 8),
    st.sampled_from([*LAWS.values()]),
    st.sampled_from([MNIST, MIXED]),
)
def test_no_sequence_of_floors_exceeds_epsilon(floor, epsilon, law, scenario):
    problem = with_floors(scenario, floor, 1.0)
    w = PrivacyBudget(epsilon, law=law, accountant=RENYI).schedule(problem)
    assert (w >= problem.min_noise_energy).all()
    assert problem.epsilon(w, RENYI) <= epsilon


FIRST, FLOOR = np.arange(8) < 5, rayleigh(0, 8)


@pytest.mark.parametrize(
    ("floor", "law"),
    [
        (np.where(FIRST, FLOOR, 1e-6), "learning"),
        (np.where(FIRST, FLOOR, 1e3), "known law"),
        (np.where(np.arange(8) == 3, 1e-6, 1e3), "learning"),
    ],
)
def test_no_hostile_channel_exceeds_the_exact_epsilon(floor, law):
    problem = with_floors(MNIST, floor, 1.0)
    w = PrivacyBudget(2.0, law=LAWS[law]).schedule(problem)
    assert problem.epsilon(w, EXACT) <= 2.0


def cheapest(problem, epsilon):
    """The water-filling schedule with this epsilon, by bisection."""
    low = np.full(problem.batch_shape, -9.0)
    high = np.full(problem.batch_shape, 5.0)
    for _ in range(25):
        middle = (low + high) / 2
        w = np.maximum(np.exp(middle)[..., None], problem.min_noise_energy)
        leaks = problem.epsilon(w, RENYI) > epsilon
        low = np.where(leaks, middle, low)
        high = np.where(leaks, high, middle)
    return np.maximum(np.exp(high)[..., None], problem.min_noise_energy)


@both
def test_independent_rounds_cost_little_more_than_the_optimum(law):
    problem = with_floors(MNIST, rayleigh(1, 8, 64), 1.0)
    w = PrivacyBudget(2.0, law=law, accountant=RENYI).schedule(problem)
    epsilon = problem.epsilon(w, RENYI)
    assert epsilon.max() <= 2.0
    assert epsilon.mean() > 0.99 * 2.0
    optimum = cheapest(problem, 2.0)
    assert (problem.cost(w) / problem.cost(optimum)).mean() < 1.04
    # the control: one level that has this epsilon on one channel exceeds it on another
    one_level = np.maximum(optimum[0].min(), problem.min_noise_energy)
    assert problem.epsilon(one_level, RENYI).max() > 2.0


def test_an_epsilon_that_full_power_keeps_costs_no_noise():
    problem = with_floors(MNIST, np.full(4, 10.0), 1.0)
    w = PrivacyBudget(50.0, accountant=RENYI).schedule(problem)
    np.testing.assert_array_equal(w, problem.min_noise_energy)


def test_an_epsilon_that_no_noise_keeps_is_refused():
    class Constant:
        def epsilon(self, sampling_rate, noise_multiplier, delta):
            return np.full(np.shape(noise_multiplier)[:-1], 1.0)

    policy = PrivacyBudget(0.5, accountant=Constant())
    with pytest.raises(BudgetNotReached, match=r"epsilon = 0\.5"):
        policy.schedule(with_floors(MNIST, rayleigh(3, 5), 1.0))


@pytest.mark.parametrize(
    ("law", "ends"),
    [("known law", [4, 6, 7, 8]), ("learning", [1, 2, 4, 6, 7, 8])],
)
def test_a_block_is_half_of_the_rounds_left_and_without_a_law_no_longer_than_before(
    law, ends
):
    problem = with_floors(MNIST, rayleigh(4, 8), 1.0)
    policy = PrivacyBudget(2.0, law=LAWS[law], accountant=RENYI)
    state = policy.start(problem.scenario, problem.budget)
    seen = []
    for floor in problem.min_noise_energy:
        state, _ = policy.decide(state, floor)
        seen.append(state.next_plan)
    assert sorted({*seen}) == ends
