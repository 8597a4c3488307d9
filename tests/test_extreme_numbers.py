"""Extreme but legal numbers: a finite result that keeps its promise, or one clear error; never NaN, never a guess."""

import math
import time
from dataclasses import replace

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, Scenario, channel, policies, tuning
from adascale.comparison import leakage_table
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from adascale.statistics import interval, log_interval
from companion import bounds

from .problems import MIXED, MNIST, feasible


def powers(low, high):
    """Numbers over many decades."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def arrays(low, high, least=1, most=30):
    return st.lists(powers(low, high), min_size=least, max_size=most).map(np.array)


orders = st.sampled_from([1 + 1e-7, 1.01, 1.5, 2.0, 2.5, 3.0, 17.3, 32.0, 255.5, 256.0])
wide_budgets = st.one_of(powers(-300, 300), powers(-6, 4))


@st.composite
def problems(draw):
    """A problem of one lane whose numbers may be anywhere, as far as the package takes them."""
    devices, size = draw(st.sampled_from([1, 2, 10, 1000])), draw(powers(0, 6))
    scenario = Scenario(
        "extreme",
        devices,
        1,
        draw(st.integers(1, 10**9)),
        size * draw(powers(-12, 0)),
        size,
        draw(powers(-3, 3)),
        draw(powers(-6, 3)),
        draw(powers(-15, -6)),
        draw(orders),
    )
    return ReceiveScalingProblem(scenario, draw(arrays(-25, 15)), draw(wide_budgets))


def candidates(problem):
    """Every policy, with parameters of the size that the problem suggests."""
    cap, devices = float(np.median(problem.max_eta)), problem.scenario.num_devices
    means = np.full(devices, devices * float(np.median(problem.min_gain)))
    total = cap * problem.num_rounds
    return {
        "Optimal": policies.Optimal,
        "EqualAlloc": policies.EqualAlloc,
        "EstimFuture": lambda: policies.EstimFuture(means, "minimum"),
        "AdaScale": lambda: policies.AdaScale(1.0),
        "PowerControl": lambda: policies.PowerControl(means, total / 3),
        "PowerControl, little": lambda: policies.PowerControl(means, total * 1e-9, 0.9),
        "OfflinePowerControl": lambda: policies.OfflinePowerControl(total / 3, 0.9),
        "LyapunovPowerControl": lambda: policies.LyapunovPowerControl(cap / 7, cap / 5, 0.9),
    }


def rounding(problem):
    """What a mean of w - w_min cannot tell: w is known to a few units in the last place, summed up to T times."""
    return 4e-16 * problem.num_rounds * float(problem.floor.mean() + problem.budget)


# Policies ------------------------------------------------------------------------------------------------------------


@given(problems())
def test_every_policy_stays_within_the_power_limit_and_leaks_a_finite_amount(problem):
    for name, make in candidates(problem).items():
        eta = make().schedule(problem)
        assert feasible(problem, eta), name
        assert np.isfinite(eta).all()
        assert 0 <= problem.rdp(eta) < math.inf
        assert 0 <= problem.cost(eta) < math.inf


@given(problems())
def test_who_meets_the_budget_by_construction_meets_any(problem):
    for name in ("Optimal", "EqualAlloc", "EstimFuture"):
        cost = problem.cost(candidates(problem)[name]().schedule(problem))
        assert cost == pytest.approx(float(problem.budget), rel=1e-9, abs=rounding(problem)), name


@given(problems())
def test_a_budget_is_matched_to_its_tolerance_or_said_to_be_out_of_reach(problem):
    begun = time.process_time()
    try:
        penalty = tuning.match_budget(policies.AdaScale, problem)
    except tuning.BudgetNotReached as error:
        assert str(error).startswith("no parameter brings the cost to its budget")  # noqa: PT017
    else:
        cost = problem.cost(policies.AdaScale(penalty).schedule(problem))
        assert abs(cost / problem.budget - 1) <= 1e-9 * (1 + 1e-6)
    assert time.process_time() - begun < 10


def test_budgets_from_a_rounding_to_far_beyond_the_floors_are_matched():
    """The control: not everything is out of reach."""
    gain = MNIST.min_gain(channel.draw(10, 50, 0).gain)
    for budget in (1e-5, 1e-2, 1e3, 1e9, 1e30, 1e60):
        problem = ReceiveScalingProblem(MNIST, gain, budget)
        eta = policies.AdaScale(tuning.match_budget(policies.AdaScale, problem)).schedule(problem)
        assert problem.cost(eta) == pytest.approx(budget, rel=1e-9)


@pytest.mark.parametrize("budget", [1e-300, 1e-20, 1e-12])
def test_a_budget_below_the_rounding_of_the_floors_is_named(budget):
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(channel.draw(10, 50, 0).gain), budget)
    said = (
        rf"^no parameter brings the cost to its budget, nu = {budget:g}: a floor of \S+ is rounded by more than 1e-09"
    )
    with pytest.raises(tuning.BudgetNotReached, match=said):
        tuning.match_budget(policies.AdaScale, problem)


@pytest.mark.parametrize("budget", [1e150, 1e300])
def test_a_budget_that_no_penalty_can_spend_is_out_of_reach(budget):
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(channel.draw(10, 50, 0).gain), budget)
    with pytest.raises(tuning.BudgetNotReached, match=r"^no parameter brings the cost to its budget"):
        tuning.match_budget(policies.AdaScale, problem)


def test_a_penalty_without_a_root_on_the_way_is_a_budget_not_reached():
    """The search begins where V F' is beyond floating point."""
    problem = ReceiveScalingProblem(MIXED, [1e30], 1e-30)
    with pytest.raises(tuning.BudgetNotReached, match=r"^no parameter .* to its budget: no root found in round 0"):
        tuning.match_budget(policies.AdaScale, problem, guess=1e260)


@pytest.mark.parametrize("guess", [0.0, -1.0, math.nan, math.inf])
def test_a_guess_and_a_tolerance_are_positive(guess):
    problem = ReceiveScalingProblem(MIXED, [1e-10], 0.1)
    with pytest.raises(ValueError, match=r"^guess must be finite and > 0"):
        tuning.match_budget(policies.AdaScale, problem, guess=guess)
    with pytest.raises(ValueError, match=r"^tolerance must be finite and > 0"):
        tuning.match_budget(policies.AdaScale, problem, tolerance=guess)


@given(st.data())
def test_no_order_of_the_lanes_changes_a_result_by_one_bit(data):
    lanes, rounds = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 12))
    gain = np.array([data.draw(arrays(-14, -7, rounds, rounds)) for _ in range(lanes)])
    budget = data.draw(arrays(-3, 2, lanes, lanes))
    order = np.array(data.draw(st.permutations(range(lanes))))
    one, other = (ReceiveScalingProblem(MIXED, g, b) for g, b in ((gain, budget), (gain[order], budget[order])))
    means = np.full(3, 3e-10)
    for policy in (
        policies.Optimal(),
        policies.EqualAlloc(),
        policies.EstimFuture(means),
        policies.AdaScale(0.1),
        policies.PowerControl(means, 1e-5),
        policies.LyapunovPowerControl(1e-15, 1e-5),
    ):
        eta = policy.schedule(one)
        np.testing.assert_array_equal(policy.schedule(other), eta[order])
        np.testing.assert_array_equal(other.cost(eta[order]), one.cost(eta)[order])
        np.testing.assert_array_equal(other.rdp(eta[order]), one.rdp(eta)[order])
        np.testing.assert_array_equal(other.dp_epsilon(eta[order], orders=[3]), one.dp_epsilon(eta, orders=[3])[order])
    found = tuning.match_budget(policies.AdaScale, one)
    np.testing.assert_array_equal(tuning.match_budget(policies.AdaScale, other), found[order])


@pytest.mark.slow
def test_a_million_rounds_end_in_seconds():
    gain = MNIST.min_gain(channel.draw(10, 1000, 0).gain)
    problem = ReceiveScalingProblem(MNIST, np.tile(gain, 1000), 0.04)
    for policy in (policies.Optimal(), policies.AdaScale(0.3), policies.PowerControl(np.full(10, 1e-10), 1e-3, 0.9995)):
        begun = time.process_time()
        eta = policy.schedule(problem)
        assert feasible(problem, eta)
        assert 0 < problem.dp_epsilon(eta) < math.inf
        assert time.process_time() - begun < 10


# What [19] keeps when floating point does not ------------------------------------------------------------------------


@pytest.mark.parametrize("contraction", [1.0, 0.9, 0.5])
def test_power_control_keeps_a_power_for_later_rounds_that_its_budget_would_round_off(contraction):
    """Estimated caps 30 decades below the budget: eta was 0, or below it, in every later round."""
    problem = ReceiveScalingProblem(MIXED, [1e5] + 7 * [1e-25], 1.0)
    policy = policies.PowerControl(np.full(3, 1e-25), float(problem.max_eta[0]) / 2, contraction)
    assert feasible(problem, policy.schedule(problem))
    assert feasible(problem, policies.run(policy, problem))


# The water level -----------------------------------------------------------------------------------------------------


def exact_level(floor, budget):
    """Round by round in 400 digits: the k lowest floors are under water for the largest k that the budget reaches."""
    with mp.workdps(400):
        floor, total = sorted(map(mp.mpf, floor)), mp.mpf(float(budget)) * len(floor)
        below = mp.mpf(0)
        for k, w in enumerate(floor, 1):
            below += w
            level = (total + below) / k
            if k == len(floor) or level <= floor[k]:
                return level
    raise AssertionError


@pytest.mark.parametrize(
    ("floor", "budget", "level"),
    [([1e-3, 1.0], 1e-30, 1e-3), ([1.0, 2.0, 3.0], 1e-17, 1.0), ([3.0, 2.0, 1.0], 1e-300, 1.0), ([5.0], 1e-20, 5.0)],
)
def test_a_budget_below_the_rounding_of_the_lowest_floor_leaves_the_level_there(floor, budget, level):
    """It was the mean of all floors: every low round overspent, by half of the highest floor."""
    assert water_level(floor, budget) == level
    problem = ReceiveScalingProblem(MNIST, MNIST.noise_scale / MNIST.x_max / np.array(floor), budget)
    assert problem.cost(policies.Optimal().schedule(problem)) <= 1e-16 * level


@given(arrays(-25, 25), wide_budgets)
def test_the_water_level_is_that_of_400_digits(floor, budget):
    exact = exact_level(floor, budget)
    # a sum of T floors is known to T units in the last place
    assert abs(mp.mpf(float(water_level(floor, budget))) / exact - 1) <= 2.3e-16 * (len(floor) + 2)


@given(st.floats(1, 1e10), st.lists(st.integers(0, 3), min_size=2, max_size=20), powers(-25, 3))
def test_the_water_level_is_right_among_floors_that_are_neighbours(low, steps, share):
    floor = low + np.array(steps) * np.spacing(low)
    budget = share * low
    exact = exact_level(floor, budget)
    assert abs(mp.mpf(float(water_level(floor, budget))) / exact - 1) <= 2.3e-16 * (len(floor) + 2)


@pytest.mark.parametrize(("floor", "budget"), [([1e308, 1e308], 1.0), ([1.0, 1.0], 1.5e308)])
def test_a_water_level_beyond_floating_point_is_refused(floor, budget):
    with pytest.raises(ValueError, match=r"^beyond floating point: the floors and budgets of all rounds together"):
        water_level(floor, budget)


# Scenarios -----------------------------------------------------------------------------------------------------------

BEYOND = {
    "clip_norm 1e200": ({"clip_norm": 1e200}, "x_max = .* clip_norm 1e[+]200"),
    "clip_norm 1e-200": ({"clip_norm": 1e-200}, "x_max = .* clip_norm 1e-200"),
    "max_power 1e308": ({"max_power": 1e308}, "x_max = .* max_power 1e[+]308"),
    "noise_power 1e-320": ({"noise_power": 1e-320}, "num_parameters [*] noise_power .* noise_power 1e-320"),
    "noise_power 1e308": ({"noise_power": 1e308}, "num_parameters [*] noise_power .* noise_power 1e[+]308"),
    "parameters": ({"num_parameters": 10**400}, "num_parameters 1000"),
    "batch_size 1e-320": ({"batch_size": 1e-320}, "batch_size"),
    "batch_size 1e200": ({"batch_size": 1e200, "dataset_size": 1e200}, "batch_size 1e[+]200"),
    "a rate that is rounded to 0": ({"batch_size": 1e-300, "dataset_size": 1e300}, "float64 rounds it to 0"),
    "devices": ({"num_devices": 10**12}, "num_devices must be at most 1,000,000, got 1000000000000"),
    "a whole number of 400 digits": ({"max_power": 10**400}, "max_power must be finite and > 0, got inf"),
}


@pytest.mark.parametrize("entry", BEYOND)
def test_a_scenario_whose_numbers_float64_cannot_hold_is_refused_at_once(entry):
    changes, said = BEYOND[entry]
    with pytest.raises(ValueError, match=said) as error:
        replace(MNIST, **changes)
    assert len(str(error.value)) < 300
    assert "\n" not in str(error.value)


def test_a_million_devices_take_no_memory_of_a_million():
    many = replace(MNIST, num_devices=10**6)
    begun = time.process_time()
    leakage = RoundLeakage(many)
    assert leakage.rate.shape == (1,)
    assert leakage.count == 10**6
    assert leakage(1.0) == pytest.approx(1e6 * float(RoundLeakage(replace(many, num_devices=10**6))(1.0)) / 1e6)
    assert time.process_time() - begun < 5


def test_devices_given_one_by_one_leak_what_they_leak_given_at_once():
    """The control of the kinds: a number for all devices, and the same number for each."""
    each = replace(MNIST, batch_size=(60,) * 10, dataset_size=(6000,) * 10)
    np.testing.assert_array_equal(RoundLeakage(MNIST)([0.1, 1.0]), RoundLeakage(each)([0.1, 1.0]))


constants = st.one_of(powers(-320, 308), powers(-3, 3))


@example(1, 1, 1, 1, 1e-259, 1, 1, 1, 1e65)  # a budget at which the receive scaling vanishes
@given(
    constants,
    constants,
    constants,
    constants,
    constants,
    st.integers(1, 10**12),
    st.integers(1, 10**12),
    powers(-320, 308),
    wide_budgets,
)
def test_any_scenario_is_refused_or_its_problem_is_finite(batch, size, clip, power, noise, devices, count, gain, nu):
    try:
        scenario = Scenario("any", devices, 1, count, batch, size, clip, power, noise)
        problem = ReceiveScalingProblem(scenario, [gain, gain], nu)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    for derived in (scenario.x_max, scenario.noise_scale, scenario.batch_second_moment, problem.floor, problem.max_eta):
        assert np.isfinite(derived).all()
        assert np.all(np.asarray(derived) > 0)
    assert feasible(problem, policies.EqualAlloc().schedule(problem))


@given(st.floats(5e-324, 1.7e308))
def test_gains_are_taken_up_to_the_limits_that_the_scenario_names(gain):
    low, high = MNIST.gain_limits
    if low <= gain <= high:
        problem = ReceiveScalingProblem(MNIST, [gain], 0.1)
        assert 0 < problem.floor[0] < math.inf
        assert 0 < problem.max_eta[0] < math.inf
    else:
        with pytest.raises(ValueError, match=r"^min_gain must be within \S+ ... \S+, .* got "):
            ReceiveScalingProblem(MNIST, [gain], 0.1)


# Arrays of any make --------------------------------------------------------------------------------------------------


def masked(values, *hidden):
    return np.ma.masked_array(values, [i in hidden for i in range(len(values))])


GAIN = np.array([1e-10, 2e-10, 1e-3, 5e-11])
MASKED = {
    "problem's gains": ("min_gain", lambda: ReceiveScalingProblem(MIXED, masked(GAIN, 2), 0.1)),
    "problem's budget": ("budget", lambda: ReceiveScalingProblem(MIXED, np.ones((2, 4)), masked([0.1, 0.2], 0))),
    "a list of arrays": ("min_gain", lambda: ReceiveScalingProblem(MIXED, [masked(GAIN, 2), masked(GAIN)], 0.1)),
    "one entry": ("min_gain", lambda: ReceiveScalingProblem(MIXED, [1e-10, np.ma.masked], 0.1)),
    "eta": ("eta", lambda: ReceiveScalingProblem(MIXED, GAIN, 0.1).dp_epsilon(masked(GAIN, 2))),
    "scenario": ("batch_size", lambda: replace(MIXED, batch_size=masked([20.0, 60.0, 20.0], 1))),
    "gain": ("gain", lambda: MIXED.min_gain(np.ma.masked_less(np.tile(GAIN, (3, 1)), 1e-10))),
    "path loss": ("path_loss", lambda: MIXED.mean_gain(masked([1e8, 1e9, 1e7], 1))),
    "penalty": ("penalty", lambda: policies.AdaScale(masked([1.0, 2.0], 1))),
    "mean gain": ("mean_gain", lambda: policies.EstimFuture(masked([1e-10] * 3, 0))),
    "level": ("floor", lambda: water_level(masked([1.0, 2.0], 1), 1.0)),
    "round": ("queue", lambda: policies.best_energy(1.0, masked([1.0, 2.0], 1), 1.0, RoundLeakage(MIXED))),
    "mean": ("values", lambda: interval(masked([1.0, 2.0], 1))),
    "statistics": (
        "statistics",
        lambda: tuning.match_budget(
            lambda b, g: policies.PowerControl(g, b), ReceiveScalingProblem(MIXED, GAIN, 0.1), masked([1e-10] * 3, 0)
        ),
    ),
}


@pytest.mark.parametrize("entry", MASKED)
def test_what_a_mask_hides_is_not_computed_with(entry):
    name, call = MASKED[entry]
    with pytest.raises(ValueError, match=rf"^{name} must have no masked entries"):
        call()


def test_a_mask_that_hides_nothing_is_none():
    problem = ReceiveScalingProblem(MIXED, masked(GAIN), 0.1)
    np.testing.assert_array_equal(problem.min_gain, GAIN)
    assert type(problem.min_gain) is np.ndarray


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


@pytest.mark.parametrize("make", MAKES)
@given(st.data())
def test_arrays_of_any_make_give_what_plain_ones_give_and_stay_as_they_are(make, data):
    lanes, rounds = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    gain = np.array([data.draw(arrays(-14, -7, rounds, rounds)) for _ in range(lanes)])
    budget = data.draw(arrays(-3, 2, lanes, lanes))
    other, kept = MAKES[make](gain), gain.copy()
    plain, made = (ReceiveScalingProblem(MIXED, each, budget) for each in (gain, other))
    for policy in (policies.Optimal(), policies.AdaScale(0.1)):
        np.testing.assert_array_equal(policy.schedule(made), policy.schedule(plain))
    eta = policies.EqualAlloc().schedule(plain)
    np.testing.assert_array_equal(policies.run(policies.EqualAlloc(), made), eta)
    np.testing.assert_array_equal(plain.cost(MAKES[make](eta)), plain.cost(eta))
    np.testing.assert_array_equal(plain.rdp(MAKES[make](eta)), plain.rdp(eta))
    np.testing.assert_array_equal(plain.noise_multiplier(MAKES[make](eta)), plain.noise_multiplier(eta))
    np.testing.assert_array_equal(water_level(MAKES[make](plain.floor), budget), water_level(plain.floor, budget))
    np.testing.assert_array_equal(np.asarray(other, dtype=float), kept)
    np.testing.assert_array_equal(gain, kept)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.uint8])
def test_numbers_of_any_type_are_what_they_are_in_float64(kind):
    values = np.array([1, 2, 3], dtype=kind)
    one, other = (ReceiveScalingProblem(MNIST, each, 1) for each in (values, values.astype(float)))
    np.testing.assert_array_equal(policies.Optimal().schedule(one), policies.Optimal().schedule(other))
    assert interval(values) == interval(values.astype(float))


def test_what_lies_beyond_float64_is_infinite_and_refused():
    with pytest.raises(ValueError, match=r"^budget must be finite and > 0, got inf$"):
        ReceiveScalingProblem(MNIST, [1.0], np.longdouble("1e4000"))


# Averages ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e308, 1e308), min_size=2, max_size=9))
def test_an_interval_holds_its_centre_however_large_or_small(values):
    centre, low, high = interval(values)
    assert min(values) - 1e-15 * abs(min(values)) <= centre <= max(values) + 1e-15 * abs(max(values))
    assert low <= centre <= high


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=9), st.integers(-900, 900))
def test_a_power_of_two_scales_an_interval_and_changes_no_digit(values, exponent):
    assume(all(value == 0 or abs(value) > 1e-3 for value in values))
    scaled = interval(np.ldexp(values, exponent))
    np.testing.assert_array_equal(scaled, np.ldexp(interval(values), exponent))


@given(st.lists(st.one_of(st.just(0.0), powers(-300, 300)), min_size=1, max_size=9))
def test_a_geometric_mean_is_never_nan_and_zero_only_with_a_zero(values):
    centre, low, high = log_interval(values)
    assert 0 <= low <= centre <= high
    assert (centre == 0) == (0 in values)


# Channels and tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [(10**12, 1, 0), (1, 10**12, 0), (10**5, 10**5, 0), (1, 1, range(10**12)), (10, 1000, np.arange(20_000))],
    ids=["devices", "rounds", "both", "seeds", "an array of seeds"],
)
def test_a_draw_that_no_memory_holds_is_refused_before_it_is_asked_for(asked):
    with pytest.raises(ValueError, match=r"^a draw of .* at most 100,000,000 entries at once, got \d+ x \d+ x \d+$"):
        channel.draw(*asked)


def test_a_table_of_endless_seeds_is_refused():
    with pytest.raises(ValueError, match=r"^seeds must be at most 1,000,000"):
        leakage_table(MIXED, [0.1], iter(int, 1), {"EqualAlloc": policies.EqualAlloc})


@pytest.mark.parametrize("distance", [1e-300, 1e300])
def test_a_path_loss_beyond_floating_point_is_refused(distance):
    with pytest.raises(ValueError, match="path loss of these distances must be finite and > 0, got"):
        channel.cost_hata_path_loss(distance)
    with pytest.raises(ValueError, match=r"distance_range must be within 1e-150 [.]{3} 1e150"):
        channel.Rayleigh(distance_range=(min(distance, 1.0), max(distance, 1.0)), placement="area")


@pytest.mark.parametrize("returned", [math.nan, [math.nan] * 4, [1.0] * 3, [math.inf + 0j] * 4], ids=repr)
def test_a_fading_law_that_returns_something_else_is_named(returned):
    class Strange(channel.ChannelModel):
        def fading(self, rng, num_rounds):
            return returned

    with pytest.raises(ValueError, match=r"^Strange.fading must return 4 finite coefficients, got shape"):
        Strange().draw(2, 4, 0)


# Bounds --------------------------------------------------------------------------------------------------------------


@given(problems(), powers(-10, 10))
def test_both_sides_of_a_bound_are_finite_or_refused(problem, penalty):
    eta = policies.EqualAlloc().schedule(problem)
    for bound in (bounds.queue_bound, bounds.violation_bound, bounds.regret_bound):
        for sharp in (False, True):
            try:
                sides = bound(problem, eta, penalty, sharp=sharp)
            except ValueError as error:
                assert str(error).startswith("beyond floating point")  # noqa: PT017
            else:
                assert np.isfinite(sides.left).all()
                assert np.isfinite(sides.right).all()


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
