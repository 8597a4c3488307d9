"""The figures under exact accounting: the committed tables are what their command makes, and what they say."""

import pandas as pd
import pytest
from scipy import stats

from adascale import presets
from adascale.accounting import exact_epsilon
from adascale.comparison import leakage_table
from companion.claims import paper_claims
from companion.figures.headline import ratios
from companion.leakage.exact import DATASETS, leads, looseness, with_exact
from companion.methods import METHODS
from companion.results import load
from tests.problems import drawn

TABLES = {dataset: load(f"exact/{dataset}") for dataset in DATASETS}


@pytest.mark.parametrize(
    ("dataset", "policy", "nu", "seed"),
    [
        ("mnist", "PowerControl", 0.16, 3),
        ("mnist", "LyapunovPowerControl", 0.16, 53),
    ]  # the loosest of all
    + [("cifar10", "AdaScale", 0.08, 7)],
)
def test_certified_interval_contains_the_stored_value(dataset, policy, nu, seed):
    stored = TABLES[dataset].set_index(["policy", "nu", "seed"]).exact[policy, nu, seed]
    problem, mean_gain = drawn(presets.load(dataset).scenario, nu, seed)
    sigma = problem.noise_multiplier(
        METHODS[policy](problem, mean_gain).schedule(problem)
    )[0]
    proven = exact_epsilon(problem.scenario.sampling_rate, sigma)
    lower, upper = proven.lower, proven.upper
    assert lower * (1 - 1e-6) <= stored <= upper * (1 + 1e-6)  # seven digits are stored
    assert upper - lower <= 1e-3 * upper


def test_the_exact_value_is_joined_to_the_row_of_the_same_schedule():
    table = leakage_table(
        presets.load("mnist").scenario,
        [0.04],
        [5, 2],
        {"EqualAlloc": METHODS["EqualAlloc"]},
    )
    joined = with_exact(table, TABLES["mnist"])
    stored = TABLES["mnist"].set_index(["policy", "nu", "seed"]).exact
    assert list(joined.exact) == [
        stored["EqualAlloc", 0.04, seed] for seed in table.seed
    ]
    assert joined.attrs["labels"] == table.attrs["labels"]
    for wrong in (
        table.assign(epsilon=1.001 * table.epsilon),
        table.assign(seed=table.seed + 1000),
    ):  # not the stored schedule
        with pytest.raises(ValueError, match="schedules differ"):
            with_exact(wrong, TABLES["mnist"])


def test_statements_on_dp_are_evaluated_by_the_exact_value_too():
    table = TABLES["mnist"].assign(rdp=1.0)
    claims = paper_claims(table)
    pairs = {
        metric: rows[["claim", "policy", "nu"]].to_numpy().tolist()
        for metric, rows in claims.groupby("metric")
    }
    assert pairs["exact"] == pairs["epsilon"]
    assert {*paper_claims(table.drop(columns="exact")).metric} == {"rdp", "epsilon"}


def test_looseness_is_that_of_a_table_in_which_it_is_known():
    rows = [
        (policy, 0.1, seed, loose * exact * (1 + seed), exact * (1 + seed))
        for policy, loose, exact in (("AdaScale", 1.2, 2.0), ("Other", 1.5, 1.9))
        for seed in range(4)
    ]
    loose_rows = looseness(
        pd.DataFrame(rows, columns=["policy", "nu", "seed", "epsilon", "exact"])
    )
    adascale, other = loose_rows.itertuples()
    assert adascale[3:] == pytest.approx((1.2, 1, 1, 0, 0))
    assert other[3:] == pytest.approx((1.5, 2.85 / 2.4, 0.95, 1, 0))
    assert leads(loose_rows)["0.1"]["Other", "lead"] == "1.188 → 0.950"


HEADLINE = load("exact/headline")


def test_a_ratio_is_the_geometric_mean_over_paired_realisations():
    ratio = ratios(HEADLINE)
    by = HEADLINE[HEADLINE["nu"] == 0.04].pivot(
        index="seed", columns="policy", values="exact"
    )
    expected = stats.gmean(by["EqualAlloc"] / by["Optimal"])
    assert ratio.centre["EqualAlloc", 0.04] == pytest.approx(expected, rel=1e-12)
    assert (ratio.low < ratio.centre).all()
    assert (ratio.centre < ratio.high).all()
