"""Where policies end: one round, one weight, no price, the least contraction; and units, lanes and first guesses."""

import re
from dataclasses import replace

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, policies
from adascale.channel import EmpiricalFloors
from adascale.problem import RoundLeakage
from companion.leakage.liu_simeone import OfflinePowerControl
from companion.training import weighted_optimal

from ..problems import FULL, MIXED, best_energy, make, with_floors


def test_under_weights_all_noise_may_go_to_the_one_round_that_is_far_below_the_others():
    """The dear round buys it all, though it would buy less than the cheap ones if each spent the same."""
    problem = with_floors(MIXED, [100.0, 0.01], 1.0)
    energy = problem.noise_energy(weighted_optimal.WeightedOptimal([1.0, 3.0]).schedule(problem))
    # weights of mean 1 are 1/2 and 3/2, and two rounds have a budget of 2
    np.testing.assert_allclose(energy, [100.0, 0.01 + 2 / 1.5], rtol=1e-12)


@pytest.mark.parametrize("lane", [0, 1])
def test_a_lane_without_a_price_is_named_be_it_the_first(lane):
    floor = np.ones((2, 3))
    floor[lane] = 1e200  # the slope of a leakage of the order of 1e-200 is beyond floating point
    with pytest.raises(RuntimeError, match=f"no price found in lane {lane}: budget 1.0, floors from"):
        weighted_optimal.WeightedOptimal([1.0, 2.0, 3.0]).schedule(with_floors(FULL, floor, 1.0))


def test_a_round_left_out_counts_towards_the_weights_of_shi_et_al():
    """After n rounds left out the next is that of round n: V r^-n over the queue, which fell by the rate n times."""
    contraction, scale = 0.8, MIXED.x_max * 1e-10
    policy = policies.LyapunovPowerControl(scale**3, scale / 8, contraction, initial_queue=4 * scale)
    state = policy.start(MIXED, 0.1)
    for n in range(1, 4):
        state = policy.skip(state)
        eta = policy.step(state, 1e-9)[1]  # a cap of 10 scales, which no round here reaches
        assert eta == pytest.approx(scale * np.sqrt(contraction**-n / (4 - n / 8)), rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 8, 500])
def test_the_least_contraction_that_is_named_is_where_contractions_are_taken_from(rounds):
    def schedule(contraction):
        # one round is checked with the policy, a horizon with the problem
        policy = OfflinePowerControl(1.0, contraction)
        return policy.schedule(ReceiveScalingProblem(MIXED, np.full(rounds, 1e-10), 1.0))

    with pytest.raises(ValueError, match=f"over {rounds} rounds") as refused:
        schedule({1: 1e-300, 8: 1e-40, 500: 0.05}[rounds])
    least = np.exp(-600 / rounds)  # where the weights over all rounds reach e^600 and their square roots e^300
    named = float(re.search(r"at least (\S+) over", str(refused.value))[1])
    assert named / least == pytest.approx(1, rel=5e-3)  # 3 digits
    assert np.isfinite(schedule(least * np.exp(0.5 / rounds))).all()
    with pytest.raises(ValueError, match="contraction must be at least"):
        schedule(least * np.exp(-0.5 / rounds))


@pytest.mark.parametrize("floor", [0.1, 7.9])
def test_the_level_whose_penalty_is_beyond_floating_point_is_named(floor):
    """A law of one floor has the level floor + nu."""
    small = replace(FULL, clip_norm=1e-3)  # of next to no leakage, which makes for a large penalty
    with pytest.raises(ValueError, match=f"the penalty at a level of {floor + 0.1:.3g}$"):
        policies.AdaScale.from_law(small, 0.1, law=EmpiricalFloors([floor]), stiffness=1e308)


MEAN_GAIN = np.array([[1e-10, 2e-10, 4e-10], [3e-11, 1e-10, 1e-10]])


@pytest.mark.parametrize("of", [policies.EstimFuture, lambda gain: policies.PowerControl(gain, 3e-9)])
def test_two_rows_of_mean_gains_make_two_lanes_of_one_budget(of):
    policy, gain = of(MEAN_GAIN), np.array([2e-11, 5e-11])
    state, eta = policy.step(policy.start(MIXED, 0.1), gain)
    assert state.lanes == (2,)
    for lane in range(2):
        alone = of(MEAN_GAIN[lane])
        assert eta[lane] == alone.step(alone.start(MIXED, 0.1), gain[lane])[1]
    with pytest.raises(ValueError, match="broadcast together"):
        policy.start(MIXED, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("scale", [1e-78, 1.0, 1e80, 1e82])
def test_weighted_optimal_spends_its_budget_at_any_scale_of_the_floors(scale):
    problem = with_floors(FULL, scale * np.array([1.0, 1.0, 2.0]), 1e-8 * scale)
    weights = np.array([1.0, 2.0, 3.0])
    eta = weighted_optimal.WeightedOptimal(weights).schedule(problem)
    # floors have eight digits of a budget that is 1e-8 of them
    assert weighted_optimal.weighted_cost(problem, eta, weights) == pytest.approx(1e-8 * scale, rel=1e-6)


@pytest.mark.parametrize("contraction", [7e-33, 3e-30, 3e-24, 1e-20, 1e-3, 1.0])
@pytest.mark.parametrize("rounds", [2, 3, 8])
def test_power_control_in_hindsight_spends_its_privacy_budget_and_no_more(contraction, rounds):
    problem = make(MIXED, 0.1, rounds=rounds)
    most = problem.max_eta.sum()
    for share in (0.2, 0.5, 0.9):
        eta = OfflinePowerControl(share * most, contraction).schedule(problem)
        assert eta.sum() == pytest.approx(share * most, rel=1e-12)  # a few roundings in a sum of eight at the most


@pytest.mark.parametrize(("floor", "queue", "penalty"), [(2.17e-103, 7.47e-103, 1.82e-300), (1e-120, 0.0, 1e-250)])
def test_a_round_far_below_its_root_finds_it_though_the_curvature_overflows(floor, queue, penalty):
    leakage = RoundLeakage(FULL)
    found = float(best_energy(floor, queue, penalty, leakage))
    assert found > floor
    # found is the root to some units in its last place; the slope falls as its square
    assert -penalty * float(leakage.slope(found)) == pytest.approx(queue + found - floor, rel=1e-9)


GAIN = np.array([1e-10, 2e-10])


def test_class_says_what_of_the_channel_it_needs():
    others, law = {"PowerControl": {"privacy_budget": 3e-9}}, EmpiricalFloors([0.2])
    for needs, more, known in (
        ("needs_mean_gain", {"mean_gain": GAIN}, {"EstimFuture", "PowerControl"}),
        ("needs_law", {"law": law}, {"ConstantLevel", "DynamicProgramme", "ReSolve"}),
    ):
        assert {name for name in policies.__all__ if getattr(getattr(policies, name), needs, False)} == known
        for name in known:
            getattr(policies, name)(**others.get(name, {}), **more)
            with pytest.raises((TypeError, ValueError), match="mean_gain"):
                getattr(policies, name)(**others.get(name, {}))
