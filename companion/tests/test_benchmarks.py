"""The chapter on the benchmarks: protocols, late and needless leakage, orders and choices, the queue of Shi et al."""

from dataclasses import replace

import numpy as np
import pytest

from adascale import Problem, Scenario, policies
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

from .plain_loops import lyapunov_cost

MNIST = Scenario.mnist()


@pytest.fixture(scope="module")
def problem():
    return drawn(MNIST, np.array([[0.01], [0.16]]), [0, 1, 2])[0]


def test_both_protocols_are_means_over_the_same_realisations():
    stored = load("causal/mnist")
    table = both_protocols(stored, [0.01, 0.04, 0.16])
    at_middle = stored[stored.nu == 0.04]
    wide = at_middle.pivot(index="seed", columns="policy", values="epsilon")
    mean = wide.div(wide["Optimal"], axis=0).mean()
    for name in ("AdaScale", "PowerControl", "LyapunovPowerControl"):
        row = table.loc[name, 0.04]
        assert row.in_hindsight == pytest.approx(mean[name + fresh.HINDSIGHT])
        assert row.unseen == pytest.approx(mean[name])
    assert (table.in_hindsight["ConstantLevel"] == 1).all()  # water-filling
    untuned = table.loc[["EstimFuture", "EqualAlloc"]]
    assert (untuned.in_hindsight == untuned.unseen).all()
    assert (abs(untuned.cost - 1) < 1e-8).all()


def test_late_leakage_is_the_share_of_the_last_rounds(problem):
    w = policies.EqualAlloc().schedule(problem)
    loss = RoundLeakage(MNIST)(w)
    expected = [[sum(row[-5:]) / sum(row) for row in block] for block in loss.tolist()]
    np.testing.assert_allclose(late_share(problem, w, 5), expected, rtol=1e-12)
    np.testing.assert_allclose(late_share(problem, w, MNIST.num_rounds), 1, rtol=1e-12)


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


def test_orders_are_compared_with_the_first_of_them():
    table = order_table("mnist", [0.04], range(2), (3, 8))
    assert (table[3] == 1).all()
    alone = {}
    for order in (3, 8):
        leaked = leakage_table(
            replace(MNIST, order=order), [0.04], [1], {"AdaScale": METHODS["AdaScale"]}
        )
        alone[order] = leaked.epsilon.item()
    assert table.loc[(0.04, 1), 8] == pytest.approx(alone[8] / alone[3], rel=1e-9)
    assert alone[8] != pytest.approx(alone[3], rel=1e-4)  # the control


def test_penalty_scan_matches_a_plain_loop(problem):
    single = Problem(MNIST, problem.min_gain[0], 0.16)
    relative_rates = np.array([0.5, 3.0])
    multiples = [0.1, 1.0, 30.0]
    scan = penalty_scan(single, relative_rates, multiples)
    rates = relative_rates * single.eta(policies.Optimal().schedule(single)).mean()
    cost = [
        [lyapunov_cost(single, multiple * rate**3, rate) for multiple in multiples]
        for rate in rates
    ]
    np.testing.assert_allclose(scan, cost, rtol=1e-9)


def test_pairs_are_divided_by_the_optimum_of_their_lane(problem):
    table = pair_table(problem, match_lyapunov(problem))
    alone = Problem(MNIST, problem.min_gain[2], problem.budget[1, 0])
    optimal = alone.epsilon(policies.Optimal().schedule(alone))
    rows = table[table.lane == 5]
    np.testing.assert_allclose(rows.over * optimal, rows.epsilon, rtol=1e-9)
    np.testing.assert_allclose(
        rows.relative_penalty * rows.rate**3, rows.penalty, rtol=1e-12
    )
    assert (rows.nu == 0.16).all()
    assert (table.over > 1).all()


def test_ablation_changes_only_the_queue(problem):
    match = match_lyapunov(problem)
    policy = filled_lyapunov(
        problem
    )  # of itself it keeps what the most favourable pair has
    np.testing.assert_allclose(
        policy.penalty / policy.rate**3, match.penalty / match.rate**3, rtol=1e-12
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
    excess = table.ratio - 1
    gone = 1 - excess["filled"] / excess["empty"]
    np.testing.assert_allclose(table.gone["filled"], gone, rtol=1e-9)


def test_a_choice_is_divided_by_the_method_it_changes():
    choices = choices_table("mnist", [0.16], range(6))
    table = choices.set_index("choice")
    assert [*table.index[: len(CHOICES)]] == [*CHOICES]
    assert len(table) == len(CHOICES) + 6
    assert ((table.low <= table.ratio) & (table.ratio <= table.high)).all()
    pair = {
        "drawn": METHODS["PowerControl"],
        "other": TunedOnRealisation(policies.PowerControl, contraction=0.99),
    }
    leaked = leakage_table(MNIST, [0.16], range(6), pair)
    wide = leaked.pivot(index="seed", columns="policy", values="epsilon")
    ratio = np.exp(np.log(wide["other"] / wide["drawn"]).mean())
    assert table.ratio["PowerControl, r = 0.99"] == pytest.approx(ratio, rel=1e-9)
