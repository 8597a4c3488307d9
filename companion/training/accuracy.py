r"""What the paper says of test accuracy, evaluated on trainings; and the leakage that there is to gain beside it.

Accuracies are evaluated in percentage points, by Student's 95 % t interval over the realisations, paired where two of
the same realisation are compared.  Every interval stands for itself: nothing is corrected for their number.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from adascale.accounting import OrdersTooFew
from adascale.comparison import leakage_table
from adascale.statistics import Interval, interval, log_interval
from companion.claims import CLOSE, MARKS
from companion.figures.style import label_of
from companion.methods import METHODS
from companion.summary import number

if TYPE_CHECKING:
    from adascale.runs.specification import Run
    from adascale.runs.sweep import Entry

CLOSE_POINTS = 1.0
"""Points within which we read accuracies as the same, and one that is quoted without decimals as met."""

FALL_POINTS = 2 * CLOSE_POINTS
"""Points within which we read a fall between two accuracies that are quoted as met, since either may be off by one."""

_ENDS = {name: METHODS[name] for name in ("Optimal", "EqualAlloc")}


def verdict_within(low: float, high: float, least: float, most: float) -> str:
    """``holds`` if an interval [low, high] lies in [least, most], ``fails`` if outside, else ``not settled``."""
    if least <= low and high <= most:
        return "holds"
    return "fails" if high < least or low > most else "not settled"


def accuracy_claims(table: pd.DataFrame, quoted: tuple[float, float], reference: str = "AdaScale") -> pd.DataFrame:
    r"""The paper's statements on accuracy, each with its verdict.

    ========= ====================================== ==================================================================
    ``claim`` the paper                              computed, in percentage points
    ========= ====================================== ==================================================================
    ends      the smallest and largest :math:`\nu`   the mean accuracy there is within one point of what is quoted
              correspond to the accuracies quoted
    falls     accuracy falls over that range         the paired fall from the smallest :math:`\nu` to this one is
                                                     above 0
    amount    by as much as is quoted                that fall at the largest :math:`\nu` is within two points of it
    same      methods are compared under the same    the paired difference of accuracies at this :math:`\nu` is
              learning performance                   within one point of 0
    ========= ====================================== ==================================================================

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of :func:`~adascale.runs.execution.perform`: ``policy, nu, seed, test_accuracy``, NaN where a run has
        not been finished.
    quoted : tuple of float
        The accuracies (0 ... 1) quoted for the smallest and for the largest :math:`\nu`.
    reference : str
        The policy that *ends*, *falls* and *amount* are about, and that the others are compared with; ``NoiseFree``,
        which no receiver has, is left out.

    Returns
    -------
    pandas.DataFrame
        ``claim, policy, nu, realisations, points, low, high, verdict``.
    """
    points = 100 * table.pivot(index="seed", columns=["policy", "nu"], values="test_accuracy")
    if reference not in points:
        raise ValueError(f"the table has no policy {reference!r}, only {', '.join(points.columns.levels[0])}")
    own = points[reference]
    first, last = min(own), max(own)
    rows = []

    def add(claim: str, policy: str, nu: float, values: pd.Series, low: float, high: float) -> None:
        known = values.dropna()
        found = interval(known) if len(known) else Interval(np.nan, -np.inf, np.inf)
        rows.append((claim, policy, nu, len(known), *found, verdict_within(found.low, found.high, low, high)))

    for nu, accuracy in zip((first, last), quoted, strict=True):
        add("ends", reference, nu, own[nu], 100 * accuracy - CLOSE_POINTS, 100 * accuracy + CLOSE_POINTS)
    for nu in sorted(own)[1:]:
        add("falls", reference, nu, own[first] - own[nu], 0, np.inf)
    fall = 100 * (quoted[0] - quoted[1])
    add("amount", reference, last, own[first] - own[last], fall - FALL_POINTS, fall + FALL_POINTS)
    for policy in points.columns.unique("policy"):
        if policy not in (reference, "NoiseFree"):
            for nu in sorted(set(points[policy]) & set(own)):
                add("same", policy, nu, points[policy][nu] - own[nu], -CLOSE_POINTS, CLOSE_POINTS)
    return pd.DataFrame(rows, columns=["claim", "policy", "nu", "realisations", "points", "low", "high", "verdict"])


def accuracy_verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """The claims as a table to read: a row a statement and method, a column a budget, points and mark in each.

    ✓ holds, ✗ fails, ? not settled; without points where no run has been finished.
    """
    points = claims.points.map(lambda value: "" if np.isnan(value) else number(value, ".2f") + "\N{NO-BREAK SPACE}")
    text = points + claims.verdict.map(MARKS)
    wide = claims.assign(text=text).pivot(index=["claim", "policy"], columns="nu", values="text")
    wide = wide.reindex(claims[["claim", "policy"]].drop_duplicates()).fillna("")
    wide = wide.rename(label_of, level="policy").rename(columns="ν = {:g}".format)
    return wide.rename_axis(index=["statement", "method"], columns=None)


def reading_table(entries: Iterable[Entry], results: pd.DataFrame, seeds: Iterable[int]) -> pd.DataFrame:
    r"""For every reading of a sweep what it does to accuracy, and what there is to gain in leakage.

    Parameters
    ----------
    entries : iterable of Entry
        See :func:`adascale.runs.sweep.read_sweep`.
    results : pandas.DataFrame
        Their rows, see :func:`adascale.runs.sweep.tables`: the trainings with AdaScale are used.
    seeds : iterable of int
        Realisations of the channel for the leakage, which needs no training.

    Returns
    -------
    pandas.DataFrame
        One row a reading and :math:`\nu`, in the order of the sweep: ``reading, nu, budget, realisations``;
        ``accuracy, accuracy_low, accuracy_high`` (mean and 95 % t interval, in per cent); ``fall, fall_low,
        fall_high`` (paired, in points, from the smallest :math:`\nu`; NaN there); ``gap, gap_low, gap_high``:
        EqualAlloc's RDP leakage over the optimum's, geometric mean of the ratio over the seeds; ``gap_means``, the
        ratio of the mean leakages; ``epsilon_gap``, as ``gap`` but of epsilon; and ``epsilon``, the optimum's,
        geometric mean, at Opacus' orders as in the paper.
    """
    seeds, rows = list(seeds), []
    runs: dict[str, dict[float, Run]] = {}
    for reading, run in entries:
        if run.policy == "AdaScale":
            runs.setdefault(reading, {}).setdefault(run.nu, run)
    for reading, levels in runs.items():
        some = next(iter(levels.values()))
        budgets = {nu: nu * run.budget_factor for nu, run in levels.items()}
        with warnings.catch_warnings():  # at the paper's orders on purpose, though some budgets call for larger ones
            warnings.simplefilter("ignore", OrdersTooFew)
            leaked = leakage_table(
                some.scenario, budgets.values(), seeds, _ENDS, channel=some.channel, delta=some.delta
            )
        own = results[(results.reading == reading) & (results.policy == "AdaScale")]
        points = 100 * own.pivot(index="seed", columns="nu", values="test_accuracy")
        first = min(levels)
        for nu, budget in budgets.items():
            here = leaked[np.isclose(leaked.nu, budget, rtol=1e-12)].pivot(index="seed", columns="policy")
            gap = log_interval(here["rdp", "EqualAlloc"] / here["rdp", "Optimal"])
            fall = interval(points[first] - points[nu]) if nu > first else [np.nan] * 3
            means = here["rdp", "EqualAlloc"].mean() / here["rdp", "Optimal"].mean()
            epsilon_gap = log_interval(here["epsilon", "EqualAlloc"] / here["epsilon", "Optimal"]).centre
            rows.append(
                (
                    reading,
                    nu,
                    budget,
                    points[nu].notna().sum(),
                    *interval(points[nu]),
                    *fall,
                    *gap,
                    means,
                    epsilon_gap,
                    log_interval(here["epsilon", "Optimal"]).centre,
                )
            )
    columns = ["reading", "nu", "budget", "realisations"]
    columns += [name + end for name in ("accuracy", "fall", "gap") for end in ("", "_low", "_high")]
    columns += ["gap_means", "epsilon_gap", "epsilon"]
    return pd.DataFrame(rows, columns=columns)


def reading_verdicts(readings: pd.DataFrame, quoted: tuple[float, float]) -> pd.DataFrame:
    r"""Both headlines side by side, for every reading, at the ends of the range of :math:`\nu`.

    Parameters
    ----------
    readings : pandas.DataFrame
        See :func:`reading_table`.
    quoted : tuple of float
        The accuracies (0 ... 1) that the paper quotes for the ends.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``reading``, each "holds", "fails" or "not settled": ``small, large``, the mean accuracy at that end
        is what is quoted, within a point; ``fall``, the paired fall is what these two allow, the quoted one within two
        points; ``gap``, EqualAlloc leaks more than 20 % beyond the optimum at the small end; ``narrows``, and more
        than at the large end; and ``both``, all of these.
    """
    rows = {}
    for reading, levels in readings.groupby("reading", sort=False):
        first, last = levels.loc[levels.nu.idxmin()], levels.loc[levels.nu.idxmax()]
        parts = [
            verdict_within(row[f"{name}_low"], row[f"{name}_high"], value - slack, value + slack)
            for row, name, value, slack in (
                (first, "accuracy", 100 * quoted[0], CLOSE_POINTS),
                (last, "accuracy", 100 * quoted[1], CLOSE_POINTS),
                (last, "fall", 100 * (quoted[0] - quoted[1]), FALL_POINTS),
            )
        ]
        parts.append(verdict_within(first.gap_low, first.gap_high, CLOSE, np.inf))
        parts.append(verdict_within(first.gap_low / last.gap_high, first.gap_high / last.gap_low, 1, np.inf))
        worst = next((each for each in ("fails", "not settled") if each in parts), "holds")
        rows[reading] = [*parts, worst]
    return pd.DataFrame(rows, index=["small", "large", "fall", "gap", "narrows", "both"]).T.rename_axis("reading")
