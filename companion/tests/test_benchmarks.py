"""The chapter on the benchmarks: protocols, late and needless leakage, orders and choices, the queue of Shi et al."""

import numpy as np
import pytest

from adascale import Scenario, policies
from adascale.comparison.shi_tuning import match_lyapunov
from adascale.problem import RoundLeakage
from companion.leakage.benchmarks import (
    full_power,
)
from companion.leakage.shi_pairs import lyapunov_starts
from companion.shi import filled_lyapunov
from tests.problems import drawn

MNIST = Scenario.mnist()


@pytest.fixture(scope="module")
def problem():
    return drawn(MNIST, np.array([[0.01], [0.16]]), [0, 1, 2])[0]


def test_needless_full_power_is_counted(problem):
    best = full_power(problem, policies.Optimal().schedule(problem))
    assert (best["needlessly"] == 0).all()
    assert (best["RDP of needless rounds"] == 0).all()
    assert (best["at full power"] > 0).all()
    every = full_power(problem, problem.min_noise_energy * np.ones((2, 1, 1)))
    assert (every["at full power"] == 1).all()
    np.testing.assert_allclose(every["needlessly"], 1 - best["at full power"])
    loss = RoundLeakage(MNIST)(problem.min_noise_energy)
    first = loss[:, 0] / loss.sum(axis=-1)
    np.testing.assert_allclose(every["... of round 0"], [first, first], rtol=1e-12)


def test_starts_are_compared_at_equal_cost(
    problem,
):
    match = match_lyapunov(problem)
    table = lyapunov_starts(problem, match).set_index(["start", "nu"])
    assert len(table) == 9 * 2
    assert (table.gone["empty"] == 0).all()
    filled = filled_lyapunov(problem, multiple=match.penalty / match.rate**3)
    empty = policies.LyapunovPowerControl(match.penalty, match.rate)
    optimal = problem.epsilon(policies.Optimal().schedule(problem))
    for name, policy in (("empty", empty), ("filled", filled)):
        ratio = problem.epsilon(policy.schedule(problem)) / optimal
        mean = np.exp(np.log(ratio).mean(axis=-1))
        np.testing.assert_allclose(table.ratio[name], mean, rtol=1e-9)
