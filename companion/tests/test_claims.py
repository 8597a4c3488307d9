"""Statements about leakages, evaluated by intervals of paired ratios."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion.claims import compare, evaluate, holm, paper_claims


def table(**leakages):
    """A leakage table of one or more budgets: leakages[policy] has a row per budget, an entry per seed."""
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


def test_a_realisation_without_a_result_is_left_out_and_counted():
    leaked = table(A=[2.0, np.nan, 2.0], B=[1.0, 1.0, 1.0])
    assert compare(leaked, "rdp", "A", "B").iloc[0].realisations == 2
    none = compare(table(A=[np.nan, np.nan], B=[1.0, 1.0]), "rdp", "A", "B")
    assert none.iloc[0].realisations == 0
    assert evaluate(none).verdict.item() == "not settled"


def test_every_statement_is_evaluated_in_its_own_direction():
    leaked = leakages(LEVELS, 1e-3, (2, 20), np.random.default_rng(2))
    choice = {"drawn": ("EqualAlloc",), "others": ("PowerControl",)}
    claims = paper_claims(leaked, **choice)
    verdict = claims.set_index(["claim", "metric", "policy", "nu"]).verdict.to_dict()
    assert {row: verdict.get(row) for row in EXPECTED} == EXPECTED
    ada = leaked.policy == "AdaScale"
    worse = paper_claims(leaked.assign(rdp=leaked.rdp * (1 + ada)), **choice)
    rdp = worse[worse.metric == "rdp"].set_index(["claim", "policy", "nu"]).verdict
    rdp = rdp.sort_index()
    assert (rdp["close", "AdaScale"] == "fails").all()
    assert rdp["ahead", "EqualAlloc", 0.02] == "fails"


def leakages(levels, scale, shape, rng):
    """A table whose leakages scatter about these levels."""
    values = {
        name: np.reshape(level, (-1, 1)) * np.exp(rng.normal(scale=scale, size=shape))
        for name, level in levels.items()
    }
    return table(**values)


LEVELS = {
    "Optimal": (1, 0.5),
    "AdaScale": (1.1, 0.52),
    "EqualAlloc": (4, 1),
    "PowerControl": (8, 1.01),
}


EXPECTED = {
    ("ahead", "rdp", "PowerControl", 0.01): "holds",
    ("close", "rdp", "AdaScale", 0.01): "holds",
    ("rises", "epsilon", "AdaScale", 0.01): "holds",
    ("ahead", "rdp", "EqualAlloc", 0.01): "holds",
    ("narrows", "rdp", "EqualAlloc", 0.01): "holds",
    ("narrows in nats", "rdp", "EqualAlloc", 0.01): "holds",
    ("higher", "rdp", "PowerControl", 0.01): "holds",
    ("ahead", "epsilon", "PowerControl", 0.02): "holds",
    ("near", "rdp", "EqualAlloc", 0.02): "fails",
    # the paper's RDP panel does not draw it
    ("narrows", "rdp", "PowerControl", 0.01): None,
    # asked at the largest budget alone
    ("near", "rdp", "EqualAlloc", 0.01): None,
    # there is no next budget
    ("narrows", "rdp", "EqualAlloc", 0.02): None,
}


def test_holm_unsettles_what_its_definition_does():
    levels = {"Optimal": 0.9, "AdaScale": 1.0, "EqualAlloc": 1.03, "PowerControl": 3.0}
    leaked = leakages(levels, 0.08, (3, 30), np.random.default_rng(5))
    claims = paper_claims(leaked, ("EqualAlloc",), ("PowerControl",))
    lost = holm(claims)
    assert 0 < len(lost) < len(claims) / 2
    # the p-value is that of the t test which the interval of a ratio inverts
    p = holm(claims, level=1e-300).p.reindex(claims.index).fillna(1.0).to_numpy()
    about = claims[["claim", "metric", "policy", "nu"]].to_numpy().tolist()
    rdp = leaked[leaked.nu == 0.01].set_index("policy").rdp
    logs = np.log(rdp["EqualAlloc"].to_numpy() / rdp["AdaScale"].to_numpy())
    pvalue = stats.ttest_1samp(logs, 0).pvalue
    number = about.index(["ahead", "rdp", "EqualAlloc", 0.01])
    assert p[number] == pytest.approx(pvalue, rel=1e-9)
    # step by step, up to the first that is above its level
    order = np.argsort(p)
    above = p[order] > 0.05 / np.arange(len(p), 0, -1)
    unsettled = {*order[above.argmax() :]}
    settled = claims.index[claims.verdict != "not settled"]
    assert {*lost.index} == {*settled} & unsettled
