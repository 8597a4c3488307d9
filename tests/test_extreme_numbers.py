"""Extreme but legal numbers: a finite result that keeps its promise, or one clear error; never NaN, never a guess."""

import itertools
import math
import time

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adascale import Problem, Scenario, policies, tuning
from adascale.errors import BudgetNotReached
from adascale.policies import water_level
from adascale.problem import RoundLeakage

from .problems import MIXED, MNIST, feasible, make, powers


def arrays(high):
    return st.lists(powers(-25, high), min_size=1, max_size=30).map(np.array)


wide_budgets = st.one_of(powers(-200, 200), powers(-6, 4))


@st.composite
def problems(draw):
    """A problem of one instance whose numbers may be anywhere, as far as the package takes them."""
    devices = draw(st.sampled_from([1, 10, 1000]))
    size = draw(powers(0, 6))
    batch = size * draw(powers(-12, 0))
    radio = [draw(powers(*ends)) for ends in ((-3, 3), (-6, 3), (-15, -6))]
    order = draw(st.sampled_from([1 + 1e-7, 1.01, 2.0, 2.5, 3.0, 17.3, 256.0]))
    scenario = Scenario("extreme", devices, 1, 1000, batch, size, *radio, order)
    return Problem(scenario, draw(arrays(15)), draw(wide_budgets))


def candidates(problem):
    """Every policy, with parameters of the size that the problem suggests."""
    cap, devices = float(np.median(problem.max_eta)), problem.scenario.num_devices
    means = np.full(devices, devices * float(np.median(problem.min_gain)))
    return [
        policies.Optimal(),
        policies.EqualAlloc(),
        policies.EstimFuture(means, "minimum"),
        policies.AdaScale(1.0),
        policies.PowerControl(means, 1e-9 * cap, 0.9),
        policies.LyapunovPowerControl(cap / 7, cap / 5, 0.9),
    ]


BALANCED = policies.Optimal | policies.EqualAlloc | policies.EstimFuture


@given(problems())
def test_every_policy_stays_within_the_power_limit_and_leaks_a_finite_amount(problem):
    # a mean of w - w_min is known to a few units in the last place, summed up to T times
    largest = float(problem.min_noise_energy.mean() + problem.budget)
    rounding = 4e-16 * problem.num_rounds * largest
    for policy in candidates(problem):
        w = policy.schedule(problem)
        assert feasible(problem, w), policy
        assert 0 <= problem.rdp(w) < math.inf
        cost = problem.cost(w)
        assert 0 <= cost < math.inf
        if isinstance(policy, BALANCED):  # by construction
            budget = pytest.approx(float(problem.budget), rel=1e-9, abs=rounding)
            assert cost == budget, policy


@given(problems())
def test_a_budget_is_matched_to_its_tolerance_or_said_to_be_out_of_reach(problem):
    begun = time.process_time()
    try:
        penalty = tuning.match_budget(policies.AdaScale, problem)
    except BudgetNotReached:
        pass
    else:
        cost = problem.cost(policies.AdaScale(penalty).schedule(problem))
        assert abs(cost / problem.budget - 1) <= 1e-9 * (1 + 1e-6)
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    ("budget", "reason"),
    [(1e-200, r"a floor of \S+ is rounded by more than 1e-09"), (1e150, "nu = ")],
)
def test_a_budget_out_of_reach_is_said_to_be(budget, reason):
    with pytest.raises(BudgetNotReached, match=reason):
        tuning.match_budget(policies.AdaScale, make(MNIST, budget, rounds=50))


def test_a_search_that_begins_where_the_slope_overflows_is_said_to_fail():
    problem = Problem(MIXED, [1e30], 1e-30)
    with pytest.raises(BudgetNotReached, match="no root found in round 0"):
        tuning.match_budget(policies.AdaScale, problem, guess=1e260)


def assert_level(floor, budget):
    """Round by round in 400 digits: the k lowest floors are under water for the largest k that the budget reaches."""
    with mp.workdps(400):
        ordered, total = sorted(map(mp.mpf, floor)), mp.mpf(float(budget)) * len(floor)
        below = mp.mpf(0)
        for k, w in enumerate(ordered, 1):
            below += w
            if k == len(ordered) or (total + below) / k <= ordered[k]:
                break
        level = mp.mpf(float(water_level(floor, budget)))
        # a sum of T floors is known to T units in the last place
        assert abs(level * k / (total + below) - 1) <= 2.3e-16 * (len(floor) + 2)


# a budget below the rounding of the lowest floor
@example(np.array([1e-3, 1.0]), 1e-30, 1.0, [0, 1])
@given(
    arrays(25),
    wide_budgets,
    st.floats(1, 1e10),
    st.lists(st.integers(0, 3), min_size=2, max_size=20),
)
def test_the_water_level_is_that_of_400_digits(floor, budget, low, steps):
    assert_level(floor, budget)
    neighbours = low + np.array(steps) * np.spacing(low)
    assert_level(neighbours, min(budget, 1e3) * low)


@pytest.mark.parametrize(
    ("floor", "budget"), [([1e308, 1e308], 1.0), ([1.0, 1.0], 1.5e308)]
)
def test_a_water_level_beyond_floating_point_is_refused(floor, budget):
    with pytest.raises(ValueError, match=r"^beyond floating point: the floors and"):
        water_level(floor, budget)


constants, counts = (
    st.one_of(powers(-320, 308), powers(-40, 40)),
    st.integers(1, 10**12),
)
EXTREME = Scenario("extreme", 10**6, 1, 2**53, 1e-20, 1e20, 1e-40, 1e40, 1e-40)
FAINT = Scenario("faint", 1, 1, 1, 1e-20, 1e20, 1e40, 1e-40, 1e40)


@given(st.tuples(*[constants] * 5), counts, counts)
def test_a_scenario_is_refused_or_what_follows_from_it_is_finite(
    numbers, devices, count
):
    try:
        scenario = Scenario("any", devices, 1, count, *numbers)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    assert_finite(scenario)


@pytest.mark.parametrize("scenario", [EXTREME, FAINT])
def test_the_most_extreme_scenarios_are_finite(scenario):
    assert_finite(scenario)


def assert_finite(scenario):
    """What follows from a scenario, a gain at its limits and any budget is normal, and far from its ends."""
    derived = [scenario.x_max, scenario.noise_scale, scenario.noise_share]
    derived += [scenario.batch_second_moment, RoundLeakage(scenario).unit_energy]
    for gain, budget in itertools.product(scenario.gain_limits, (1e-200, 1e200)):
        problem = Problem(scenario, [gain], budget)
        w = policies.EqualAlloc().schedule(problem)
        derived += [problem.min_noise_energy, problem.max_eta, problem.eta(w)]
    for value in derived:
        assert np.min(value) >= np.finfo(float).tiny
        assert np.max(value) < 1e300
