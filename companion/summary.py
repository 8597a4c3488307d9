"""Results of trainings realisation by realisation: tables by seed, and differences with their intervals as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from adascale.statistics import interval

ARM = ("reading", "policy", "nu")
"""What tells the trainings of one realisation apart."""

KEPT = 1e-6
"""An excess below this share of the budget does not count."""


def by_seed(table: pd.DataFrame, column: str = "test_accuracy", arm: Sequence[str] = ARM) -> pd.DataFrame:
    """A column of a sweep's table, a row a seed and a column an arm; accuracies in per cent.

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`adascale.runs.sweep.tables` gives it.
    column : str
        What is wanted.
    arm : sequence of str
        The columns that name an arm.
    """
    if table.duplicated(["seed", *arm]).any():
        raise ValueError(f"the table must have one row a seed and {', '.join(arm)}")
    wide = table.pivot(index="seed", columns=list(arm), values=column).sort_index(axis=1)
    return 100 * wide if column == "test_accuracy" else wide


def number(value: float, form: str = ".1f") -> str:
    """A number as text: with a true minus sign, and none before a zero."""
    text = f"{value:{form}}"
    if not text.strip("+-0."):
        text = text.lstrip("+-")
    return text.replace("-", "−")


class Headed:
    """A table to show with one row of heads: its index as the first columns, and no name of its columns."""

    def __init__(self, table: pd.DataFrame):
        self.table = table.rename_axis(columns=None).reset_index()

    def _repr_html_(self) -> str:
        html = str(self.table.to_html(index=False, border=0))
        return re.sub(r" \[([^\]<]+), ([^\]<]+)\]", "\N{NO-BREAK SPACE}[\\1,\N{NO-BREAK SPACE}\\2]", html)  # kept whole

    def __repr__(self) -> str:
        return str(self.table.to_string(index=False))


def band(values: ArrayLike, digits: int = 1, sign: bool = False) -> str:
    """Mean and 95 % t interval as text, such as ``−1.2 [−2.0, −0.4]``; with ``sign``, a plus where it is positive."""
    centre, low, high = (number(each, f"{'+' if sign else ''}.{digits}f") for each in interval(values))
    return f"{centre} [{low}, {high}]"


def promises(table: pd.DataFrame) -> pd.DataFrame:
    r"""Summarise cost and leakage relative to the optimum per policy and :math:`\nu`.

    Parameters
    ----------
    table : pandas.DataFrame, from :func:`~adascale.comparison.leakage_table`

    Returns
    -------
    pandas.DataFrame
        One row per policy and budget: ``realisations``; ``cost, spread`` (mean and standard deviation of cost over
        :math:`\nu`); ``over`` (share of realisations above 1); ``excess`` (the largest, or 0); and the mean of the
        ratios ``rdp`` and ``epsilon`` to the optimum's on the same realisation, its 95 % t interval ``..._low,
        ..._high``, and ``..._median, ..._worst``.  Realisations with a cost of NaN are left out.
    """
    needed = ["policy", "nu", "seed", "cost", "rdp", "epsilon"]
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"the table must have the column {missing[0]!r}, it has {', '.join(map(str, table))}")
    instance = [*(["dataset"] if "dataset" in table else []), "nu", "seed"]
    best = table.loc[table["policy"] == "Optimal", [*instance, "rdp", "epsilon"]]
    reached = table.dropna(subset=["cost"])
    joined = reached.merge(best, on=instance, how="left", suffixes=("", "_best"), validate="many_to_one")
    if joined["rdp_best"].isna().any():
        lost = joined.loc[joined["rdp_best"].isna(), ["nu", "seed"]].iloc[0]
        raise ValueError(f"Optimal has no row for nu = {lost['nu']:g}, seed = {lost['seed']:g}")
    rows, keys = [], [*instance[:-2], "policy", "nu"]
    for key, group in joined.groupby(keys, sort=False):
        spent = (group["cost"] / group["nu"]).to_numpy()
        row = dict(zip(keys, key, strict=True)) | {"realisations": len(group), "cost": spent.mean()}
        row["spread"] = spent.std(ddof=1) if len(spent) > 1 else np.nan
        row["over"] = np.mean(spent > 1 + KEPT)
        row["excess"] = max(spent.max() - 1, 0.0) if row["over"] else 0.0
        for name in ("rdp", "epsilon"):
            ratio = (group[name] / group[f"{name}_best"]).to_numpy()
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), interval(ratio), strict=True))
            row |= {f"{name}_median": np.median(ratio), f"{name}_worst": ratio.max()}
        rows.append(row)
    return pd.DataFrame(rows)
