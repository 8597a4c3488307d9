r"""What the paper says of its leakage figures, statement by statement, each computed as holding or not.

A statement is put as a ratio of two leakages of the **same** realisation, and judged by the 95 % t interval of the
ratio's logarithm: it *holds* where the whole interval is on its side, *fails* where the whole interval is on the other,
and is *not settled* where the interval contains the limit.  Where a difference is asked about, which need not be
positive and has no logarithm, the share of realisations is judged by its exact binomial interval.  Every interval
stands for itself: nothing is corrected for their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from adascale.statistics import log_interval

CLOSE = 1.2
"""The ratio up to which we call a leakage "close to Optimal", within 20 %."""

QUOTED_ACCURACY = {"mnist": (0.95, 0.90), "cifar10": (0.65, 0.60)}
"""The test accuracies (0 ... 1) that the paper quotes for the smallest and the largest :math:`\\nu` of its grids."""

MARKS = {"holds": "✓", "fails": "✗", "not settled": "?"}
"""How a table shows a verdict."""

METRICS = ("rdp", "epsilon", "exact")
"""The columns of a leakage table that are compared. They are RDP, DP by the Rényi conversion, and exact DP."""


def compare(table: pd.DataFrame, metric: str, above: str | Sequence[str], below: str | Sequence[str]) -> pd.DataFrame:
    r"""The leakage of one policy over that of another, realisation by realisation.

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`~adascale.comparison.leakage_table` makes it.
    metric : {"rdp", "epsilon", "exact"}
        Which leakage.
    above, below : str or sequence of str
        Names of policies: the numerator and the denominator.  Of several the one that leaks most counts, in each
        realisation.

    Returns
    -------
    pandas.DataFrame
        One row a budget: ``nu, realisations, ratio, low, high`` (geometric mean and 95 % t interval on the logarithm)
        and ``share``, of the realisations in which the ratio is above 1.

    Raises
    ------
    ValueError
        If a policy or the metric is not in the table.
    """
    ratio = _ratio(table, metric, above, below)
    return pd.DataFrame([_row(nu, values) for nu, values in ratio.groupby("nu")], columns=_COLUMNS)


def paper_claims(
    table: pd.DataFrame,
    drawn: Sequence[str] = ("EqualAlloc", "EstimFuture"),
    others: Sequence[str] = ("PowerControl", "LyapunovPowerControl"),
) -> pd.DataFrame:
    r"""The paper's statements on a leakage figure, each with its verdict.

    =============== =============================== ========================================================
    ``claim``       the paper                       computed, at each :math:`\nu`
    =============== =============================== ========================================================
    ahead           AdaScale reduces the leakage    benchmark over AdaScale is above 1
    close           it performs close to Optimal    AdaScale over Optimal is below 1.2
    near            benchmarks approach Optimal     at the largest nu, benchmark over Optimal is below 1.2
    narrows         the gap narrows as nu increases the ratio of *ahead* over that at the next nu is above 1
    narrows in nats the same, of the difference     it is larger than at the next nu in most realisations
    rises           leakage rises as nu decreases   a policy's leakage over that at the next nu is above 1
    higher          [19] and [28] leak more RDP     their leakage over the largest drawn is above 1
    =============== =============================== ========================================================

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`~adascale.comparison.leakage_table` makes it, with AdaScale, Optimal and all of the benchmarks.  With
        a column ``exact`` (:func:`~adascale.paper.exact.with_exact`) every statement on DP is judged by it as well.
    drawn : sequence of str
        The benchmarks of both panels.
    others : sequence of str
        The benchmarks that the paper leaves out of its RDP panel.

    Returns
    -------
    pandas.DataFrame
        ``claim, metric, policy, nu, realisations, ratio, low, high, share, verdict``; the last of "holds", "fails",
        "not settled".  For *narrows in nats* ``ratio`` is that share and ``low, high`` its Clopper-Pearson interval.
    """
    rows = []

    def add(
        claim: str, metric: str, policy: str, compared: pd.DataFrame, limit: float = 1.0, above: bool = True
    ) -> None:
        rows.append(judge(compared, limit, above=above).assign(claim=claim, metric=metric, policy=policy))

    benchmarks = (*drawn, *others)
    largest = table[table["nu"] == table["nu"].max()]
    for metric in (name for name in METRICS if name in table):
        leakage = _wide(table, metric)
        for policy in benchmarks:
            add("ahead", metric, policy, compare(table, metric, policy, "AdaScale"))
        add("close", metric, "AdaScale", compare(table, metric, "AdaScale", "Optimal"), CLOSE, above=False)
        for policy in drawn if metric == "rdp" else benchmarks:  # what the paper's panels show
            add("near", metric, policy, compare(largest, metric, policy, "Optimal"), CLOSE, above=False)
            add("narrows", metric, policy, _steps(_ratio(table, metric, policy, "AdaScale").unstack("nu")))
            gap = (leakage[policy] - leakage["AdaScale"]).unstack("nu")
            add("narrows in nats", metric, policy, _shares(gap), 0.5)
        for policy in ("Optimal", "AdaScale", *benchmarks):
            add("rises", metric, policy, _steps(leakage[policy].unstack("nu")))
    for policy in others:
        add("higher", "rdp", policy, compare(table, "rdp", policy, drawn))
    claims = pd.concat(rows, ignore_index=True)
    return claims[["claim", "metric", "policy", *claims.columns.drop(["claim", "metric", "policy"])]]


def judge(compared: pd.DataFrame, limit: float = 1.0, *, above: bool = True) -> pd.DataFrame:
    """A comparison with a column ``verdict``: whether the ratio is above (or below) the limit, by its interval."""
    higher, lower = compared["low"] > limit, compared["high"] < limit
    holds, fails = (higher, lower) if above else (lower, higher)
    return compared.assign(verdict=np.select([holds, fails], ["holds", "fails"], "not settled"))


def verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """The claims as a table to read: a row a statement and policy, a column a budget, ratio and mark in each.

    ✓ holds, ✗ fails, ? not settled.  Where a statement holds on average but in fewer than nine of ten realisations,
    that share stands behind.
    """
    words = (
        claims.ratio.map(lambda ratio: f"{ratio:#.3g}".rstrip(".")) + "\N{NO-BREAK SPACE}" + claims.verdict.map(MARKS)
    )
    split = (
        (claims.verdict == "holds") & claims.claim.isin(["ahead", "narrows", "rises", "higher"]) & (claims.share < 0.9)
    )
    words = words.where(~split, words + claims.share.map(" ({:.0%})".format))
    labels = claims.metric.map({"rdp": "RDP", "epsilon": "DP", "exact": "exact DP"})
    long = claims.assign(text=words, leakage=labels)
    rows = ["claim", "leakage", "policy"]
    wide = long.pivot(index=rows, columns="nu", values="text").reindex(long[rows].drop_duplicates()).fillna("")
    return wide.rename(columns="{:g}".format)


def side_by_side(claims: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    r"""The same statements under several protocols, beside each other.

    Parameters
    ----------
    claims : mapping
        Names of protocols, each with its :func:`paper_claims` of the same policies and budgets.

    Returns
    -------
    pandas.DataFrame
        A row a statement, leakage, policy and budget: ``claim, metric, policy, nu``; for every protocol its ratio and
        verdict, columns ``(protocol, "ratio")`` and ``(protocol, "verdict")``; the first four are the index.

    Raises
    ------
    ValueError
        If two protocols are not judged on the same statements.
    """
    keys = ["claim", "metric", "policy", "nu"]
    parts = {name: each.set_index(keys)[["ratio", "verdict"]] for name, each in claims.items()}
    first = next(iter(parts.values()))
    for name, part in parts.items():
        if len(part) != len(first) or not part.index.isin(first.index).all():
            raise ValueError(f"{name} must have the statements of {next(iter(parts))}")
    return pd.concat(parts, axis=1)


def verdict_counts(beside: pd.DataFrame) -> pd.DataFrame:
    """Of :func:`side_by_side` a table to read: a row a statement, a column a protocol, and how often each verdict."""
    verdict = beside.xs("verdict", axis=1, level=1)

    def counted(column: pd.Series) -> str:
        counts = [f"{(column == name).sum()}\N{NO-BREAK SPACE}{mark}" for name, mark in MARKS.items()]
        return "  ".join(each for each in counts if not each.startswith("0"))

    order = verdict.index.get_level_values("claim").unique()
    return verdict.groupby("claim").agg(counted).reindex(order)


def _wide(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    known = tuple(name for name in METRICS if name in table)
    if metric not in known:
        raise ValueError(f"metric must be one of {known}, got {metric!r}")
    return table.pivot(index=["nu", "seed"], columns="policy", values=metric)


def _ratio(table: pd.DataFrame, metric: str, above: str | Sequence[str], below: str | Sequence[str]) -> pd.Series:
    values = _wide(table, metric)
    sides = [[side] if isinstance(side, str) else list(side) for side in (above, below)]
    missing = sorted({*sides[0], *sides[1]} - {*values})
    if missing:
        raise ValueError(f"the table has no policy {missing[0]!r}, only {', '.join(values)}")
    return values[sides[0]].max(axis=1, skipna=False) / values[sides[1]].max(axis=1, skipna=False)


_COLUMNS = ["nu", "realisations", "ratio", "low", "high", "share"]


def _row(nu: float, ratio: pd.Series) -> tuple[Any, ...]:
    ratio = ratio.dropna()  # a policy may have missed its budget in some realisation
    if not len(ratio):
        return nu, 0, *[np.nan] * 4
    return nu, len(ratio), *log_interval(ratio), (ratio > 1).mean()


def _steps(values: pd.DataFrame) -> pd.DataFrame:
    """Every budget against the next larger one: value over value, of columns one a budget."""
    return pd.DataFrame([_row(nu, values[nu] / values[larger]) for nu, larger in pairwise(values)], columns=_COLUMNS)


def _shares(values: pd.DataFrame) -> pd.DataFrame:
    """How often a value is larger at a budget than at the next, with its exact 95 % interval."""
    rows = []
    for nu, larger in pairwise(values):
        step = (values[nu] - values[larger]).dropna()
        if len(step):
            interval = stats.binomtest(int((step > 0).sum()), len(step)).proportion_ci(0.95)
            share = (step > 0).mean()
            rows.append((nu, len(step), share, *interval, share))
        else:
            rows.append((nu, 0, *[np.nan] * 4))
    return pd.DataFrame(rows, columns=_COLUMNS)
