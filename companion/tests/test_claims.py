"""Statements about leakages, evaluated by intervals of paired ratios."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion.claims import compare, evaluate, holm, paper_claims, verdicts


def table(**leakages):
    """A leakage table of one or more budgets: leakages[policy] has a row a budget, an entry a seed."""
    rows = []
    for policy, values in leakages.items():
        values = np.atleast_2d(values)
        for k, nu in enumerate([0.01, 0.02, 0.04][: len(values)]):
            for seed, value in enumerate(values[k]):
                rows.append(
                    {
                        "policy": policy,
                        "nu": nu,
                        "seed": seed,
                        "rdp": value,
                        "epsilon": np.sqrt(value),
                    }
                )
    return pd.DataFrame(rows)


def test_of_several_policies_the_leakiest_of_each_realisation_counts():
    made = table(A=[4.0, 4.0], B=[1.0, 2.0], C=[2.0, 1.0])
    row = compare(made, "rdp", "A", ["B", "C"]).iloc[0]
    assert (row.ratio, row.low, row.high) == pytest.approx((2, 2, 2))


def test_a_realisation_without_a_result_is_left_out_and_counted():
    made = table(A=[2.0, np.nan, 2.0], B=[1.0, 1.0, 1.0])
    assert compare(made, "rdp", "A", "B").iloc[0].realisations == 2
    none = compare(table(A=[np.nan, np.nan], B=[1.0, 1.0]), "rdp", "A", "B")
    assert none.iloc[0].realisations == 0
    assert evaluate(none).verdict.item() == "not settled"


def test_judge_takes_the_side_of_the_whole_interval():
    ends = pd.DataFrame({"low": [1.1, 0.5, 0.9, 1.0], "high": [2, 0.9, 1.1, 1.0]})
    assert evaluate(ends).verdict.tolist() == [
        "holds",
        "fails",
        "not settled",
        "not settled",
    ]
    assert evaluate(ends, above=False).verdict.tolist()[:2] == ["fails", "holds"]


def test_verdicts_have_about_the_stated_error_rate():
    """Of a ratio that is 1 on average, one verdict in twenty settles."""
    index = pd.MultiIndex.from_product(
        [["A", "B"], range(400), range(5)], names=["policy", "nu", "seed"]
    )
    made = pd.DataFrame(
        {"rdp": np.exp(np.random.default_rng(1).normal(size=4000))}, index
    ).reset_index()
    settled = (
        evaluate(compare(made.assign(epsilon=made.rdp), "rdp", "A", "B")).verdict
        != "not settled"
    ).mean()
    assert 0.02 < settled < 0.09  # four standard errors around 0.05


def test_every_statement_is_evaluated_in_its_own_direction():
    seeds = np.exp(np.random.default_rng(2).normal(scale=1e-3, size=(5, 2, 20)))
    level = {
        "Optimal": (1, 0.5),
        "AdaScale": (1.1, 0.52),
        "EqualAlloc": (4, 1),
        "PowerControl": (8, 1.01),
    }
    made = table(
        **{
            name: np.array(values)[:, None] * seeds[i]
            for i, (name, values) in enumerate(level.items())
        }
    )
    claims = paper_claims(made, drawn=("EqualAlloc",), others=("PowerControl",))
    found = {
        (row.claim, row.metric, row.policy, row.nu): row.verdict
        for row in claims.itertuples()
    }
    rows = [
        ("ahead", "rdp", "PowerControl"),
        ("close", "rdp", "AdaScale"),
        ("rises", "epsilon", "AdaScale"),
    ]
    rows += [
        (claim, "rdp", "EqualAlloc")
        for claim in ("ahead", "narrows", "narrows in nats")
    ]
    assert {
        found[*row, 0.01] for row in [*rows, ("higher", "rdp", "PowerControl")]
    } == {"holds"}
    assert found["near", "rdp", "EqualAlloc", 0.02] == "fails"
    assert found["ahead", "epsilon", "PowerControl", 0.02] == "holds"
    assert (
        "narrows",
        "rdp",
        "PowerControl",
        0.01,
    ) not in found  # the paper's RDP panel does not draw it
    assert (
        "near",
        "rdp",
        "EqualAlloc",
        0.01,
    ) not in found  # asked at the largest budget
    assert (
        "narrows",
        "rdp",
        "EqualAlloc",
        0.02,
    ) not in found  # there is no next budget
    worse = made.assign(rdp=np.where(made.policy == "AdaScale", 2 * made.rdp, made.rdp))
    evaluated = paper_claims(worse, drawn=("EqualAlloc",), others=())
    verdict = evaluated.set_index(["claim", "metric", "nu"]).sort_index().verdict
    assert (verdict.loc["close", "rdp"] == "fails").all()
    assert verdict.loc["ahead", "rdp", 0.02] == "fails"


def test_the_table_to_read_has_a_row_a_statement_and_a_column_a_budget():
    made = table(
        Optimal=np.ones((2, 3)),
        AdaScale=np.full((2, 3), 1.05),
        EqualAlloc=[[2, 3, 4], [2, 2, 2.5]],
    )
    read = verdicts(paper_claims(made, drawn=("EqualAlloc",), others=()))
    assert list(read) == ["0.01", "0.02"]
    assert read.loc[("close", "RDP", "AdaScale"), "0.01"] == "1.05\N{NO-BREAK SPACE}✓"
    assert read.loc[("near", "RDP", "EqualAlloc"), "0.02"] == "2.15\N{NO-BREAK SPACE}✗"
    assert read.loc[("narrows", "RDP", "EqualAlloc"), "0.02"] == ""


def test_means_and_medians_can_disagree_on_whether_a_gap_narrows():
    """One realisation in ten with a huge leakage rules the means and leaves the geometric mean where it was."""
    huge = np.where(np.arange(100) % 10 == 0, 1e4, 1.0)
    ada = np.array([huge, np.ones(100)])
    equal = np.array([np.where(huge > 1, 1.1 * huge, 2.5), np.full(100, 2)])
    made = table(Optimal=0.9 * ada, AdaScale=ada, EqualAlloc=equal)
    evaluated = {
        average: paper_claims(made, ("EqualAlloc",), (), average)
        for average in ("geometric", "ratio of means")
    }
    found = {
        name: each.set_index(["claim", "metric", "nu"]).verdict
        for name, each in evaluated.items()
    }
    assert found["geometric"]["narrows", "rdp", 0.01] == "holds"
    assert found["ratio of means"]["narrows", "rdp", 0.01] == "fails"
    assert (
        found["ratio of means"]["narrows in nats", "rdp", 0.01] == "holds"
    )  # by about a hundred nats


def test_holm_unsettles_what_statsmodels_definition_does_and_nothing_that_is_sure():
    rng = np.random.default_rng(5)
    level = {"Optimal": 0.9, "AdaScale": 1.0, "EqualAlloc": 1.03, "PowerControl": 3.0}
    made = table(
        **{
            name: value * np.exp(rng.normal(scale=0.08, size=(3, 30)))
            for name, value in level.items()
        }
    )
    claims = paper_claims(made, ("EqualAlloc",), ("PowerControl",))
    lost = holm(claims)
    sure = claims[(claims.policy == "PowerControl") & (claims.claim == "ahead")]
    assert not set(sure.index) & set(lost.index)
    assert 0 < len(lost) < len(claims) / 2
    # step by step, with the t test that the interval of a ratio inverts
    wide = made.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    row = claims[
        (claims.claim == "ahead")
        & (claims.policy == "EqualAlloc")
        & (claims.metric == "rdp")
    ].iloc[0]
    logs = np.log(wide["EqualAlloc"] / wide["AdaScale"])[row.nu]
    everything = holm(claims, level=1e-300)
    assert everything.loc[row.name].p == pytest.approx(
        stats.ttest_1samp(logs, 0).pvalue, rel=1e-9
    )
    p = (
        everything.p.reindex(claims.index).fillna(1.0).to_numpy()
    )  # what was open stays so
    settled, kept = claims.verdict.to_numpy() != "not settled", set()
    for i, at in enumerate(np.argsort(p)):
        if p[at] > 0.05 / (len(p) - i):
            break
        kept.add(at)
    assert set(lost.index) == {i for i in range(len(p)) if settled[i] and i not in kept}


def test_holm_takes_what_has_no_spread_as_it_is():
    level = {"Optimal": 1.0, "AdaScale": 1.0, "EqualAlloc": 2.0}
    made = table(**{name: np.full((2, 3), value) for name, value in level.items()})
    p = holm(
        paper_claims(made, ("EqualAlloc",), ()).assign(verdict="holds"), level=-1.0
    ).p
    claims = paper_claims(made, ("EqualAlloc",), ())
    assert (p[claims.claim == "ahead"] == 0).all()  # twice as much, everywhere
    assert (
        p[claims.claim == "narrows"] == 1
    ).all()  # exactly the limit, which tells nothing
