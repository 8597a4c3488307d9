r"""A prediction that can fail, about trainings that are not all there yet: how far those that are have settled it.

It was written down before any of them: with momentum and twice :math:`\nu`, the mean of three realisations of CIFAR-10
lies within a point of what the paper quotes at both ends of the range, and falls between them by what the paper quotes,
within two points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from adascale.statistics import interval
from companion.formatting import Texts, listed
from companion.summary import band, by_seed, number

REALISATIONS = 3
"""Over so many is the mean that is predicted."""
WITHIN = (1.0, 1.0, 2.0)
"""Points by which the mean may miss at the smallest level, at the largest, and in the fall between them."""


class Forecast(NamedTuple):
    """What was predicted of three means, and what the trainings so far leave of it."""

    found: pd.DataFrame
    """A row a realisation, with the accuracy at both levels in per cent, the smallest first, and the fall in points."""
    quoted: pd.Series
    """What the paper quotes, and the prediction with it, by the same columns."""

    def needed(self) -> pd.DataFrame:
        """Where the mean of the missing realisations must lie for the prediction to come true: ``low`` and ``high``."""
        missing = REALISATIONS - len(self.found)
        if missing < 1:
            raise ValueError(f"found must have less than {REALISATIONS} realisations, got {len(self.found)}")
        within = pd.Series(WITHIN, self.quoted.index)
        ends = {"low": self.quoted - within, "high": self.quoted + within}
        return pd.DataFrame({end: (REALISATIONS * mean - self.found.sum()) / missing for end, mean in ends.items()})

    def missed(self) -> pd.Series:
        """By how many points the mean of all realisations so far lies outside what was predicted; 0 inside."""
        off = (self.found.mean() - self.quoted).abs() - pd.Series(WITHIN, self.quoted.index)
        return off.clip(lower=0)

    def table(self) -> pd.DataFrame:
        """To read, a row a mean: what was predicted, each realisation, their mean with its 95 % interval.

        Last comes what the missing ones must still be on average or, if there are none, by how many points the mean of
        these realisations, which is what was predicted, is off.
        """
        predicted = [f"{quoted:.0f} ± {within:.0f}" for quoted, within in zip(self.quoted, WITHIN, strict=True)]
        shown = pd.DataFrame({"predicted mean": predicted}, index=self.found.columns)
        for seed, row in self.found.iterrows():
            shown[f"realisation {seed}"] = row.map(number)
        if len(self.found) > 1:
            shown["mean"] = [band(self.found[column]) for column in self.found]
        if len(self.found) < REALISATIONS:
            needed = self.needed().map(number)
            shown["still needed"] = needed.low + " to " + needed.high
        else:
            shown["beyond the margin by"] = [number(each) if each else "—" for each in self.missed()]
        return shown.rename_axis("accuracy")


def forecast(table: pd.DataFrame, quoted: tuple[float, float], reading: str = "budget 2 nu") -> Forecast:
    """Of the trainings of one reading.

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`adascale.runs.sweep.tables` gives it.
    quoted : (float, float)
        The paper's accuracies at the smallest and the largest level, as shares.
    reading : str
        Which rows are meant.
    """
    rows = table[table.reading == reading]
    ends = by_seed(rows, arm=("nu",)).dropna()
    if ends.shape[1] < 2 or ends.empty:
        raise ValueError(f"the table must have {reading!r} at two levels on a realisation, got {len(rows)} rows")
    small, large = (f"at ν = {nu:g} [%]" for nu in (min(ends), max(ends)))
    found = pd.DataFrame({small: ends[min(ends)], large: ends[max(ends)]})
    found["fall [points]"] = found[small] - found[large]
    first, last = (100 * each for each in quoted)
    return Forecast(found, pd.Series([first, last, first - last], found.columns))


def forecast_texts(found: Forecast) -> Texts:
    """For a chapter to glue: the means found, falls, how far realisations are apart, and what is needed of the rest."""
    means = dict(zip(("twice-small", "twice-large", "twice-fall"), map(number, found.found.mean()), strict=True))
    fall, first = found.found.iloc[:, -1], found.found.iloc[:, 0]
    texts = means | {
        "twice-seeds": f"{len(found.found)}",
        "twice-most": number(fall.max()),
        "twice-apart": number(first.max() - first.min()),
    }
    if len(found.found) > 1:
        texts["twice-fall-high"] = number(interval(fall).high, ".2f")
    if len(found.found) < REALISATIONS:
        texts["twice-needed"] = number(found.needed().low.iloc[-1])
    return texts


def beside_texts(found: Forecast, stated: Forecast) -> Texts:
    """For a chapter to glue: where the trainings as stated end, and what the other reading costs where both are."""
    small, large = stated.found.columns[:2]
    ends = [f"from {number(row[small])} to {number(row[large])}" for _, row in stated.found.iterrows()]
    cost = (stated.found - found.found).dropna()
    return {
        "stated-seeds": f"{len(stated.found)}",
        "stated-ends": listed(ends),
        "stated-falls": listed(map(number, stated.found.iloc[:, -1])),
        "stated-fall": band(stated.found.iloc[:, -1], 2),
        "stated-apart": number(np.ptp(stated.found[[small, large]], axis=0).max()),
        "twice-costs-small": listed(map(number, cost[small])),
        "twice-costs-large": listed(map(number, cost[large])),
    }
