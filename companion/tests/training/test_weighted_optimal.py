"""The optimum under weights: against root finding, against chance, and where it is the unweighted one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale import Problem, policies
from adascale.problem import RoundLeakage
from companion.training.weighted_optimal import WeightedOptimal
from tests.problems import FULL, MIXED, MNIST, PAPER, make


def by_bisection(problem, weights):
    """One lane in plain scipy: an inverse of F' inside a bracketed price."""
    leakage = RoundLeakage(problem.scenario)

    def energy(price):
        def one(floor, c):
            if -leakage.slope(floor) <= price * c:
                return float(floor)
            top = floor + 1.0
            while -leakage.slope(top) > price * c:
                top *= 2
            return brentq(
                lambda w: float(leakage.slope(w)) + price * c,
                floor,
                top,
                xtol=1e-300,
                rtol=1e-14,
            )

        return np.array(
            [one(*pair) for pair in zip(problem.min_noise_energy, weights, strict=True)]
        )

    def over(log_price):
        return float(
            np.mean(weights * (energy(np.exp(log_price)) - problem.min_noise_energy))
            - problem.budget
        )

    return energy(np.exp(brentq(over, -60, 60, xtol=1e-13)))


@pytest.mark.parametrize("order", [2, 3, 2.5, 8])
def test_the_schedule_is_that_of_nested_root_finding(order):
    problem = make(replace(MIXED, order=order), 0.3, rounds=12)
    weights = np.exp(np.linspace(-2, 2, 12))
    weights /= weights.mean()
    schedule = WeightedOptimal(weights).schedule(problem)
    # F' carries about 1e-13
    np.testing.assert_allclose(schedule, by_bisection(problem, weights), rtol=1e-10)


@pytest.mark.parametrize("value", [1.0, 7.0, 1e-200])
def test_equal_weights_give_the_unweighted_optimum(value):
    for scenario, budget in PAPER:
        problem = make(scenario, budget, seeds=range(3))
        same = WeightedOptimal(np.full(problem.num_rounds, value)).schedule(problem)
        np.testing.assert_allclose(
            same, policies.Optimal().schedule(problem), rtol=1e-12
        )


def test_the_weighted_budget_is_spent_however_extreme():
    rng = np.random.default_rng(0)
    for i in range(75):
        scenario = replace((MIXED, MNIST, FULL)[i % 3], order=(2, 3, 1.5, 8, 30)[i % 5])
        rounds = int(rng.integers(1, 15))
        floor = 10 ** rng.uniform(-4, 4, rounds)
        budget = 10 ** rng.uniform(-5, 4)
        problem = Problem(
            scenario, scenario.noise_scale / (scenario.x_max * floor), budget
        )
        policy = WeightedOptimal(np.exp(rng.uniform(-12, 12, rounds) * rng.random()))
        energy = policy.schedule(problem)
        cost = np.mean(policy.weights * (energy - problem.min_noise_energy))
        # what logarithms in float64 hold of noise energies
        hidden = 4e-15 * np.sum(policy.weights * energy)
        assert abs(cost - budget) < 1e-9 * budget + hidden, i
