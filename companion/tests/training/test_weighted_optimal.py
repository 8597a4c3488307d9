"""The optimum under weights: against root finding, against chance, and where it is the unweighted one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale.problem import RoundLeakage
from companion.training.weighted_optimal import WeightedOptimal
from tests.problems import MIXED, make


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
