"""The chapter on the benchmarks: protocols, late and needless leakage, orders and choices, the queue of Shi et al."""

import math
from dataclasses import replace

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, policies
from adascale.comparison import TunedOnRealisation, leakage_table
from adascale.comparison.shi_tuning import match_lyapunov
from adascale.problem import RoundLeakage
from companion.causal import fresh
from companion.leakage.benchmarks import (
    CHOICES,
    both_protocols,
    choices_table,
    full_power,
    late_share,
    order_table,
)
from companion.leakage.shi_pairs import lyapunov_starts, pair_table, penalty_scan
from companion.methods import METHODS
from companion.results import load
from companion.shi import filled_lyapunov
from tests.problems import drawn

MNIST = Scenario.mnist()


@pytest.fixture(scope="module")
def problem():
    return drawn(MNIST, np.array([[0.01], [0.16]]), [0, 1, 2])[0]


def test_both_protocols_are_means_over_the_same_realisations():
    stored = load("causal/mnist")
    table = both_protocols(stored, [0.01, 0.04, 0.16])
    wide = stored[stored.nu == 0.04].pivot(
        index="seed", columns="policy", values="epsilon"
    )
    over = wide.div(wide["Optimal"], axis=0).mean()
    for name in ("AdaScale", "PowerControl", "LyapunovPowerControl"):
        assert table.in_hindsight[name, 0.04] == pytest.approx(
            over[name + fresh.HINDSIGHT], rel=1e-12
        )
        assert table.unseen[name, 0.04] == pytest.approx(over[name], rel=1e-12)
    assert table.in_hindsight["ConstantLevel", 0.04] == 1  # water-filling
    untuned = table.loc[["EstimFuture", "EqualAlloc"]]
    assert (untuned.in_hindsight == untuned.unseen).all()
    assert (abs(untuned.cost - 1) < 1e-8).all()
    # a constant that sees no future is within half a per cent, and nothing else is
    assert (abs(table.unseen["ConstantLevel"] - 1) < 0.005).all()
    assert (abs(table.cost - 1) < 0.03).all()
    assert (
        table.unseen.drop(index="ConstantLevel", level="policy")
        .drop(index=0.04, level="nu")
        .min()
        > 1.01
    )


def test_late_leakage_is_the_share_of_the_last_rounds(problem):
    w = policies.EqualAlloc().schedule(problem)
    loss = RoundLeakage(MNIST)(w)
    expected = [[sum(row[-5:]) / sum(row) for row in block] for block in loss.tolist()]
    np.testing.assert_allclose(late_share(problem, w, 5), expected, rtol=1e-12)
    np.testing.assert_allclose(late_share(problem, w, MNIST.num_rounds), 1, rtol=1e-12)


def test_the_optimum_has_no_needless_full_power_and_full_power_has_all_of_it(problem):
    best = full_power(problem, policies.Optimal().schedule(problem))
    assert (best["needlessly"] == 0).all()
    assert (best["RDP of needless rounds"] == 0).all()
    assert (best["at full power"] > 0).all()
    every = full_power(problem, problem.min_noise_energy * np.ones((2, 1, 1)))
    assert (every["at full power"] == 1).all()
    np.testing.assert_allclose(every["needlessly"], 1 - best["at full power"])
    loss = RoundLeakage(MNIST)(problem.min_noise_energy)
    np.testing.assert_allclose(
        every["... of round 0"],
        np.broadcast_to(loss[:, 0] / loss.sum(axis=-1), (2, 3)),
        rtol=1e-12,
    )
    assert (every["... of the first ten"] < every["RDP of needless rounds"]).all()


def test_orders_are_compared_with_the_first_of_them():
    table = order_table("mnist", [0.04], range(2), (3, 8))
    assert (table[3] == 1).all()
    alone = {}
    for order in (3, 8):
        found = leakage_table(
            replace(MNIST, order=order), [0.04], [1], {"AdaScale": METHODS["AdaScale"]}
        )
        alone[order] = found.epsilon.item()
    assert table.loc[(0.04, 1), 8] == pytest.approx(alone[8] / alone[3], rel=1e-9)
    assert alone[8] != pytest.approx(alone[3], rel=1e-4)  # the control


def test_a_choice_is_divided_by_the_method_it_changes_and_few_choices_leak_less():
    choices = choices_table("mnist", [0.01, 0.16], range(6))
    table = choices[choices.nu == 0.16].set_index("choice")
    assert [*table.index[: len(CHOICES)]] == [*CHOICES]
    assert len(table) == len(CHOICES) + 6
    assert ((table.low <= table.ratio) & (table.ratio <= table.high)).all()
    pair = {
        "drawn": METHODS["PowerControl"],
        "other": TunedOnRealisation(policies.PowerControl, contraction=0.99),
    }
    made = leakage_table(MNIST, [0.16], range(6), pair).pivot(
        index="seed", columns="policy", values="epsilon"
    )
    expected = np.exp(np.log(made["other"] / made["drawn"]).mean())
    assert table.ratio["PowerControl, r = 0.99"] == pytest.approx(expected, rel=1e-9)
    # nothing but a growing penalty and a filled queue leaks less than what is drawn
    queue = "LyapunovPowerControl, "
    less = {
        queue + each
        for each in (
            "r = 0.99",
            "r = 0.999",
            "queue filled at the start",
            "filled, and V = 30 η̄³",
        )
    }
    assert (choices[~choices.choice.isin(less)].high > 0.99).all()
    assert {*choices[choices.high < 0.99].choice} <= less


def test_the_scan_is_the_cost_of_every_rate_and_penalty_written_out(problem):
    one = ReceiveScalingProblem(MNIST, problem.min_gain[0], 0.16)
    relative_rates, multiples = [0.5, 3.0], [0.1, 1.0, 30.0]
    scan = penalty_scan(one, relative_rates, multiples)
    mean_eta = one.eta(policies.Optimal().schedule(one)).mean()
    for i, j in np.ndindex(2, 3):
        rate, queue, spent = relative_rates[i] * mean_eta, 0.0, 0.0
        for cap, floor in zip(one.max_eta, one.min_noise_energy, strict=True):
            eta = (
                cap
                if queue == 0
                else min(cap, math.sqrt(multiples[j] * rate**3 / queue))
            )
            spent += MNIST.noise_scale / eta - floor
            queue = max(queue + eta - rate, 0.0)
        assert scan[i, j] == pytest.approx(spent / MNIST.num_rounds / 0.16, rel=1e-9)


def test_pairs_are_divided_by_the_optimum_of_their_lane(problem):
    table = pair_table(problem, match_lyapunov(problem))
    alone = ReceiveScalingProblem(MNIST, problem.min_gain[2], problem.budget[1, 0])
    optimal, rows = (
        alone.epsilon(policies.Optimal().schedule(alone)),
        table[table.lane == 5],
    )
    np.testing.assert_allclose(rows.over * optimal, rows.epsilon, rtol=1e-9)
    np.testing.assert_allclose(
        rows.relative_penalty * rows.rate**3, rows.penalty, rtol=1e-12
    )
    assert (rows.nu == 0.16).all()
    assert (table.over > 1).all()


def test_the_ablation_keeps_what_was_tuned_and_fills_only_the_queue(problem):
    found = match_lyapunov(problem)
    policy = filled_lyapunov(
        problem
    )  # of itself it keeps what the most favourable pair has
    np.testing.assert_allclose(
        policy.penalty / policy.rate**3, found.penalty / found.rate**3, rtol=1e-12
    )
    np.testing.assert_allclose(
        policy.initial_queue, policy.penalty / policy.rate**2, rtol=1e-12
    )
    np.testing.assert_allclose(
        problem.cost(policy.schedule(problem)) / problem.budget, 1, rtol=1e-9
    )
    common = filled_lyapunov(problem, multiple=30.0)
    np.testing.assert_allclose(common.penalty / common.rate**3, 30, rtol=1e-12)
    with pytest.raises(ValueError, match="multiple"):
        filled_lyapunov(problem, multiple=-1.0)


def test_the_starts_are_compared_at_equal_cost_and_their_shares_are_what_they_say(
    problem,
):
    found = match_lyapunov(problem)
    table = lyapunov_starts(problem, found).set_index(["start", "nu"])
    starts = [
        "empty",
        "filled",
        "at rest",
        "empty, 30",
        *(f"filled, {k}" for k in (3, 10, 30, 100)),
        "at rest, 30",
    ]
    assert [*table.index.unique("start")] == starts
    assert (table.gone["empty"] == 0).all()
    optimal = problem.epsilon(policies.Optimal().schedule(problem))
    filled = filled_lyapunov(problem, multiple=found.penalty / found.rate**3)
    pair = policies.LyapunovPowerControl(found.penalty, found.rate), filled
    over = (problem.epsilon(policy.schedule(problem)) / optimal for policy in pair)
    means = [np.exp(np.log(each).mean(axis=-1)) for each in over]
    np.testing.assert_allclose(table.ratio["empty"], means[0], rtol=1e-9)
    np.testing.assert_allclose(table.ratio["filled"], means[1], rtol=1e-9)
    np.testing.assert_allclose(
        table.gone["filled"], 1 - (means[1] - 1) / (means[0] - 1), rtol=1e-9
    )
