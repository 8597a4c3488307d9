"""Results of trainings realisation by realisation: tables by seed, and differences with their intervals as text."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from numpy.typing import ArrayLike

from adascale.statistics import interval
from companion.formatting import fixed

ARM = ("reading", "policy", "nu")
"""The columns that distinguish the trainings of one realisation."""

KEPT = 1e-6
"""An excess below this share of the budget does not count."""


def by_seed(table: pd.DataFrame, arm: Sequence[str] = ARM) -> pd.DataFrame:
    """Arrange a sweep's accuracies in per cent: a row per seed, a column per arm, which the columns ``arm`` name."""
    wide = table.pivot(index="seed", columns=list(arm), values="test_accuracy")
    return 100 * wide.sort_index(axis=1)


def band(values: ArrayLike, digits: int = 1, sign: bool = False) -> str:
    """Mean and 95 % t interval as text, such as ``−1.2 [−2.0, −0.4]``; with ``sign``, a plus where it is positive."""
    centre, low, high = (
        fixed(end, f"{'+' if sign else ''}.{digits}f") for end in interval(values)
    )
    return f"{centre} [{low}, {high}]"


def promises(table: pd.DataFrame) -> pd.DataFrame:
    r"""Summarise cost and leakage relative to the optimum per policy, :math:`\nu` and, if there is one, ``world``.

    ``realisations``; ``cost, spread`` (mean and standard deviation of cost over :math:`\nu`); ``over`` (share of
    realisations above 1); ``excess`` (the largest, or 0); and the mean of the ratios ``rdp`` and ``epsilon`` to the
    optimum's on the same realisation, its 95 % t interval ``..._low, ..._high``, and ``..._median, ..._worst``.
    Realisations with a cost of NaN are left out.
    """
    world = [name for name in ("world",) if name in table]
    same = [*world, "nu", "seed"]
    best = table.loc[table["policy"] == "Optimal", [*same, "rdp", "epsilon"]]
    joined = table.dropna(subset=["cost"]).merge(
        best, on=same, how="left", suffixes=("", "_best"), validate="many_to_one"
    )
    rows = []
    for key, group in joined.groupby(keys := [*world, "policy", "nu"], sort=False):
        cost = group["cost"] / group["nu"]
        over = (cost > 1 + KEPT).mean()
        row = dict(zip(keys, key, strict=True)) | {
            "realisations": len(group),
            "cost": cost.mean(),
            "spread": cost.std(),
            "over": over,
            "excess": cost.max() - 1 if over else 0.0,
        }
        for name in ("rdp", "epsilon"):
            ratio = group[name] / group[f"{name}_best"]
            _, low, high = interval(ratio)
            row |= {name: ratio.mean(), f"{name}_low": low, f"{name}_high": high}
            row |= {f"{name}_median": ratio.median(), f"{name}_worst": ratio.max()}
        rows.append(row)
    return pd.DataFrame(rows)
