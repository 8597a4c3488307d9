"""Extreme but legal numbers: a finite result that keeps its promise, or one clear error; never NaN, never a guess."""

import math
import time
from dataclasses import replace

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, Scenario, accounting, policies, tuning
from adascale.errors import BudgetNotReached, InvalidInput
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from adascale.statistics import interval, log_interval
from companion import bounds
from companion.leakage.liu_simeone import OfflinePowerControl

from .problems import MIXED, MNIST, feasible, make, powers


def arrays(low, high, least=1, most=30):
    return st.lists(powers(low, high), min_size=least, max_size=most).map(np.array)


orders = st.sampled_from([1 + 1e-7, 1.01, 1.5, 2.0, 2.5, 3.0, 17.3, 32.0, 255.5, 256.0])
wide_budgets = st.one_of(powers(-300, 300), powers(-6, 4))


@st.composite
def problems(draw):
    """A problem of one lane whose numbers may be anywhere, as far as the package takes them."""
    devices, size, count = (
        draw(st.sampled_from([1, 2, 10, 1000])),
        draw(powers(0, 6)),
        draw(st.integers(1, 10**9)),
    )
    radio = [draw(powers(*ends)) for ends in ((-3, 3), (-6, 3), (-15, -6))]
    scenario = Scenario(
        "extreme",
        devices,
        1,
        count,
        size * draw(powers(-12, 0)),
        size,
        *radio,
        draw(orders),
    )
    return ReceiveScalingProblem(scenario, draw(arrays(-25, 15)), draw(wide_budgets))


@st.composite
def lanes(draw, most):
    """Gains and budgets of several lanes."""
    count, rounds = draw(st.integers(1, most)), draw(st.integers(1, 12))
    gain = np.array([draw(arrays(-14, -7, rounds, rounds)) for _ in range(count)])
    return gain, draw(arrays(-3, 2, count, count))


def candidates(problem):
    """Every policy, with parameters of the size that the problem suggests."""
    cap, devices = float(np.median(problem.max_eta)), problem.scenario.num_devices
    means, total = (
        np.full(devices, devices * float(np.median(problem.min_gain))),
        cap * problem.num_rounds,
    )
    return [
        policies.Optimal(),
        policies.EqualAlloc(),
        policies.EstimFuture(means, "minimum"),
        policies.AdaScale(1.0),
        policies.PowerControl(means, total / 3),
        policies.PowerControl(means, total * 1e-9, 0.9),
        OfflinePowerControl(total / 3, 0.9),
        policies.LyapunovPowerControl(cap / 7, cap / 5, 0.9),
    ]


@given(problems())
def test_every_policy_stays_within_the_power_limit_and_leaks_a_finite_amount(problem):
    # a mean of w - w_min is known to a few units in the last place, summed up to T times
    rounding = (
        4e-16
        * problem.num_rounds
        * float(problem.min_noise_energy.mean() + problem.budget)
    )
    for policy in candidates(problem):
        w = policy.schedule(problem)
        assert feasible(problem, w), policy
        assert np.isfinite(w).all()
        assert 0 <= problem.rdp(w) < math.inf
        assert 0 <= (cost := problem.cost(w)) < math.inf
        if isinstance(
            policy, policies.Optimal | policies.EqualAlloc | policies.EstimFuture
        ):  # by construction
            assert cost == pytest.approx(
                float(problem.budget), rel=1e-9, abs=rounding
            ), policy


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


def test_budgets_from_a_rounding_to_far_beyond_the_floors_are_matched():
    """Not everything is out of reach."""
    for budget in (1e-5, 1e-2, 1e3, 1e9, 1e30, 1e60):
        problem = make(MNIST, budget, rounds=50)
        w = policies.AdaScale(tuning.match_budget(policies.AdaScale, problem)).schedule(
            problem
        )
        assert problem.cost(w) == pytest.approx(budget, rel=1e-9)
    rounded = r"a floor of \S+ is rounded by more than 1e-09"
    for budget, said in (
        (1e-300, rounded),
        (1e-20, rounded),
        (1e-12, rounded),
        (1e150, "nu = "),
        (1e300, "nu = "),
    ):
        with pytest.raises(BudgetNotReached, match=said):
            tuning.match_budget(policies.AdaScale, make(MNIST, budget, rounds=50))
    with pytest.raises(
        BudgetNotReached, match="no root found in round 0"
    ):  # it begins where V F' overflows
        tuning.match_budget(
            policies.AdaScale, ReceiveScalingProblem(MIXED, [1e30], 1e-30), guess=1e260
        )


def assert_level(floor, budget):
    """Round by round in 400 digits: the k lowest floors are under water for the largest k that the budget reaches."""
    with mp.workdps(400):
        each, total, below = (
            sorted(map(mp.mpf, floor)),
            mp.mpf(float(budget)) * len(floor),
            mp.mpf(0),
        )
        for k, w in enumerate(each, 1):
            below += w
            if k == len(each) or (total + below) / k <= each[k]:
                break
        # a sum of T floors is known to T units in the last place
        assert abs(
            mp.mpf(float(water_level(floor, budget))) * k / (total + below) - 1
        ) <= 2.3e-16 * (len(floor) + 2)


@example(
    np.array([1e-3, 1.0]), 1e-30, 1.0, [0, 1]
)  # a budget below the rounding of the lowest floor
@given(
    arrays(-25, 25),
    wide_budgets,
    st.floats(1, 1e10),
    st.lists(st.integers(0, 3), min_size=2, max_size=20),
)
def test_the_water_level_is_that_of_400_digits(floor, budget, low, steps):
    assert_level(floor, budget)
    neighbours = low + np.array(steps) * np.spacing(low)
    assert_level(neighbours, min(budget, 1e3) * low)


@pytest.mark.parametrize(
    ("floor", "budget"),
    [([1e308, 1e308], 1.0), ([1.0, 1.0], 1.5e308), ([1.7e308], 1.7e308)],
)
def test_a_water_level_beyond_floating_point_is_refused(floor, budget):
    with pytest.raises(
        ValueError,
        match=r"^beyond floating point: the floors and budgets of all rounds together",
    ):
        water_level(floor, budget)


def test_devices_that_are_alike_are_one_however_they_are_given():
    begun = time.process_time()
    leakage = RoundLeakage(replace(MNIST, num_devices=10**6))
    assert (leakage.rate.shape, leakage.count) == ((1,), 10**6)
    assert 0 < leakage(1.0) < math.inf
    assert time.process_time() - begun < 5
    each = replace(MNIST, batch_size=(60,) * 10, dataset_size=(6000,) * 10)
    np.testing.assert_array_equal(
        RoundLeakage(MNIST)([0.1, 1.0]), RoundLeakage(each)([0.1, 1.0])
    )


constants, counts = st.one_of(powers(-320, 308), powers(-3, 3)), st.integers(1, 10**12)


@example(
    [1, 1, 1, 1, 1e-259], 1, 1, 1, 1e65
)  # a budget at which the receive scaling vanishes
@given(st.tuples(*[constants] * 5), counts, counts, powers(-320, 308), wide_budgets)
def test_any_scenario_is_refused_or_its_problem_is_finite(
    numbers, devices, count, gain, nu
):
    try:
        scenario = Scenario("any", devices, 1, count, *numbers)
        problem = ReceiveScalingProblem(scenario, [gain, gain], nu)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    for derived in (
        scenario.x_max,
        scenario.noise_scale,
        scenario.batch_second_moment,
        problem.min_noise_energy,
        problem.max_eta,
    ):
        assert (np.isfinite(derived) & (np.asarray(derived) > 0)).all()
    assert feasible(problem, policies.EqualAlloc().schedule(problem))


@given(st.floats(5e-324, 1.7e308))
def test_gains_are_taken_up_to_the_limits_that_the_scenario_names(gain):
    low, high = MNIST.gain_limits
    if low <= gain <= high:
        problem = ReceiveScalingProblem(MNIST, [gain], 0.1)
        assert 0 < problem.min_noise_energy[0] < math.inf
        assert 0 < problem.max_eta[0] < math.inf
    else:
        with pytest.raises(
            InvalidInput, match=r"^min_gain must be within \S+ ... \S+, .* got "
        ):
            ReceiveScalingProblem(MNIST, [gain], 0.1)


MAKES = {
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "columns first": np.asfortranarray,
    "broadcast": lambda a: np.broadcast_to(a, (1, *a.shape))[0],
    "big-endian": lambda a: a.astype(">f8"),
    "wide": lambda a: a.astype(np.longdouble),
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    "pandas": pd.DataFrame,
    "pandas, nullable": lambda a: pd.DataFrame(a).astype("Float64"),
    "lists": lambda a: a.tolist(),
    "unmasked": np.ma.masked_array,
}


@given(lanes(4), st.sampled_from(sorted(MAKES)))
def test_arrays_of_any_make_give_what_plain_ones_give_and_stay_as_they_are(given, make):
    gain, budget = given
    make = MAKES[make]
    other, kept = make(gain), gain.copy()
    plain, made = (ReceiveScalingProblem(MIXED, each, budget) for each in (gain, other))
    for policy in (policies.Optimal(), policies.AdaScale(0.1)):
        np.testing.assert_array_equal(policy.schedule(made), policy.schedule(plain))
    np.testing.assert_array_equal(
        accounting.rdp(0.01, make(1e9 * gain), 3), accounting.rdp(0.01, 1e9 * gain, 3)
    )
    w = policies.EqualAlloc().schedule(plain)
    np.testing.assert_array_equal(policies.EqualAlloc().schedule(made), w)
    for measure in (plain.cost, plain.rdp, plain.noise_multiplier):
        np.testing.assert_array_equal(measure(make(w)), measure(w))
    np.testing.assert_array_equal(
        water_level(make(plain.min_noise_energy), budget),
        water_level(plain.min_noise_energy, budget),
    )
    np.testing.assert_array_equal(np.asarray(other, dtype=float), kept)
    np.testing.assert_array_equal(gain, kept)


@given(st.lists(st.floats(-1e308, 1e308), min_size=2, max_size=9))
def test_an_interval_holds_its_centre_however_large_or_small(values):
    centre, low, high = interval(values)
    assert (
        min(values) - 1e-15 * abs(min(values))
        <= centre
        <= max(values) + 1e-15 * abs(max(values))
    )
    assert low <= centre <= high


@given(st.lists(st.one_of(st.just(0.0), powers(-300, 300)), min_size=1, max_size=9))
def test_a_geometric_mean_is_never_nan_and_zero_only_with_a_zero(values):
    centre, low, high = log_interval(values)
    assert 0 <= low <= centre <= high
    assert (centre == 0) == (0 in values)


@given(problems(), powers(-10, 10), st.booleans())
def test_both_sides_of_a_bound_are_finite_or_refused(problem, penalty, sharp):
    w = policies.EqualAlloc().schedule(problem)
    for bound in (bounds.queue_bound, bounds.violation_bound, bounds.regret_bound):
        try:
            sides = bound(problem, w, penalty, sharp=sharp)
        except ValueError as error:
            assert str(error).startswith("beyond floating point")  # noqa: PT017
        else:
            assert np.isfinite([*np.ravel(sides.left), *np.ravel(sides.right)]).all()


@given(powers(-300, 300), powers(-300, 300))
def test_the_level_of_the_long_run_solves_its_equation_or_is_refused(scale, budget):
    try:
        level = float(bounds.stationary_level(scale, budget))
    except ValueError as error:
        assert str(error).startswith("beyond floating point")  # noqa: PT017
        return
    with mp.workdps(30):
        spent = mp.mpf(level) * mp.expint(2, mp.mpf(scale) / mp.mpf(level))
        # an error of 1e-16 in the level is one of scale / level times as much in the exponential
        assert abs(spent / mp.mpf(budget) - 1) <= 1e-12 * (1 + scale / level)
