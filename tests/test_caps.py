"""At the ends of what a round can be: its cap, and the largest number."""

import re

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario
from adascale.policies import water_level
from adascale.problem import scaling


def test_at_its_floor_a_round_is_exactly_at_its_cap_though_the_way_back_rounds():
    rng = np.random.default_rng(0)
    cap, noise_scale = 10.0 ** rng.uniform(-3, 3, 1000), 10.0 ** rng.uniform(-3, 3, 1000)
    floor = noise_scale / cap
    assert (np.minimum(noise_scale / floor, cap) < cap).any()  # else nothing would be seen
    np.testing.assert_array_equal(scaling(floor, floor, cap, noise_scale), cap)


def test_one_round_whose_level_is_beyond_floating_point_is_refused():
    with pytest.raises(ValueError, match="the floors and budgets of all rounds together"):
        water_level([1.7e308], 1.7e308)


def test_of_several_rounds_above_their_caps_the_first_is_named_with_its_own_cap():
    problem = ReceiveScalingProblem(Scenario.mnist(), [[1e-9, 2e-9, 4e-9], [1e-9, 1e-9, 1e-9]], budget=1.0)
    eta = problem.max_eta * [[0.5, 0.25, 2.0], [0.5, 3.0, 3.0]]
    message = f"got {eta[0, 2]} > {problem.max_eta[0, 2]} in round 2"
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        problem.spend(eta)
    alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[0], budget=1.0)
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        alone.spend(eta[0])
