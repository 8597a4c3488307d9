r"""What the paper says of its leakage figures, statement by statement, each computed as holding or not.

A statement is put as a ratio of two leakages of the **same** realisations, and evaluated by a 95 % interval: it *holds*
where the whole interval is on its side, *fails* where the whole interval is on the other, and is *not settled* where
the interval contains the limit.  The paper's statements are evaluated by two of the averages.

``geometric``
    The mean of the ratio's logarithm over the realisations, with Student's t interval.  Where a difference is asked
    about, which need not be positive and has no logarithm, the share of realisations is evaluated by its exact binomial
    interval.
``ratio of means``
    The ratio of the mean leakages, which is what curves of means show, with a paired bootstrap interval.  A few
    realisations with very large leakages rule it, and an interval from a hundred of them is rather too narrow.

Every interval stands for itself; :func:`holm` says what a correction for their number would unsettle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

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

METRICS = ("rdp", "epsilon", "exact")
"""The columns of a leakage table that are compared. They are RDP, DP by the Rényi conversion, and exact DP."""

AVERAGES = ("geometric", "arithmetic", "median", "ratio of means")
"""The ways to average a ratio over the realisations. The first three average the ratios, the last the values."""

_RESAMPLES = 10_000


def compare(
    table: pd.DataFrame, metric: str, above: str | Sequence[str], below: str | Sequence[str], average: str = "geometric"
) -> pd.DataFrame:
    r"""The leakage of one policy over that of another, on the same realisations.

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`~adascale.comparison.leakage_table` makes it.
    metric : {"rdp", "epsilon", "exact"}
        Which leakage.
    above, below : str or sequence of str
        Names of policies: the numerator and the denominator.  Of several the one that leaks most counts, in each
        realisation.
    average : {"geometric", "arithmetic", "median", "ratio of means"}
        See :func:`averaged`.

    Returns
    -------
    pandas.DataFrame
        One row a budget: ``nu, realisations, ratio, low, high`` (with its 95 % interval) and ``share``, of the
        realisations in which the ratio is above 1.
    """
    return _compared(_wide(table, metric), above, below, average)


def _compared(
    leakage: pd.DataFrame, above: str | Sequence[str], below: str | Sequence[str], average: str
) -> pd.DataFrame:
    top, bottom = (_side(leakage, side).unstack("nu") for side in (above, below))
    return pd.DataFrame([(nu, *averaged([top[nu]], [bottom[nu]], average)) for nu in top], columns=_COLUMNS)


def paper_claims(
    table: pd.DataFrame,
    drawn: Sequence[str] = ("EqualAlloc", "EstimFuture"),
    others: Sequence[str] = ("PowerControl", "LyapunovPowerControl"),
    average: str = "geometric",
) -> pd.DataFrame:
    r"""The paper's statements on a leakage figure, each with its verdict.

    =============== =============================== ========================================================
    ``claim``       the paper                       computed, at each :math:`\nu`
    =============== =============================== ========================================================
    ahead           AdaScale reduces the leakage    benchmark over AdaScale is above 1
    close           it performs close to Optimal    AdaScale over Optimal is below 1.2
    near            benchmarks approach Optimal     at the largest nu, benchmark over Optimal is below 1.2
    narrows         the gap narrows as nu increases the ratio of *ahead* over that at the next nu is above 1
    narrows in nats the same, of the difference     it is larger than at the next nu: in most realisations, or (for
                                                    ratios of means) in the mean
    rises           leakage rises as nu decreases   a policy's leakage over that at the next nu is above 1
    higher          two methods leak more RDP       their leakage over the largest drawn is above 1
    =============== =============================== ========================================================

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`~adascale.comparison.leakage_table` makes it, with AdaScale, Optimal and all of the benchmarks.  With
        a column ``exact`` (:func:`~companion.leakage.exact.with_exact`) every statement on DP is evaluated by it too.
    drawn : sequence of str
        The benchmarks of both panels.
    others : sequence of str
        The benchmarks that the paper leaves out of its RDP panel.
    average : {"geometric", "ratio of means"}
        See :func:`averaged`.

    Returns
    -------
    pandas.DataFrame
        ``claim, metric, policy, nu, realisations, ratio, low, high, share, limit, verdict``; the last of "holds",
        "fails", "not settled".  For *narrows in nats* ``ratio`` is that share and ``low, high`` its Clopper-Pearson
        interval, or (arithmetic) the mean by which the difference falls, in the leakage's own unit.
    """
    rows = []

    def add(
        claim: str, metric: str, policy: str, compared: pd.DataFrame, limit: float = 1.0, above: bool = True
    ) -> None:
        evaluated = evaluate(compared, limit, above=above).assign(
            claim=claim, metric=metric, policy=policy, limit=limit
        )
        rows.append(evaluated)

    benchmarks = (*drawn, *others)
    for metric in (name for name in METRICS if name in table):
        leakage = _wide(table, metric)
        largest = leakage.loc[[table["nu"].max()]]
        for policy in benchmarks:
            add("ahead", metric, policy, _compared(leakage, policy, "AdaScale", average))
        add("close", metric, "AdaScale", _compared(leakage, "AdaScale", "Optimal", average), CLOSE, above=False)
        for policy in drawn if metric == "rdp" else benchmarks:  # what the paper's panels show
            add("near", metric, policy, _compared(largest, policy, "Optimal", average), CLOSE, above=False)
            add("narrows", metric, policy, _steps(leakage[policy], leakage["AdaScale"], average=average))
            gap = (leakage[policy] - leakage["AdaScale"]).unstack("nu")
            if average == "ratio of means":
                add("narrows in nats", metric, policy, _mean_steps(gap), 0.0)
            else:
                add("narrows in nats", metric, policy, _shares(gap), 0.5)
        for policy in ("Optimal", "AdaScale", *benchmarks):
            add("rises", metric, policy, _steps(leakage[policy], average=average))
    for policy in others:
        add("higher", "rdp", policy, compare(table, "rdp", policy, drawn, average))
    return pd.concat(rows, ignore_index=True)[["claim", "metric", "policy", *_COLUMNS, "limit", "verdict"]]


def evaluate(compared: pd.DataFrame, limit: float = 1.0, *, above: bool = True) -> pd.DataFrame:
    """A comparison with a column ``verdict``: whether the ratio is above (or below) the limit, by its interval."""
    higher, lower = compared["low"] > limit, compared["high"] < limit
    holds, fails = (higher, lower) if above else (lower, higher)
    return compared.assign(verdict=np.select([holds, fails], ["holds", "fails"], "not settled"))


def holm(claims: pd.DataFrame, level: float = 0.05) -> pd.DataFrame:
    r"""The settled statements that Holm's correction for the number of all of them would leave unsettled.

    The p-values :math:`p_{(1)} \le p_{(2)} \le \dots` of N statements are compared with :math:`0.05 / (N - i + 1)`, and
    from the first one above it on, none is settled (Holm, 1979).  Where an interval is Student's, p is that of the
    t test which the interval inverts; for a share, of the exact binomial test.

    Parameters
    ----------
    claims : pandas.DataFrame
        Of :func:`paper_claims` with geometric averages.
    level : float
        The probability of one or more wrong verdicts, at most.

    Returns
    -------
    pandas.DataFrame
        The rows concerned, with their ``p``.
    """
    if (claims.loc[claims["claim"] == "narrows in nats", "limit"] != 0.5).any():
        raise ValueError("claims must be of geometric averages, got arithmetic ones")
    p = np.array([_p_value(row) for row in claims.itertuples()])
    rank = np.argsort(p, kind="stable")
    kept = np.cumprod(p[rank] <= level / np.arange(len(p), 0, -1)).astype(bool)
    still = np.zeros(len(p), dtype=bool)
    still[rank] = kept
    return claims.assign(p=p)[~still & (claims["verdict"] != "not settled")]


def _p_value(row: Any) -> float:
    """Of a row of :func:`paper_claims`, two-sided."""
    if not row.realisations > 1:
        return 1.0
    if row.claim == "narrows in nats":
        wins = round(row.share * row.realisations)
        return float(stats.binomtest(wins, row.realisations, row.limit).pvalue)
    freedom = row.realisations - 1
    error = np.log(row.high / row.low) / 2 / stats.t.ppf(0.975, freedom)
    if not error > 0:  # no spread at all, or no interval
        return 0.0 if error == 0 and row.ratio != row.limit else 1.0
    return float(2 * stats.t.sf(abs(np.log(row.ratio / row.limit)) / error, freedom))


def verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """The claims as a table to read: a row a statement and policy, a column a budget, ratio and mark in each.

    ✓ holds, ✗ fails, ? not settled.  Where fewer than nine of ten realisations agree with ✓ or ✗, which are said of the
    average, their share stands behind.
    """
    words = (
        claims.ratio.map(lambda ratio: f"{ratio:#.3g}".rstrip(".")) + "\N{NO-BREAK SPACE}" + claims.verdict.map(MARKS)
    )
    agree = claims.share.where(claims.verdict != "fails", 1 - claims.share)
    of_ratios = claims.claim.isin(["ahead", "narrows", "rises", "higher"])
    split = (claims.verdict != "not settled") & of_ratios & (agree < 0.9)
    words = words.where(~split, words + agree.map(" ({:.0%})".format))
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
    order = verdict.index.get_level_values("claim").unique()
    return verdict.groupby("claim").agg(_counted).reindex(order).rename_axis(index=None, columns=None)


def overview(claims: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame:
    r"""Every statement beside what became of it, on several data sets and under several protocols.

    Parameters
    ----------
    claims : mapping
        Pairs of a data set and a protocol, each with its :func:`paper_claims`, of which the paper's two metrics are
        counted; with statements on accuracy or without.

    Returns
    -------
    pandas.DataFrame
        A row a statement that was evaluated, in words, and data set, if there are several; a column a protocol; how
        often each verdict, over metrics, benchmarks and budgets.
    """
    columns = {
        pair: each[each["metric"] != "exact"].groupby("claim")["verdict"].agg(_counted) for pair, each in claims.items()
    }
    counted = pd.DataFrame(columns)
    counted = counted.loc[[name for name in STATEMENTS if name in counted.index]].rename(index=STATEMENTS).fillna("")
    datasets = list(dict.fromkeys(dataset for dataset, _ in claims))
    rows = {
        (statement, dataset): counted.loc[statement, dataset] for statement in counted.index for dataset in datasets
    }
    table = pd.DataFrame(rows).T[list(dict.fromkeys(protocol for _, protocol in claims))]
    table = table[(table != "").any(axis=1)]
    return table if len(datasets) > 1 else table.droplevel(1)


def _counted(column: pd.Series) -> str:
    counts = {mark: (column == name).sum() for name, mark in MARKS.items()}
    return "\N{NO-BREAK SPACE}".join(f"{count}{mark}" for mark, count in counts.items() if count)


def _wide(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    known = tuple(name for name in METRICS if name in table)
    if metric not in known:
        raise ValueError(f"metric must be one of {known}, got {metric!r}")
    return table.pivot(index=["nu", "seed"], columns="policy", values=metric)


def _side(leakage: pd.DataFrame, side: str | Sequence[str]) -> pd.Series:
    """The leakage of a policy, or of the leakiest of several, by budget and realisation."""
    names = [side] if isinstance(side, str) else list(side)
    if missing := sorted({*names} - {*leakage}):
        raise ValueError(f"the table has no policy {missing[0]!r}, only {', '.join(leakage)}")
    return leakage[names].max(axis=1, skipna=False)


_COLUMNS = ["nu", "realisations", "ratio", "low", "high", "share"]


def averaged(tops: Sequence[ArrayLike], bottoms: Sequence[ArrayLike], average: str) -> tuple[float, ...]:
    """Average the product of some values over that of others, paired by realisation, with a 95 % interval.

    Parameters
    ----------
    tops, bottoms : sequences of array_like, each of shape (n,) and > 0
        One entry per realisation.  Realisations with a NaN are left out.
    average : {"geometric", "arithmetic", "median", "ratio of means"}
        The geometric mean of the ratios with Student's t interval of its logarithm, their mean with Student's t
        interval, their median with the interval of the sign test, or the ratio of the mean values with a percentile
        interval of the paired bootstrap.

    Returns
    -------
    tuple of float
        ``realisations, ratio, low, high, share``, the last of the realisations in which the ratio is above 1.
    """
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {AVERAGES}, got {average!r}")
    values = np.column_stack([*tops, *bottoms])  # a policy may have missed its budget in some realisation
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        return 0, *[np.nan] * 4

    def over(leakages: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(leakages[..., : len(tops)].prod(axis=-1) / leakages[..., len(tops) :].prod(axis=-1))

    ratio = over(values)
    share = (ratio > 1).mean()
    if average in ("geometric", "arithmetic"):
        return len(ratio), *(log_interval if average == "geometric" else interval)(ratio), share
    if average == "median":
        ends = stats.quantile_test(ratio, q=1, p=0.5).confidence_interval(0.95)  # NaN of fewer than six
        return len(ratio), np.median(ratio), np.nan_to_num(ends.low, nan=0), np.nan_to_num(ends.high, nan=np.inf), share
    ends = np.quantile(over(_resampled(len(ratio)) @ values), [0.025, 0.975]) if len(ratio) > 1 else (0.0, np.inf)
    return len(ratio), over(values.mean(axis=0)), *ends, share


@cache
def _resampled(size: int) -> NDArray[np.float64]:
    """The weight of each realisation in every resample, shape (10,000, size)."""
    return np.random.default_rng(0).multinomial(size, [1 / size] * size, _RESAMPLES) / size


def _steps(above: pd.Series, below: pd.Series | None = None, *, average: str) -> pd.DataFrame:
    """Every budget against the next larger one: value over value, or ratio over ratio."""
    top, bottom = above.unstack("nu"), None if below is None else below.unstack("nu")
    rows = []
    for nu, larger in pairwise(top):
        more, less = ([], []) if bottom is None else ([bottom[larger]], [bottom[nu]])
        rows.append((nu, *averaged([top[nu], *more], [top[larger], *less], average)))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _mean_steps(values: pd.DataFrame) -> pd.DataFrame:
    """By how much the mean of a value falls to the next budget, with its paired bootstrap interval."""
    rows: list[tuple[Any, ...]] = []
    for nu, larger in pairwise(values):
        step = (values[nu] - values[larger]).dropna().to_numpy()
        if len(step) > 1:
            ends = np.quantile(_resampled(len(step)) @ step, [0.025, 0.975])
            rows.append((nu, len(step), step.mean(), *ends, (step > 0).mean()))
        else:
            rows.append((nu, len(step), *[np.nan] * 4))
    return pd.DataFrame(rows, columns=_COLUMNS)


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
