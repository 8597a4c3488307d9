r"""What policies that do not see the future keep of a budget, and what they leak beside the optimum that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adascale.statistics import interval

if TYPE_CHECKING:
    import pandas as pd

_KEPT = 1e-6  # of the budget: a cost above it by less counts as the budget


def promises(table: pd.DataFrame, reference: str = "Optimal") -> pd.DataFrame:
    r"""Cost and leakage of every policy at every :math:`\nu`, against the optimum **at** :math:`\nu`.

    The optimum spends :math:`\nu` on every realisation.  A policy that spends more may leak less than it, so a leakage
    is to be read beside the cost.

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`~adascale.comparison.leakage_table` makes it, with ``reference`` among its policies; its columns
        ``policy, nu, seed, cost, rdp, epsilon``, and ``dataset`` where it has one, are read.
    reference : str
        The policy whose leakage of the same realisation is divided by.

    Returns
    -------
    pandas.DataFrame
        A row a (data set,) policy and budget, in the order of the table: ``policy, nu, realisations``; ``cost, spread``
        (mean and standard deviation of cost over :math:`\nu`), ``over`` (the share of realisations above :math:`\nu`)
        and ``excess`` (the largest overspending over :math:`\nu`, or 0); for each of ``rdp`` and ``epsilon`` the mean
        ratio under that name, its 95 % t interval ``..._low, ..._high``, and ``..._median, ..._worst``.  Realisations
        whose cost is NaN are left out.

    Raises
    ------
    ValueError
        If a column or the reference is missing, or the reference has no row for a realisation.
    """
    needed = ["policy", "nu", "seed", "cost", "rdp", "epsilon"]
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"the table must have the column {missing[0]!r}, it has {', '.join(map(str, table))}")
    if reference not in set(table["policy"]):
        raise ValueError(f"the table has no policy {reference!r}, only {', '.join(table['policy'].unique())}")
    lane = [*(["dataset"] if "dataset" in table else []), "nu", "seed"]
    best = table.loc[table["policy"] == reference, [*lane, "rdp", "epsilon"]]
    joined = table.dropna(subset=["cost"]).merge(
        best, on=lane, how="left", suffixes=("", "_best"), validate="many_to_one"
    )
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
        for metric in ("rdp", "epsilon"):
            ratio = (group[metric] / group[f"{metric}_best"]).to_numpy()
            mean, low, high = interval(ratio)
            row |= {
                metric: mean,
                f"{metric}_low": low,
                f"{metric}_high": high,
                f"{metric}_median": np.median(ratio),
                f"{metric}_worst": ratio.max(),
            }
        rows.append(row)
    import pandas as pd  # slow to import

    return pd.DataFrame(rows)
