"""The power control of Shi et al. at a given cost: the chosen pair, and a variant with a filled queue."""

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale import Problem, policies, tuning
from adascale.comparison.shi_tuning import best_lyapunov, match_lyapunov
from adascale.problem import RoundLeakage
from companion.shi import capped_level, plain_lyapunov
from tests import problems
from tests.problems import MNIST

from .plain_loops import lyapunov_cost


def make(budget, seeds=(0, 1)):
    return problems.make(MNIST, np.asarray(budget)[:, None], list(seeds))


@pytest.fixture(scope="module")
def matched():
    problem = make([0.01, 0.16], [0, 2])
    return problem, match_lyapunov(problem)


def test_every_pair_costs_the_budget(matched):
    problem, match = matched
    assert {*match.pairs.lane} == set(range(4))
    for pair in match.pairs.iloc[::7].itertuples():
        k, r = np.unravel_index(int(pair.lane), problem.batch_shape)
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
    best = (
        match.pairs.groupby("lane")
        .epsilon.min()
        .to_numpy()
        .reshape(problem.batch_shape)
    )
    np.testing.assert_allclose(problem.epsilon(w), best, rtol=1e-9)
    worst = (
        match.pairs.groupby("lane")
        .epsilon.max()
        .to_numpy()
        .reshape(problem.batch_shape)
    )
    assert (worst > 2 * best).all()  # the control: which pair is taken matters
    figures = best_lyapunov(problem)
    np.testing.assert_array_equal(
        [figures.penalty, figures.rate], [match.penalty, match.rate]
    )


def test_no_pair_between_tried_rates_leaks_much_less(matched):
    """Forty rates around the best one, the crossing of each found by bisection."""
    problem, match = matched
    alone = Problem(problem.scenario, problem.min_gain[0], problem.budget[1, 0])
    epsilon = match.pairs.groupby("lane").epsilon.min()[2]
    rates = match.rate[1, 0] * np.geomspace(0.9, 1.1, 40)
    natural = float(match.penalty[1, 0])
    pairs = []
    for rate in rates:
        low = natural * 1e-3
        high = natural * 1e3
        if (lyapunov_cost(alone, low, rate) - 1) * (
            lyapunov_cost(alone, high, rate) - 1
        ) < 0:
            pairs.append(
                (
                    brentq(
                        lambda V, rate=rate: lyapunov_cost(alone, V, rate) - 1,
                        low,
                        high,
                        rtol=1e-13,
                    ),
                    rate,
                )
            )
    penalty, rate = np.array(pairs).T
    many = Problem(
        problem.scenario,
        np.broadcast_to(alone.min_gain, (rate.size, 500)),
        alone.budget,
    )
    kindest = many.epsilon(
        policies.LyapunovPowerControl(penalty, rate).schedule(many)
    ).min()
    assert len(pairs) > 30
    assert epsilon < 1.05 * kindest  # the zoom is no finer than that


def test_a_rate_out_of_all_reach_is_named_lane_and_all():
    with pytest.raises(
        tuning.BudgetNotReached,
        match=r"no pair .* the cost of instance \(0, 0\) to its budget",
    ):
        # the queue stays empty: full power costs nothing
        match_lyapunov(make([0.04]), 1e9)


def test_capped_level_has_the_mean_or_is_infinite():
    rng = np.random.default_rng(0)
    caps = rng.pareto(1.0, (5, 40)) + 0.1
    mean = caps.mean(axis=-1) * [0.01, 0.2, 0.5, 0.9, 0.999]
    level = capped_level(caps, mean)
    np.testing.assert_allclose(
        np.minimum(level[:, None], caps).mean(axis=-1), mean, rtol=1e-12
    )
    assert capped_level(caps, 1.001 * caps.mean(axis=-1)).tolist() == [np.inf] * 5


def test_plain_method_minimises_every_round():
    problem = problems.make(MNIST, 0.04, rounds=60)
    floor = problem.min_noise_energy
    caps = np.array([0.5, 50.0])
    V = 2.0
    energy, queue = plain_lyapunov(problem, V, caps)
    assert energy[:, 0] == pytest.approx(np.maximum(caps, floor[0]), rel=1e-12)
    leakage = RoundLeakage(MNIST)
    for k, t in np.ndindex(energy.shape):
        # no point of a grid is better
        grid = np.geomspace(floor[t], max(caps[k], floor[t]), 400)
        w = np.append(energy[k, t], grid)
        own, *others = V * leakage(w) + queue[k, t] * (w - floor[t])
        assert own <= min(others) * (1 + 1e-9)
        filled = max(queue[k, t] + energy[k, t] - floor[t] - 0.04, 0)
        assert queue[k, t + 1] == pytest.approx(filled, rel=1e-12)
