"""Statements on accuracy, evaluated on made-up trainings whose answers are known; and the leakage beside them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.comparison import find_method
from adascale.runs.execution import problem_of
from adascale.runs.specification import NOISE_FREE
from adascale.runs.sweep import read_sweep
from adascale.statistics import interval
from companion import figures
from companion.results import folder, load
from companion.training.accuracy import (
    accuracy_claims,
    reading_table,
    reading_verdicts,
    verdict_within,
)

QUOTED = (0.95, 0.90)
RNG = np.random.default_rng(0)
OWN_SEEDS = RNG.normal(
    0, 0.003, 6
)  # what a realisation is worth, whatever the policy and nu
FALLING, FLAT = (
    {0.01: 0.95, 0.04: 0.93, 0.16: 0.90},
    {0.01: 0.95, 0.04: 0.95, 0.16: 0.95},
)
SWEEPS = [f"mnist/{name}" for name in ("accuracy", "readings", "controls")]
SWEEPS += ["cifar10/accuracy", "cifar10/readings", "cifar10/draws", "digits/accuracy"]


def trainings(accuracy, policy="AdaScale", noise=1e-4, seeds=6):
    """A table of trainings whose means are given: {nu: accuracy}."""
    rng = np.random.default_rng(1)
    rows = [
        {
            "policy": policy,
            "nu": nu,
            "seed": seed,
            "test_accuracy": mean + OWN_SEEDS[seed] + rng.normal(0, noise),
        }
        for nu, mean in accuracy.items()
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def verdict(table, claim, **where):
    rows = accuracy_claims(table, QUOTED).query("claim == @claim")
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return list(rows.verdict)


def test_what_is_as_quoted_holds_and_what_is_flat_fails():
    falling, flat = trainings(FALLING), trainings(FLAT)
    assert verdict(falling, "ends") == ["holds", "holds"]
    assert verdict(falling, "falls") == ["holds", "holds"]
    assert verdict(falling, "amount") == ["holds"]
    assert verdict(flat, "ends") == ["holds", "fails"]
    assert verdict(flat, "amount") == ["fails"]
    assert "holds" not in verdict(flat, "falls")
    assert verdict(trainings({0.01: 0.90, 0.16: 0.95}), "falls") == ["fails"]


def test_a_fall_is_evaluated_realisation_by_realisation():
    """The realisations scatter by more than the fall, which is nevertheless sure."""
    table = trainings({0.01: 0.950, 0.16: 0.949})
    by_nu = [100 * table[table.nu == nu].test_accuracy for nu in (0.01, 0.16)]
    assert stats.ttest_ind(*by_nu).pvalue > 0.1
    assert verdict(table, "falls") == ["holds"]
    row = accuracy_claims(table, QUOTED).query("claim == 'falls'").iloc[0]
    expected = interval(by_nu[0].to_numpy() - by_nu[1].to_numpy())
    np.testing.assert_allclose([row.points, row.low, row.high], expected, rtol=1e-9)


def test_methods_are_compared_where_both_were_trained_and_a_training_without_noise_is_none():
    other = trainings({0.01: 0.953, 0.04: 0.90}, "EqualAlloc", seeds=4)
    claims = accuracy_claims(
        pd.concat([trainings(FALLING), other, trainings({0.01: 0.97}, "NoiseFree")]),
        QUOTED,
    )
    same = claims[claims.claim == "same"].set_index(["policy", "nu"])
    assert same.verdict.to_dict() == {
        ("EqualAlloc", 0.01): "holds",
        ("EqualAlloc", 0.04): "fails",
    }
    assert same.realisations.to_dict() == {
        ("EqualAlloc", 0.01): 4,
        ("EqualAlloc", 0.04): 4,
    }


def test_verdict_within_compares_the_whole_interval():
    cases = {"holds": [(-0.5, 0.5), (-1, 1)], "fails": [(1.1, 2), (-2, -1.1)]}
    for verdict, ends in (
        cases | {"not settled": [(-1.1, 0.5), (0.5, 1.1), (-3, 3)]}
    ).items():
        assert {verdict_within(*each, -1, 1) for each in ends} == {verdict}


class FakeRun:
    """What a table of readings asks of a run, without PyTorch."""

    def __init__(self, policy, nu, factor=1.0, placement="radius", scenario=None):
        self.policy, self.nu, self.budget_factor = policy, nu, factor
        self.channel = channel.Rayleigh(placement=placement)
        self.scenario, self.delta = (
            scenario or replace(Scenario.mnist(), num_rounds=40),
            1e-5,
        )


@pytest.mark.filterwarnings(
    "ignore::adascale.accounting.OrdersTooFew"
)  # its own loop below reports at 63 too
def test_a_reading_has_its_accuracy_and_the_leakage_of_its_own_channels_and_budget():
    loud = replace(Scenario.mnist(), num_rounds=40, noise_power=1e-10)
    entries = [
        ("plain", FakeRun("AdaScale", nu)) for nu in (0.01, 0.16) for _ in range(2)
    ]
    entries += [
        ("other", FakeRun("AdaScale", nu, 10.0, "area", loud)) for nu in (0.01, 0.16)
    ]
    entries += [("other", FakeRun("EqualAlloc", 0.01))]
    made = [trainings({0.01: 0.95, 0.16: 0.90}), trainings({0.01: 0.80, 0.16: 0.75})]
    made.append(trainings({0.01: 0.10}, "EqualAlloc"))
    results = pd.concat(
        each.assign(reading=name)
        for each, name in zip(made, ("plain", "other", "other"), strict=True)
    )
    table = reading_table(entries, results, range(3))
    assert table.reading.tolist() == ["plain"] * 2 + ["other"] * 2
    assert table.nu.tolist() == [0.01, 0.16] * 2
    assert table.budget.tolist() == [0.01, 0.16, 0.1, 1.6]
    worlds = [(entries[0][1].scenario, "radius")] * 2 + [(loud, "area")] * 2
    for row, (scenario, placement) in zip(table.itertuples(), worlds, strict=True):
        ratios, epsilons, over, sums = [], [], [], np.zeros(2)
        for seed in range(3):
            drawn = channel.Rayleigh(placement=placement).draw(10, 40, seed)
            problem = ReceiveScalingProblem(
                scenario, scenario.min_gain(drawn.gain), row.budget
            )
            best, equal = (
                each().schedule(problem)
                for each in (policies.Optimal, policies.EqualAlloc)
            )
            ratios.append(problem.rdp(equal) / problem.rdp(best))
            sums += problem.rdp(equal), problem.rdp(best)
            epsilons.append(problem.epsilon(best))
            over.append(problem.epsilon(equal) / epsilons[-1])
        assert row.gap == pytest.approx(stats.gmean(ratios), rel=1e-10)
        assert row.gap_means == pytest.approx(sums[0] / sums[1], rel=1e-10)
        assert row.epsilon == pytest.approx(stats.gmean(epsilons), rel=1e-10)
        assert row.epsilon_gap == pytest.approx(stats.gmean(over), rel=1e-10)
    assert table.fall.isna().tolist() == [True, False, True, False]
    assert table.fall.dropna().tolist() == pytest.approx([5, 5], abs=0.05)
    assert table.accuracy.tolist() == pytest.approx([95, 90, 80, 75], abs=0.5)


def readings(name, small, large, gap, wide=0.3, late=1.1):
    """Two rows of a reading table."""
    table = pd.DataFrame(
        {
            "reading": name,
            "nu": [0.01, 0.16],
            "accuracy": [small, large],
            "gap": [gap, late],
        }
    )
    table["accuracy_low"], table["accuracy_high"] = (
        table.accuracy - wide,
        table.accuracy + wide,
    )
    table["gap_low"], table["gap_high"] = table.gap * 0.98, table.gap * 1.02
    return table.assign(
        budget=table.nu, fall_low=small - large - 0.1, fall_high=small - large + 0.1
    )


def test_both_headlines_hold_only_where_all_parts_do():
    tables = [
        readings("all", 95, 90, 5),
        readings("flat", 95, 95, 5),
        readings("no gap", 95, 90, 1.05),
    ]
    tables += [
        readings("open", 95, 90, 5, wide=3),
        readings("too little", 94, 91.8, 5, wide=2),
    ]
    found = reading_verdicts(
        pd.concat([*tables, readings("widens", 95, 90, 5, late=9)]), QUOTED
    )
    both = found.both.to_dict()
    assert (both.pop("all"), both.pop("open"), {*both.values()}) == (
        "holds",
        "not settled",
        {"fails"},
    )
    assert found.loc["flat"].tolist() == [
        "holds",
        "fails",
        "fails",
        "holds",
        "holds",
        "fails",
    ]
    assert found.loc["no gap", ["gap", "narrows"]].tolist() == ["fails", "fails"]
    assert found.loc["too little"].tolist() == [
        "not settled",
        "not settled",
        "fails",
        "holds",
        "holds",
        "fails",
    ]
    assert found.loc["widens", "narrows"] == "fails"


def test_differences_to_the_training_without_noise_are_paired():
    free = trainings({0.01: 0.96}, "NoiseFree")
    table = pd.concat([trainings(FALLING), free])
    left, right = figures.accuracy(table, QUOTED).axes
    by = table[table.policy == "AdaScale"].pivot(
        index="seed", columns="nu", values="test_accuracy"
    )
    expected = by.sub(free.set_index("seed").test_accuracy, axis=0).mean()
    (bars,) = right.containers
    np.testing.assert_allclose(bars.lines[0].get_ydata(), 100 * expected)
    assert (
        f"AdaScale, {by.notna().any(axis=1).sum()} realisations"
        in left.get_legend_handles_labels()[1]
    )


def test_learning_curves_average_the_realisations_that_all_lines_share():
    rows = pd.concat(
        [trainings({0.01: 0.9}), trainings({0.01: 0.9}, "NoiseFree", seeds=2)],
        ignore_index=True,
    )
    rows["run"] = [f"{i}" for i in range(len(rows))]
    curves = rows[["run", "seed"]].merge(pd.DataFrame({"round": [24, 49]}), how="cross")
    curves["accuracy"], curves["epsilon"] = (
        0.5 + 0.1 * curves.seed + 0.001 * curves["round"],
        1.0 + curves.seed,
    )
    curves = curves.drop(columns="seed")
    both = figures.learning_curves(rows, curves, [0.01])
    free = (
        curves.merge(rows[(rows.policy == "NoiseFree")], on="run")
        .groupby("round")
        .accuracy.mean()
    )
    own = (
        curves.merge(rows[(rows.policy == "AdaScale") & (rows.seed < 2)], on="run")
        .groupby("round")
        .accuracy.mean()
    )
    np.testing.assert_allclose(
        both.axes[0].lines[0].get_ydata(), 100 * (own - free), atol=1e-12
    )  # of seeds 0 and 1
    assert both.axes[0].lines[0].get_xdata().tolist() == [25, 50]
    np.testing.assert_allclose(both.axes[1].lines[0].get_ydata(), [1.5, 1.5])
    assert len(both.axes[1].lines) == 1  # nothing leaks without noise: everything does


@pytest.mark.parametrize("name", SWEEPS)
def test_a_committed_table_is_the_whole_of_its_sweep_and_in_its_order(name):
    entries, table = read_sweep(folder() / f"{name}.toml"), load(name)
    assert [(entry.reading, entry.run.address) for entry in entries] == list(
        zip(table.reading, table.run, strict=True)
    )
    assert not table.shortened.any()
    assert table[["test_accuracy", "test_loss", "epsilon"]].notna().all(axis=None)
    curves = load(f"{name}-curves")
    last = curves.groupby("run")["round"].last()
    assert (
        last == table.set_index("run").rounds.groupby(level=0).first()[last.index] - 1
    ).all()
    ends = curves.groupby("run").accuracy.last()
    assert (ends[table.run].to_numpy() == table.test_accuracy).all()
    assert set(curves.run) == set(table.run)


@pytest.mark.parametrize("name", SWEEPS)
def test_what_needs_no_training_is_computed_again_from_the_channel(name):
    entries, table = read_sweep(folder() / f"{name}.toml"), load(name)
    chosen = np.random.default_rng(0).permutation(len(entries))[:2]
    for i in chosen:
        run, row = entries[i].run, table.iloc[i]
        problem, mean_gain = problem_of(run)
        assert row.floor_max == pytest.approx(problem.min_noise_energy.max(), rel=1e-12)
        assert row.floor_max_round == problem.min_noise_energy.argmax()
        assert row.floor_mean == pytest.approx(
            problem.min_noise_energy.mean(), rel=1e-12
        )
        if run.policy == NOISE_FREE:
            continue
        w = find_method(run.policy)[1](problem, mean_gain).schedule(problem)
        assert row.cost == pytest.approx(run.nu * run.budget_factor, rel=1e-8)
        # 1e-6: V is tuned to 1e-9 of the cost, and leakage is steep in it at small nu
        assert row.rdp == pytest.approx(float(problem.rdp(w)), rel=1e-6)
        assert row.epsilon == pytest.approx(float(problem.epsilon(w)), rel=1e-6)
