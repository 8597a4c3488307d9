"""The pairs of [28]: the scan of its cost, the table of what each leaks, and what its start explains."""

import math

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.comparison.shi_tuning import match_lyapunov
from companion.leakage.shi_pairs import lyapunov_starts, pair_table, penalty_scan
from companion.shi import filled_lyapunov

MNIST = Scenario.mnist()


def make(budgets, seeds=(0, 1)):
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, list(seeds)).gain
    return ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), np.asarray(budgets)[:, None])


@pytest.fixture(scope="module")
def matched():
    problem = make([0.01, 0.16], range(6))
    return problem, match_lyapunov(problem)


def test_the_scan_is_the_cost_of_every_rate_and_penalty_written_out():
    problem = ReceiveScalingProblem(MNIST, make([0.16]).min_gain[0], 0.16)
    relative_rates, multiples = [0.5, 3.0], [0.1, 1.0, 30.0]
    scan = penalty_scan(problem, relative_rates, multiples)
    mean_eta = policies.Optimal().schedule(problem).mean()
    for i, relative in enumerate(relative_rates):
        for j, multiple in enumerate(multiples):
            rate, queue, spent = relative * mean_eta, 0.0, 0.0
            for cap, floor in zip(problem.max_eta, problem.floor, strict=True):
                eta = cap if queue == 0 else min(cap, math.sqrt(multiple * rate**3 / queue))
                spent += MNIST.noise_scale / eta - floor
                queue = max(queue + eta - rate, 0.0)
            assert scan[i, j] == pytest.approx(spent / MNIST.num_rounds / 0.16, rel=1e-9)
    with pytest.raises(ValueError, match="problem must have no lanes"):
        penalty_scan(make([0.16]), relative_rates, multiples)


def test_the_table_of_pairs_divides_by_the_optimum_of_the_same_lane(matched):
    problem, found = matched
    table = pair_table(problem, found)
    assert {*table.nu[table.lane < 6]} == {0.01}
    assert {*table.nu[table.lane >= 6]} == {0.16}
    alone = ReceiveScalingProblem(MNIST, problem.min_gain[3], 0.16)
    optimal = alone.dp_epsilon(policies.Optimal().schedule(alone))
    rows = table[table.lane == 9]
    np.testing.assert_allclose(rows.over * optimal, rows.epsilon, rtol=1e-9)
    np.testing.assert_allclose(rows.relative_penalty * rows.rate**3, rows.penalty, rtol=1e-12)
    assert (table.over > 1).all()


def test_the_ablation_keeps_what_was_tuned_and_fills_only_the_queue(matched):
    problem, found = matched
    kept = found.penalty / found.rate**3
    policy = filled_lyapunov(problem)  # of itself it keeps what the kindest pair has
    np.testing.assert_allclose(policy.penalty / policy.rate**3, kept, rtol=1e-12)
    np.testing.assert_allclose(policy.initial_queue, policy.penalty / policy.rate**2, rtol=1e-12)
    np.testing.assert_allclose(problem.cost(policy.schedule(problem)) / problem.budget, 1, rtol=1e-9)
    common = filled_lyapunov(problem, multiple=30.0)
    np.testing.assert_allclose(common.penalty / common.rate**3, 30, rtol=1e-12)
    with pytest.raises(ValueError, match="multiple"):
        filled_lyapunov(problem, multiple=-1.0)


def test_the_starts_are_compared_at_equal_cost_and_their_shares_are_what_they_say(matched):
    problem, found = matched
    table = lyapunov_starts(problem, found, multiples=(3.0, 30.0)).set_index(["start", "nu"])
    assert [*table.index.unique("start")] == [
        "empty",
        "filled",
        "at rest",
        "empty, 30",
        "filled, 3",
        "filled, 30",
        "at rest, 30",
    ]
    assert (table.loc["empty", ["gone", "gone_low", "gone_high"]] == 0).all(axis=None)
    optimal = problem.dp_epsilon(policies.Optimal().schedule(problem))
    policy = filled_lyapunov(problem, multiple=found.penalty / found.rate**3)
    means = [
        np.exp(np.log(epsilon / optimal).mean(axis=-1))
        for epsilon in (
            problem.dp_epsilon(policies.LyapunovPowerControl(found.penalty, found.rate).schedule(problem)),
            problem.dp_epsilon(policy.schedule(problem)),
        )
    ]
    np.testing.assert_allclose(table.ratio["empty"], means[0], rtol=1e-9)
    np.testing.assert_allclose(table.ratio["filled"], means[1], rtol=1e-9)
    np.testing.assert_allclose(table.gone["filled"], 1 - (means[1] - 1) / (means[0] - 1), rtol=1e-9)
    assert (table.gone_low <= table.gone + 1e-12).all()
    assert (table.gone <= table.gone_high + 1e-12).all()
    with pytest.raises(ValueError, match="lanes"):
        lyapunov_starts(ReceiveScalingProblem(MNIST, problem.min_gain[0], 0.01))


def test_on_mnist_the_start_explains_most_and_a_short_queue_makes_it_worse():
    table = lyapunov_starts(make([0.01, 0.16], range(20))).set_index(["start", "nu"])
    assert (table.gone_low["filled"] > 0.5).all()
    assert (table.gone["filled, 30"] > table.gone["filled"]).all()
    assert (table.gone_high["empty, 30"] < 0).all()  # the control: re-tuning V alone does not do it
    assert table.gone_high["filled, 3", 0.01] < 0
