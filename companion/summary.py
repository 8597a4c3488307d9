"""Results of trainings realisation by realisation: tables by seed, and differences with their intervals as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd
from numpy.typing import ArrayLike

from adascale.statistics import interval, log_interval

ARM = ("reading", "policy", "nu")
"""What tells the trainings of one realisation apart."""


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


def log_band(values: ArrayLike, digits: int = 2) -> str:
    """Geometric mean and 95 % interval of positive values as text."""
    centre, low, high = (f"{each:.{digits}f}" for each in log_interval(values))
    return f"{centre} [{low}, {high}]"


def clear(all_values: Iterable[ArrayLike]) -> int:
    """How many of these sets of differences have a 95 % interval that excludes zero."""
    return sum(not each.low <= 0 <= each.high for each in map(interval, all_values))
