"""The power control of Shi et al. at a given cost: the chosen pair, and a variant with a filled queue."""

import numpy as np
import pytest

from adascale import Problem, policies, tuning
from adascale.comparison.shi_tuning import match_lyapunov
from adascale.problem import RoundLeakage
from companion import bounds
from companion.shi import capped_level, plain_lyapunov
from tests.problems import MNIST, make

from .plain_loops import lyapunov_cost


@pytest.fixture(scope="module")
def matched():
    problem = make(MNIST, [[0.01], [0.16]], [0, 2])
    return problem, match_lyapunov(problem)


def test_every_pair_costs_the_budget(matched):
    problem, match = matched
    assert {*match.pairs.instance} == set(range(4))
    for pair in match.pairs.iloc[::7].itertuples():
        k, r = np.unravel_index(int(pair.instance), problem.batch_shape)
        alone = Problem(problem.scenario, problem.min_gain[r], problem.budget[k, 0])
        # the rough part of the curve amplifies a last digit; the tolerance is 1e-9
        assert lyapunov_cost(alone, pair.penalty, pair.rate) == pytest.approx(
            1, rel=2e-9
        )


def test_the_kindest_pair_is_chosen(matched):
    problem, match = matched
    assert match.penalty.shape == match.rate.shape == problem.batch_shape
    w = policies.LyapunovPowerControl(match.penalty, match.rate).schedule(problem)
    np.testing.assert_allclose(problem.cost(w) / problem.budget, 1, rtol=1e-9)
    epsilon = match.pairs.groupby("instance").epsilon
    np.testing.assert_allclose(problem.epsilon(w).ravel(), epsilon.min(), rtol=1e-9)
    # the control: which pair is taken matters
    assert (epsilon.max() > 2 * epsilon.min()).all()


def test_a_rate_out_of_all_reach_is_named_instance_and_all():
    with pytest.raises(
        tuning.BudgetNotReached,
        match=r"no pair .* the cost of instance \(0, 0\) to its budget",
    ):
        # the queue stays empty: full power costs nothing
        match_lyapunov(make(MNIST, [[0.04]], [0, 1]), 1e9)


def test_capped_level_has_the_mean_or_is_infinite():
    rng = np.random.default_rng(0)
    caps = rng.pareto(1.0, (5, 40)) + 0.1
    mean = caps.mean(axis=-1) * [0.01, 0.2, 0.5, 0.9, 0.999]
    level = capped_level(caps, mean)
    np.testing.assert_allclose(
        np.minimum(level[:, None], caps).mean(axis=-1), mean, rtol=1e-12
    )
    assert capped_level(caps, 1.001 * caps.mean(axis=-1)).tolist() == [np.inf] * 5
    two = capped_level(caps, mean * [[1.0], [0.5]])
    np.testing.assert_allclose(two[0], level, rtol=1e-12)
    assert (two[1] < two[0]).all()


def test_plain_method_minimises_every_round():
    problem = make(MNIST, 0.04, rounds=60)
    floor, leakage = problem.min_noise_energy, RoundLeakage(MNIST)
    (energy,) = plain_lyapunov(problem, 2.0, [50.0])
    before = bounds.queue(problem, energy)[:-1]
    # from the floor to the cap, no point of a grid is better
    least = 2.0 * leakage(energy) + before * (energy - floor)
    for share in np.linspace(0, 1, 400):
        other = floor * (np.maximum(50.0, floor) / floor) ** share
        drift = 2.0 * leakage(other) + before * (other - floor)
        assert (least <= drift * (1 + 1e-9)).all()
