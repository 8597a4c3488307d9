r"""What the paper says of its leakage figures, statement by statement, each computed as holding or not.

A statement is put as a ratio of two leakages of the **same** realisations, and evaluated by a 95 % interval: it *holds*
where the whole interval is on its side, *fails* where the whole interval is on the other, and is *not settled* where
the interval contains the limit (:ref:`sec-claims`).  Every interval stands for itself; :func:`holm` says what a
correction for their number would unsettle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise, product

import numpy as np
import pandas as pd
import scipy  # which imports its modules where they are named, as they are slow to import
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from adascale.statistics import interval, log_interval

CLOSE = 1.2
"""The ratio up to which we call a leakage "close to Optimal", within 20 %."""

QUOTED_ACCURACY = {"mnist": (0.95, 0.90), "cifar10": (0.65, 0.60)}
"""The test accuracies (0 ... 1) that the paper quotes for the smallest and the largest :math:`\\nu` of its grids."""

MARKS = {"holds": "✓", "fails": "✗", "not settled": "?"}
"""How a table shows a verdict."""

STATEMENTS = {
    "ahead": "AdaScale leaks less than each benchmark",
    "close": f"AdaScale leaks at most {100 * (CLOSE - 1):.0f} % more than the optimum",
    "narrows": "its lead, as a ratio, shrinks as ν grows",
    "narrows in nats": "its lead, as a difference, shrinks as ν grows",
    "near": f"at the largest ν each benchmark leaks at most {100 * (CLOSE - 1):.0f} % more than the optimum",
    "rises": "every method leaks more as ν falls",
    "higher": "Liu & Simeone's and Shi et al.'s methods leak more RDP than the other benchmarks",
    "ends": "accuracy at the two ends of ν is as quoted",
    "falls": "accuracy falls as ν grows",
    "amount": "… and by as much as quoted",
    "same": "the other methods learn as well as AdaScale",
}
"""The statements of :func:`paper_claims`, and of :func:`~companion.training.accuracy.accuracy_claims`, in words."""

METRICS = {"rdp": "RDP", "epsilon": "DP", "exact": "exact DP"}
"""The columns of a leakage table that are compared. They are RDP, DP by the Rényi conversion, and exact DP."""

_COLUMNS = ["nu", "realisations", "ratio", "low", "high", "share"]


def compare(table: pd.DataFrame, metric: str, above: str, below: str) -> pd.DataFrame:
    r"""Return the leakage of one policy over that of another, on the same realisations of a leakage table.

    A row a budget: ``nu``, what :func:`averaged` gives of geometric means, ``realisations, ratio, low, high, share``.
    """
    leaked = table.pivot(index="seed", columns=["policy", "nu"], values=metric)
    rows = [
        (nu, *averaged([leaked[above, nu]], [leaked[below, nu]], "geometric"))
        for nu in sorted(leaked[above])
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def paper_claims(
    table: pd.DataFrame,
    drawn: Sequence[str] = ("EqualAlloc", "EstimFuture"),
    others: Sequence[str] = ("PowerControl", "LyapunovPowerControl"),
    average: str = "geometric",
) -> pd.DataFrame:
    r"""Return the paper's statements on a leakage figure, each with its verdict, by every metric that the table has.

    Benchmarks are those of both panels, ``drawn``, and ``others``, which the paper leaves out of its RDP panel.  In
    words the statements are in :data:`STATEMENTS`.  *Narrows in nats* is a difference, which need not be positive and
    has no logarithm: its ``ratio`` is the share of realisations in which it falls to the next budget, with the
    Clopper-Pearson interval; or, with ratios of means, the mean by which it falls, in the leakage's own unit.

    Returns
    -------
    pandas.DataFrame
        ``claim, metric, policy, nu, realisations, ratio, low, high, share, limit, verdict``; the last of "holds",
        "fails", "not settled".
    """
    rows = []
    means = average == "ratio of means"
    for metric in (name for name in METRICS if name in table):
        leaked = table.pivot(index="seed", columns=["policy", "nu"], values=metric)
        rows += [
            (claim, metric, policy, nu, *averaged(tops, bottoms, average))
            if bottoms
            else (claim, metric, policy, nu, *(_mean if means else _share)(*tops))
            for claim, policy, nu, tops, bottoms in _statements(
                leaked, drawn, others, metric == "rdp"
            )
        ]
    rows.sort(key=lambda row: row[0] == "higher")  # at the end
    claims = pd.DataFrame(rows, columns=["claim", "metric", "policy", *_COLUMNS])
    limits = {"close": CLOSE, "near": CLOSE, "narrows in nats": 0.0 if means else 0.5}
    limit = claims["claim"].map(limits).fillna(1.0)
    return evaluate(claims, limit, above=~claims["claim"].isin(["close", "near"]))


def _statements(leaked, drawn, others, in_rdp):
    """Yield claim, policy, nu, and the values of which averages are taken, over which others.

    ``leaked`` has a column a policy and budget.  The paper's RDP panel lacks ``others``, which it says leak more there.
    """
    own = leaked["AdaScale"]
    best = leaked["Optimal"]
    budgets = sorted(own)
    steps = [*pairwise(budgets)]
    for policy in (*drawn, *others):
        for nu in budgets:
            yield "ahead", policy, nu, [leaked[policy, nu]], [own[nu]]
    for nu in budgets:
        yield "close", "AdaScale", nu, [own[nu]], [best[nu]]
    for policy in drawn if in_rdp else (*drawn, *others):
        top = leaked[policy]
        yield "near", policy, budgets[-1], [top[budgets[-1]]], [best[budgets[-1]]]
        yield from _narrowing(policy, top, own, steps)
    for policy in ("Optimal", "AdaScale", *drawn, *others):
        for now, later in steps:
            yield "rises", policy, now, [leaked[policy, now]], [leaked[policy, later]]
    for policy in others if in_rdp else ():
        for nu in budgets:
            # the one that leaks most, in each realisation
            most = leaked[[(name, nu) for name in drawn]].max(axis=1, skipna=False)
            yield "higher", policy, nu, [leaked[policy, nu]], [most]


def _narrowing(policy, top, own, steps):
    """Yield what :func:`_statements` does of the gap between a policy and AdaScale: as a ratio, and in nats."""
    for now, later in steps:
        yield "narrows", policy, now, [top[now], own[later]], [top[later], own[now]]
    gap = top - own
    for now, later in steps:
        yield "narrows in nats", policy, now, [(gap[now] - gap[later]).dropna()], ()


def evaluate(
    compared: pd.DataFrame, limit: ArrayLike = 1.0, *, above: ArrayLike = True
) -> pd.DataFrame:
    """Add ``limit`` and ``verdict`` to a comparison: whether the interval is above (or below) the limit."""
    sides = compared["low"] > limit, compared["high"] < limit
    holds, fails = (np.where(above, *order) for order in (sides, sides[::-1]))
    return compared.assign(
        limit=limit,
        verdict=np.select([holds, fails], ["holds", "fails"], "not settled"),
    )


def holm(claims: pd.DataFrame, level: float = 0.05) -> pd.DataFrame:
    r"""Return the settled statements that Holm's correction for their number would unsettle, with their p.

    The p-values :math:`p_{(1)} \le p_{(2)} \le \dots` of N statements, of :func:`paper_claims` with geometric averages,
    are compared with :math:`0.05 / (N - i + 1)`, and from the first one above it on, none is settled (Holm, 1979).
    Where an interval is Student's, p is that of the t test which the interval inverts; for a share, of the exact
    binomial test.
    """
    p = np.array([_p_value(row) for row in claims.itertuples()])
    rank = np.argsort(p, kind="stable")
    rejected = np.cumprod(p[rank] <= level / np.arange(len(p), 0, -1)).astype(bool)
    still = np.zeros(len(p), dtype=bool)
    still[rank] = rejected
    return claims.assign(p=p)[~still & (claims["verdict"] != "not settled")]


def _p_value(row):
    """Of a row of :func:`paper_claims`, two-sided."""
    if not row.realisations > 1:
        return 1.0
    if row.claim == "narrows in nats":
        wins = round(row.share * row.realisations)
        return float(scipy.stats.binomtest(wins, row.realisations, row.limit).pvalue)
    freedom = row.realisations - 1
    error = np.log(row.high / row.low) / 2 / stdtrit(freedom, 0.975)
    if not error > 0:  # no spread at all, or no interval
        return 0.0 if error == 0 and row.ratio != row.limit else 1.0
    return float(2 * stdtr(freedom, -abs(np.log(row.ratio / row.limit)) / error))


def verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims as a table to read: a row a statement and policy, a column a budget, ratio and mark in each.

    ✓ holds, ✗ fails, ? not settled.  Where fewer than nine of ten realisations agree with ✓ or ✗, which are said of the
    average, their share stands behind.
    """
    words = (
        claims.ratio.map(lambda ratio: f"{ratio:#.3g}".rstrip("."))
        + "\N{NO-BREAK SPACE}"
        + claims.verdict.map(MARKS)
    )
    agree = claims.share.where(claims.verdict != "fails", 1 - claims.share)
    of_ratios = claims.claim.isin(["ahead", "narrows", "rises", "higher"])
    split = (claims.verdict != "not settled") & of_ratios & (agree < 0.9)
    words = words.where(~split, words + agree.map(" ({:.0%})".format))
    long = claims.assign(text=words, leakage=claims.metric.map(METRICS))
    rows = ["claim", "leakage", "policy"]
    wide = (
        long.pivot(index=rows, columns="nu", values="text")
        .reindex(long[rows].drop_duplicates())
        .fillna("")
    )
    return wide.rename(columns="{:g}".format)


def overview(claims: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame:
    r"""Return every statement beside what became of it, on several data sets and under several protocols.

    Of each pair of a data set and a protocol :func:`paper_claims`, of which the paper's two metrics are counted, with
    statements on accuracy or without.  A row a statement in words, and data set, if there are several; a column a
    protocol; how often each verdict, over metrics, benchmarks and budgets.
    """
    counts = {
        pair: table_of_claims[table_of_claims["metric"] != "exact"]
        .groupby("claim")["verdict"]
        .agg(_counted)
        for pair, table_of_claims in claims.items()
    }
    columns = list(dict.fromkeys(protocol for _, protocol in claims))
    table = (
        pd.DataFrame(counts)
        .rename_axis(columns=["dataset", None])
        .stack("dataset")[columns]
    )
    datasets = list(dict.fromkeys(dataset for dataset, _ in claims))
    table = table.reindex(
        [pair for pair in product(STATEMENTS, datasets) if pair in table.index]
    ).fillna("")
    table = table.rename(index=STATEMENTS, level=0).rename_axis(index=[None, None])
    return table if len(datasets) > 1 else table.droplevel(1)


def _counted(column):
    counts = {mark: (column == name).sum() for name, mark in MARKS.items()}
    return "\N{NO-BREAK SPACE}".join(
        f"{count}{mark}" for mark, count in counts.items() if count
    )


def averaged(
    tops: Sequence[ArrayLike], bottoms: Sequence[ArrayLike], average: str
) -> tuple[float, ...]:
    """Average the product of some values over that of others, paired by realisation, with a 95 % interval.

    The values are > 0, with one entry per realisation; those with a NaN are left out.  *Geometric* is the geometric
    mean of the ratios, with Student's t interval of its logarithm, *arithmetic* their mean with Student's t interval,
    *median* with the interval of the sign test.  *Ratio of means* is that of the mean values, which curves of means
    show and a few very large values rule, with a percentile interval of the paired bootstrap, too narrow for few.

    Returns
    -------
    tuple of float
        ``realisations, ratio, low, high, share``, the last of the realisations in which the ratio is above 1.
    """
    # a policy may have missed its budget in some realisation
    values = np.column_stack([*tops, *bottoms])
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        return 0, *[np.nan] * 4

    def over(leakages):
        return leakages[..., : len(tops)].prod(axis=-1) / leakages[
            ..., len(tops) :
        ].prod(axis=-1)

    ratio = over(values)
    share = (ratio > 1).mean()
    if average in ("geometric", "arithmetic"):
        return (
            len(ratio),
            *(log_interval if average == "geometric" else interval)(ratio),
            share,
        )
    if average == "median":
        # NaN of fewer than six
        ends = scipy.stats.quantile_test(ratio, q=1, p=0.5).confidence_interval(0.95)
        return (
            len(ratio),
            np.median(ratio),
            np.nan_to_num(ends.low, nan=0),
            np.nan_to_num(ends.high, nan=np.inf),
            share,
        )
    ends = (
        np.quantile(over(_resampled(len(ratio)) @ values), [0.025, 0.975])
        if len(ratio) > 1
        else (0.0, np.inf)
    )
    return len(ratio), over(values.mean(axis=0)), *ends, share


@cache
def _resampled(size):
    """Return the weight of each realisation in every resample of a bootstrap, shape (10,000, size)."""
    return np.random.default_rng(0).multinomial(size, [1 / size] * size, 10_000) / size


def _mean(step):
    """By how much the mean of a value falls, with its paired bootstrap interval."""
    if len(step) < 2:
        return len(step), *[np.nan] * 4
    ends = np.quantile(_resampled(len(step)) @ step.to_numpy(), [0.025, 0.975])
    return len(step), step.mean(), *ends, (step > 0).mean()


def _share(step):
    """Compute how often a value falls, with its exact 95 % interval."""
    if not len(step):
        return 0, *[np.nan] * 4
    share = (step > 0).mean()
    return (
        len(step),
        share,
        *scipy.stats.binomtest(int((step > 0).sum()), len(step)).proportion_ci(0.95),
        share,
    )
