"""How online policies meet a budget, and their leakage relative to the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adascale.statistics import interval

if TYPE_CHECKING:
    import pandas as pd

_KEPT = 1e-6  # an excess below this share of the budget does not count


def promises(table: pd.DataFrame, reference: str = "Optimal") -> pd.DataFrame:
    r"""Summarise cost and leakage relative to the optimum per policy and :math:`\nu`.

    Parameters
    ----------
    table : pandas.DataFrame, from :func:`~adascale.comparison.leakage_table`
    reference : str
        Policy whose leakage on the same realisation is the denominator of the ratios.

    Returns
    -------
    pandas.DataFrame
        One row per policy and budget: ``realisations``; ``cost, spread`` (mean and standard deviation of cost over
        :math:`\nu`); ``over`` (share of realisations above 1); ``excess`` (the largest, or 0); and the mean of the
        ratios ``rdp`` and ``epsilon``, its 95 % t interval ``..._low, ..._high``, and ``..._median, ..._worst``.
        Realisations with a cost of NaN are left out.
    """
    needed = ["policy", "nu", "seed", "cost", "rdp", "epsilon"]
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"the table must have the column {missing[0]!r}, it has {', '.join(map(str, table))}")
    if reference not in set(table["policy"]):
        raise ValueError(f"the table has no policy {reference!r}, only {', '.join(table['policy'].unique())}")
    lane = [*(["dataset"] if "dataset" in table else []), "nu", "seed"]
    best = table.loc[table["policy"] == reference, [*lane, "rdp", "epsilon"]]
    reached = table.dropna(subset=["cost"])
    joined = reached.merge(best, on=lane, how="left", suffixes=("", "_best"), validate="many_to_one")
    if joined["rdp_best"].isna().any():
        lost = joined.loc[joined["rdp_best"].isna(), ["nu", "seed"]].iloc[0]
        raise ValueError(f"{reference} has no row for nu = {lost['nu']:g}, seed = {lost['seed']:g}")
    rows = []
    keys = [*lane[:-2], "policy", "nu"]
    for key, group in joined.groupby(keys, sort=False):
        spent = (group["cost"] / group["nu"]).to_numpy()
        row = dict(zip(keys, key, strict=True)) | {
            "realisations": len(group),
            "cost": spent.mean(),
            "spread": spent.std(ddof=1) if len(spent) > 1 else np.nan,
            "over": np.mean(spent > 1 + _KEPT),
            "excess": max(spent.max() - 1, 0.0) if spent.max() > 1 + _KEPT else 0.0,
        }
        for name in ("rdp", "epsilon"):
            ratio = (group[name] / group[f"{name}_best"]).to_numpy()
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), interval(ratio), strict=True))
            row |= {f"{name}_median": np.median(ratio), f"{name}_worst": ratio.max()}
        rows.append(row)
    import pandas as pd  # slow to import

    return pd.DataFrame(rows)
