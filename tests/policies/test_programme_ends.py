"""What a programme's tables hold, and the gains and scalings at the edge of what a policy may be handed or return."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from adascale import ReceiveScalingProblem, policies
from adascale.channel import EmpiricalFloors, RayleighFloors
from adascale.problem import RoundLeakage

from ..problems import MIXED, make

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
