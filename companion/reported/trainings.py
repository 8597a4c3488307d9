"""What the committed trainings say in numbers: the texts of the chapter on MNIST.

What is claimed of these numbers stands in ``companion/tests/test_trained.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from adascale.statistics import interval
from companion.formatting import Texts


def minus(value: float, digits: int = 2) -> str:
    """A number with a proper minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def as_stated(folder: Path) -> pd.DataFrame:
    """The committed trainings of a data set with the paper's settings, of all realisations.

    Parameters
    ----------
    folder : pathlib.Path
        With ``accuracy.csv`` and, if there are further realisations, ``draws.csv``.
    """
    tables = [pd.read_csv(file) for name in ("accuracy", "draws") if (file := folder / f"{name}.csv").exists()]
    rows = pd.concat(tables, ignore_index=True)
    return rows[rows["reading"] == "as stated"]


def many_texts(table: pd.DataFrame) -> Texts:
    r"""What is said of trainings with AdaScale on several realisations, with some without noise.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of :func:`~adascale.runs.execution.perform`, with ``NoiseFree`` among the policies.
    """
    points = 100 * table.pivot(index="seed", columns=["policy", "nu"], values="test_accuracy")
    own, quiet = points["AdaScale"], points["NoiseFree"].iloc[:, 0]
    first, last = min(own), max(own)
    fall, worst = interval(own[first] - own[last]), interval(quiet - own[last])
    shared = points.xs(first, axis=1, level="nu").sub(quiet, axis=0).dropna()  # the realisations that all policies have
    return {f"shared-{policy}": minus(change) for policy, change in shared.mean().items()} | {
        "shared-seeds": f"{len(shared)}",
        "acc-low": f"{own.mean().min():.2f}",
        "acc-high": f"{own.mean().max():.2f}",
        "acc-quiet": f"{quiet.mean():.2f}",
        "acc-fall": minus(fall.centre),
        "acc-fall-low": minus(fall.low),
        "acc-fall-high": minus(fall.high),
        "acc-lost": minus(worst.centre),
        "acc-lost-high": minus(worst.high),
        "acc-seeds": f"{len(own)}",
        "acc-seed-low": f"{own.min().min():.1f}",
        "acc-seed-high": f"{own.max().max():.1f}",
    }


def spread_along(table: pd.DataFrame, curves: pd.DataFrame) -> float:
    """How far apart the mean learning curves of all trainings of three realisations come, in points.

    Parameters
    ----------
    table, curves : pandas.DataFrame
        As :func:`adascale.runs.sweep.tables` gives them; of the levels the smallest and the largest are read.
    """
    levels = table.loc[table["policy"] != "NoiseFree", "nu"]
    ends = table["nu"].isin([levels.min(), levels.max()]) | (table["policy"] == "NoiseFree")
    joined = curves.merge(table[ends & (table["seed"] < 3)][["run", "policy", "nu"]], on="run")
    along = joined.pivot_table(index="round", columns=["policy", "nu"], values="accuracy")
    return float(100 * np.ptp(along.to_numpy(), axis=1).max())


def fades(table: pd.DataFrame) -> pd.DataFrame:
    """Floors of each realisation, and what AdaScale at the smallest level lost to noise, ordered by the deepest floor.

    Parameters
    ----------
    table : pandas.DataFrame
        As for :func:`many_texts`.
    """
    own = table[table["policy"] == "AdaScale"]
    own = own[own["nu"] == own["nu"].min()].set_index("seed")
    quiet = table[table["policy"] == "NoiseFree"].set_index("seed")["test_accuracy"]
    lost = (100 * (quiet - own["test_accuracy"])).round(9)  # or equal losses differ by rounding, and rank apart
    return own[["floor_mean", "floor_max", "floor_max_round"]].assign(lost=lost).dropna().sort_values("floor_max")


def fade_ranks(found: pd.DataFrame) -> Texts:
    """Of :func:`fades`: rank correlation of the loss with the largest floor, its p-value, and with the mean floor."""
    deepest, mean = (stats.spearmanr(found[floor], found["lost"]) for floor in ("floor_max", "floor_mean"))
    return {
        "fade-rank": minus(deepest.statistic),
        "fade-rank-p": f"{deepest.pvalue:.2f}",
        "mean-rank": minus(mean.statistic),
    }
