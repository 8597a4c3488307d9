"""Where policies end: rounds left out, lanes, numbers too large; and what a policy may be handed or return."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from adascale import ReceiveScalingProblem, policies
from adascale.channel import EmpiricalFloors, RayleighFloors
from adascale.problem import RoundLeakage

from ..problems import FULL, MIXED, best_energy, make


def test_a_round_left_out_counts_towards_the_weights_of_shi_et_al():
    """After n rounds left out the next is that of round n: V r^-n over the queue, which fell by the rate n times."""
    contraction, scale = 0.8, MIXED.x_max * 1e-10
    policy = policies.LyapunovPowerControl(scale**3, scale / 8, contraction, initial_queue=4 * scale)
    state = policy.start(MIXED, 0.1)
    for n in range(1, 4):
        state = policy.skip(state)
        eta = policy.step(state, 1e-9)[1]  # a cap of 10 scales, which no round here reaches
        assert eta == pytest.approx(scale * np.sqrt(contraction**-n / (4 - n / 8)), rel=1e-12)


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


@pytest.mark.parametrize(("floor", "queue", "penalty"), [(2.17e-103, 7.47e-103, 1.82e-300), (1e-120, 0.0, 1e-250)])
def test_a_round_far_below_its_root_finds_it_though_the_curvature_overflows(floor, queue, penalty):
    leakage = RoundLeakage(FULL)
    found = float(best_energy(floor, queue, penalty, leakage))
    assert found > floor
    # found is the root to some units in its last place; the slope falls as its square
    assert -penalty * float(leakage.slope(found)) == pytest.approx(queue + found - floor, rel=1e-9)


# What a programme's tables hold, and what a policy may be handed or return -----------------------------------------

SECOND = replace(MIXED, order=2)  # few moments: quick also where nothing is compiled


class Unplaced(policies.OnlinePolicy):
    """Full power for a transmitter of 1 W; the state is how many rounds there were, and no scenario."""

    def start(self, scenario, budget):
        return 0

    def step(self, state, min_gain_t):
        return state + 1, min_gain_t


def test_with_two_rounds_each_lane_plans_for_the_second_floors_of_its_own_law():
    """The first slope is the mean one of the floors that may follow, be they equal, or 0.04 % apart."""
    follow, nu, first = np.array([[0.2, 0.2], [0.5, 0.5002]]), 0.4, 0.3
    gain = SECOND.noise_scale / (SECOND.x_max * np.array([[first, 1.0], [first, 1.0]]))
    problem = ReceiveScalingProblem(SECOND, gain, nu)  # one budget, which two tables are for
    eta = policies.DynamicProgramme(law=EmpiricalFloors(follow)).schedule(problem)
    F = RoundLeakage(SECOND)
    wanted = [
        optimize.brentq(lambda y, w=w: F.slope(first + y) - F.slope(w + 2 * nu - y).mean(), 0, 2 * nu, xtol=1e-14)
        for w in follow
    ]
    assert wanted[0] == pytest.approx((2 * nu + 0.2 - first) / 2)  # both rounds fill up to one level
    np.testing.assert_allclose(problem.noise_energy(eta)[:, 0] - first, wanted, rtol=2e-6)


def test_a_price_beyond_floating_point_is_refused_by_the_budget_of_a_round():
    """|F'| falls as w^-2 or w^-3 and is 0 in float64 where w is 1e200."""
    programme = policies.DynamicProgramme(law=RayleighFloors(0.1))
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"^beyond floating point: the price of a budget of 1e\+200$"),
    ):
        programme.start(replace(SECOND, num_rounds=2), 1e200)


def test_each_lane_learns_from_the_prior_of_its_own():
    scale = np.array([0.03, 0.3])
    problem = make(MIXED, 0.1, seeds=[0, 1])
    eta = policies.Learn(prior=RayleighFloors(scale), weight=4).schedule(problem)
    for lane in range(2):
        alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[lane], 0.1)
        policy = policies.Learn(prior=RayleighFloors(scale[lane]), weight=4)
        np.testing.assert_array_equal(eta[lane], policy.schedule(alone))
    assert policies.Learn(prior=RayleighFloors(scale), weight=4).start(MIXED, 0.1).seen.shape == (2, 2, 4)


@pytest.mark.parametrize("kind", [np.float64, ">f8", np.float32, np.int64, object])
def test_a_step_computes_in_float64_whatever_numbers_it_is_given(kind):
    """A third has 53 bits in float64, and 24 in float32."""

    class Third(Unplaced):
        def step(self, state, min_gain_t):
            return state, min_gain_t / np.float32(3)

    given = np.array([[1, 3], [4, 7]]).astype(kind)
    eta = Third().step(0, given)[1]
    assert eta.dtype == np.dtype(float)
    assert eta.dtype.isnative
    np.testing.assert_array_equal(eta, [[1 / 3, 1.0], [4 / 3, 7 / 3]])
    for no_number in (np.array([True, True]), np.array([1.0 + 0j, 1.0]), np.array(["1", "2"])):
        with pytest.raises(ValueError, match=r"^min_gain_t must be a number or an array of numbers, got "):
            Third().step(0, no_number)


TWO = [1e-12, 1e-12]
CARELESS = [
    (0, 1e-12),
    (0, [TWO]),
    (0, ["1e-12", "1e-12"]),
    (0, [True, True]),
    [0, TWO],
    (0, TWO, 0),
    np.array(TWO),
    None,
]


@pytest.mark.parametrize("returned", CARELESS)
def test_step_that_returns_no_state_and_number_per_lane_is_refused(returned):
    class Careless(Unplaced):
        def step(self, state, min_gain_t):
            return returned

    problem = make(MIXED, np.array([0.1, 0.2]), seeds=[0, 1])
    with pytest.raises(ValueError, match=r"^Careless\.step must return the next state and eta, "):
        policies.run(Careless(), problem)
