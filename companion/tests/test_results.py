"""Committed tables by name, and ratios of policies, against the text of the files and SciPy's own intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion.results import load, ratio

KEYS = ["policy", "nu", "seed"]


def pairs(**values):
    """A table with a row per policy and seed; the seeds of each policy are in an order of its own."""
    rows = [
        (name, 0.04, seed, value)
        for name, row in values.items()
        for seed, value in enumerate(row)
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "rdp"]).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def drawn():
    return np.exp(np.random.default_rng(5).normal(size=(2, 40)))


def test_load_reads_a_wide_table_by_policy():
    table = load("exact/mnist").set_index(KEYS)
    # the fourth line of the file
    assert table.loc[("AdaScale", 0.01, 0)].tolist() == [
        6.855147,
        5.635384,
    ]
    assert [*table] == ["epsilon", "exact"]


def test_ratio_is_the_paired_interval_of_scipy(drawn):
    top, bottom = drawn
    leaked = pairs(A=top, B=bottom)
    own = stats.ttest_rel(np.log(top), np.log(bottom)).confidence_interval(0.95)
    geometric = stats.gmean(top / bottom), *np.exp(own)
    assert ratio(leaked, "A", "B", nu=0.04) == pytest.approx(geometric, rel=1e-12)

    def of_means(x, y, axis):
        return x.mean(axis=axis) / y.mean(axis=axis)

    own = stats.bootstrap(drawn, of_means, paired=True, method="percentile", rng=1)
    mean, *ends = ratio(leaked, "A", "B", mean="ratio of means")
    assert mean == pytest.approx(top.mean() / bottom.mean(), rel=1e-12)
    assert ends == pytest.approx([*own.confidence_interval], rel=0.03)


def test_median_ratio_has_the_interval_of_order_statistics(drawn):
    ordered = np.sort(drawn[0] / drawn[1])
    # P(fewer than low below the median) <= 2.5 %
    low = int(stats.binom.ppf(0.025, len(ordered), 0.5))
    median = ratio(pairs(A=drawn[0], B=drawn[1]), "A", "B", mean="median")
    assert median == pytest.approx(
        (np.median(ordered), ordered[low - 1], ordered[len(ordered) - low]), rel=1e-12
    )
    few = ratio(pairs(A=[1.0, 2.0, 3.0], B=[1.0, 1.0, 1.0]), "A", "B", mean="median")
    # no order statistics of three include the median with 95 %
    assert few == (
        2,
        0,
        np.inf,
    )


def test_ratio_pairs_realisations_and_leaves_out_incomplete_ones():
    table = pairs(A=[2.0, np.nan, 8.0], B=[1.0, 5.0, 4.0], C=[1.0])
    assert ratio(table, "A", "B") == pytest.approx((2, 2, 2))
    assert ratio(table, "A", "C").estimate == 2
    exact = table.rename(columns={"rdp": "exact"})
    assert ratio(exact, "A", "B", "exact") == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nu": 0.05}, "no row has nu = 0.05, only 0.04, 0.08"),
        ({}, "A must have one row per seed, got 4 rows for 2; nu=... selects some"),
    ],
)
def test_ratio_refuses_what_the_table_does_not_have(wrong, message):
    table = pairs(A=[2.0, 3.0], B=[1.0, 1.0])
    both = pd.concat([table, table.assign(nu=0.08)])
    with pytest.raises(ValueError, match=message):
        ratio(both, **({"policy": "A", "reference": "B"} | wrong))
