"""Tables of leakages as they are committed: a row a level and seed, and two rows of heading, policy and quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

ROW = ("nu", "seed")
"""The columns that identify a row."""


def read_wide(path: Path | str) -> pd.DataFrame:
    """What :func:`wide_csv` has written: ``policy``, the columns of the row, and what is stored of each."""
    heading = pd.read_csv(path, header=None, nrows=3).iloc[[1, 2]].T  # the row's names stand in the third line alone
    row = heading.loc[heading[1].isna(), 2].tolist()
    wide = pd.read_csv(path, header=[0, 1], index_col=[*range(len(row))])
    policies, columns = (list(dict.fromkeys(wide.columns.get_level_values(level))) for level in (0, 1))
    parts = [wide[name].dropna(how="all").rename_axis(row).reset_index().assign(policy=name) for name in policies]
    return pd.concat(parts, ignore_index=True)[["policy", *row, *columns]]


def wide_csv(table: pd.DataFrame, columns: Sequence[str], row: Sequence[str] = ROW) -> str:
    """These columns of a table that has one row a policy and ``row``, as CSV of seven digits."""
    order = list(dict.fromkeys(table["policy"]))
    wide = table.pivot(index=[*row], columns="policy", values=list(columns)).swaplevel(axis=1)
    text: str = wide[[(name, value) for name in order for value in columns]].to_csv(float_format="%.7g")
    return text
