r"""What the paper says of its leakage figures, statement by statement, each computed as holding or not.

A statement is put as a ratio of two leakages of the **same** realisations, and evaluated by a 95 % interval: it *holds*
where the whole interval is on its side, *fails* where the whole interval is on the other, and is *not settled* where
the interval contains the limit (:ref:`sec-claims`).  Every interval stands for itself; :func:`holm` says what a
correction for their number would unsettle.
"""

from collections.abc import Callable, Mapping, Sequence
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

    A row per budget: ``nu``, what :func:`averaged` gives of geometric means, ``realisations, ratio, low, high, share``.
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
    of_gaps = average if average == "ratio of means" else "share"
    for metric in (name for name in METRICS if name in table):
        leaked = table.pivot(index="seed", columns=["policy", "nu"], values=metric)
        for *row, tops, bottoms in _statements(leaked, drawn, others, metric == "rdp"):
            found = (
                averaged(tops, bottoms, average)
                if bottoms
                else averaged(tops, (), of_gaps, above=0)
            )
            rows.append((row[0], metric, *row[1:], *found))
    rows.sort(key=lambda row: row[0] == "higher")  # at the end
    claims = pd.DataFrame(rows, columns=["claim", "metric", "policy", *_COLUMNS])
    gap = 0.5 if of_gaps == "share" else 0.0
    limits = {"close": CLOSE, "near": CLOSE, "narrows in nats": gap}
    limit = claims["claim"].map(limits).fillna(1.0)
    return evaluate(claims, limit, above=~claims["claim"].isin(["close", "near"]))


def _statements(leaked, drawn, others, in_rdp):
    """Yield claim, policy, nu, and the values of which averages are taken, over which others.

    ``leaked`` has a column per policy and budget.  The paper's RDP panel lacks ``others``; it says that they leak more.
    """
    own = leaked["AdaScale"]
    best = leaked["Optimal"]
    *_, last = budgets = sorted(own)
    steps = [*pairwise(budgets)]
    benchmarks = (*drawn, *others)
    for policy, nu in product(benchmarks, budgets):
        yield "ahead", policy, nu, [leaked[policy, nu]], [own[nu]]
    for nu in budgets:
        yield "close", "AdaScale", nu, [own[nu]], [best[nu]]
    for policy in drawn if in_rdp else benchmarks:
        top = leaked[policy]
        gap = top - own
        yield "near", policy, last, [top[last]], [best[last]]
        for now, later in steps:
            yield "narrows", policy, now, [top[now], own[later]], [top[later], own[now]]
        for now, later in steps:
            yield "narrows in nats", policy, now, [gap[now] - gap[later]], ()
    for policy, (now, later) in product(("Optimal", "AdaScale", *benchmarks), steps):
        yield "rises", policy, now, [leaked[policy, now]], [leaked[policy, later]]
    for policy, nu in product(others if in_rdp else (), budgets):
        # the one that leaks most, in each realisation
        most = leaked[[(name, nu) for name in drawn]].max(axis=1, skipna=False)
        yield "higher", policy, nu, [leaked[policy, nu]], [most]


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
    p = _p_values(claims)
    rank = np.argsort(p, kind="stable")
    rejected = np.cumprod(p[rank] <= level / np.arange(len(p), 0, -1))
    still = rejected[np.argsort(rank)] == 1
    return claims.assign(p=p)[~still & (claims["verdict"] != "not settled")]


def _p_values(claims):
    """Of rows of :func:`paper_claims`, two-sided; 1 where a row has no interval."""
    n = claims["realisations"]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log(claims["high"] / claims["low"]) / 2 / stdtrit(n - 1, 0.975)
        distance = abs(np.log(claims["ratio"] / claims["limit"]))
        p = 2 * stdtr(n - 1, -distance / error)
    for row in claims[(claims["claim"] == "narrows in nats") & (n > 0)].itertuples():
        wins = round(row.share * row.realisations)
        p[row.Index] = scipy.stats.binomtest(wins, row.realisations, row.limit).pvalue
    return p.fillna(1.0).to_numpy()


def verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims as a table to read: ratio and mark, with a row per statement and policy, a column per budget.

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
    statements on accuracy or without.  A row per statement in words, and data set, if there are several; a column per
    protocol; how often each verdict, over metrics, benchmarks and budgets.
    """
    long = pd.concat(claims, names=["dataset", "protocol"])
    datasets, protocols = (
        list(dict.fromkeys(names)) for names in zip(*claims, strict=True)
    )
    table = (
        long[long["metric"] != "exact"]
        .groupby(["claim", "dataset", "protocol"])["verdict"]
        .agg(_counted)
        .unstack(fill_value="")[protocols]
    )
    shown = [pair for pair in product(STATEMENTS, datasets) if pair in table.index]
    table = table.loc[shown].rename(STATEMENTS, level=0)
    table = table.rename_axis(index=[None, None], columns=None)
    return table if len(datasets) > 1 else table.droplevel(1)


def _counted(verdicts):
    counts = verdicts.map(MARKS).value_counts()
    return "\N{NO-BREAK SPACE}".join(
        f"{counts[mark]}{mark}" for mark in MARKS.values() if mark in counts
    )


def averaged(
    tops: Sequence[ArrayLike],
    bottoms: Sequence[ArrayLike],
    average: str,
    above: float = 1.0,
) -> tuple[float, ...]:
    """Average the product of some values over that of others, paired by realisation, with a 95 % interval.

    The values have one entry per realisation; those with a NaN are left out.  *Geometric* is the geometric
    mean of the ratios, with Student's t interval of its logarithm, *arithmetic* their mean with Student's t interval,
    *median* with the interval of the sign test, and *share* says how many are above ``above``, with the Clopper-Pearson
    interval.  *Ratio of means* is that of the mean values, which curves of means show and a few very large values rule,
    with a percentile interval of the paired bootstrap, too narrow for few.

    Returns
    -------
    tuple of float
        ``realisations, ratio, low, high, share``, the last of the realisations in which the ratio is above ``above``.
    """
    # a policy may have missed its budget in some realisation
    values = np.column_stack([*tops, *bottoms])
    values = values[~np.isnan(values).any(axis=1)]
    n = len(values)
    if not n:
        return 0, *[np.nan] * 4

    def over(leakages):
        top, bottom = np.split(leakages, [len(tops)], axis=-1)
        return top.prod(axis=-1) / bottom.prod(axis=-1)

    ratio = over(values)
    wins = int((ratio > above).sum())
    found: tuple[float, ...]
    if average == "share":
        found = wins / n, *scipy.stats.binomtest(wins, n).proportion_ci(0.95)
    elif average == "ratio of means":
        ends = np.quantile(over(_resampled(n) @ values), [0.025, 0.975])
        found = over(values.mean(axis=0)), *(ends if n > 1 else (-np.inf, np.inf))
    else:
        found = _AVERAGES[average](ratio)
    return n, *found, wins / n


def _median(values):
    ends = scipy.stats.quantile_test(values, q=1, p=0.5).confidence_interval(0.95)
    # none of fewer than six
    low = np.nan_to_num(ends.low, nan=0)
    high = np.nan_to_num(ends.high, nan=np.inf)
    return np.median(values), low, high


_AVERAGES: dict[str, Callable[..., tuple[float, ...]]] = {
    "geometric": log_interval,
    "arithmetic": interval,
    "median": _median,
}


@cache
def _resampled(size):
    """Return the weight of each realisation in every resample of a bootstrap, shape (10,000, size)."""
    return np.random.default_rng(0).multinomial(size, [1 / size] * size, 10_000) / size
