"""What the committed trainings say in numbers: the texts of the chapters on MNIST and CIFAR-10.

What is claimed of these numbers stands in ``companion/tests/test_trained.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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


def beside(evaluated: pd.Index, time: int) -> tuple[pd.Index, pd.Index]:
    """Of the rounds after which a model was evaluated, those before a round, and those that it has gone into."""
    return evaluated[evaluated < time], evaluated[evaluated >= time]


class Pair(NamedTuple):
    """Learning curves of one policy on one realisation at the smallest and the largest level, in per cent."""

    small: pd.Series
    """Accuracy at the smallest level, by round."""
    large: pd.Series
    """Accuracy at the largest."""
    leaked: tuple[float, float]
    """The epsilon of both in the end."""

    @classmethod
    def read(cls, trained: pd.DataFrame, curves: pd.DataFrame, policy: str = "AdaScale", seed: int = 0) -> Pair:
        """From tables as :func:`adascale.runs.sweep.tables` gives them."""
        chosen = trained[(trained["policy"] == policy) & (trained["seed"] == seed)]
        joined = curves.merge(chosen[["run", "nu"]], on="run")
        along = 100 * joined.pivot(index="round", columns="nu", values="accuracy").dropna()
        leaked = joined.pivot(index="round", columns="nu", values="epsilon").iloc[-1]
        return cls(along[min(along)], along[max(along)], (leaked.iloc[0], leaked.iloc[-1]))

    def texts(self) -> Texts:
        """Where both end, and how far apart they come."""
        difference = self.small - self.large
        return {
            "acc-small": f"{self.small.iloc[-1]:.1f}",
            "acc-large": f"{self.large.iloc[-1]:.1f}",
            "acc-fall": minus(difference.iloc[-1], 1),
            "acc-apart": f"{difference.abs().max():.1f}",
            "epsilon-small": f"{self.leaked[0]:.0f}",
            "epsilon-large": f"{self.leaked[1]:.1f}",
        }

    def around(self, deepest: int) -> pd.DataFrame:
        """Both at the last evaluation before a round, at the first two after it, and in the end."""
        along = pd.DataFrame({"smallest ν": self.small, "largest ν": self.large})
        before, after = beside(along.index, deepest)
        around = along.loc[[before[-1], *after[:2], along.index[-1]]]
        return around.rename(index=lambda r: f"{r + 1} rounds").rename_axis(index=None)

    def texts_around(self, deepest: int) -> Texts:
        """What is lost around a round, from the evaluation before it to the second after it, and what is regained."""
        along = pd.DataFrame({"small": self.small, "large": self.large})
        before, after = beside(along.index, deepest)
        lost, regained = along.loc[before[-1]] - along.loc[after[1]], along.iloc[-1] - along.loc[after[1]]
        found = {"apart-before": f"{(self.small - self.large).loc[before].abs().max():.1f}"}
        for name in along:
            found |= {
                f"fade-lost-{name}": minus(lost[name], 1),
                f"regained-{name}": minus(regained[name], 1),
                f"peak-{name}": f"{along[name].max():.1f}",
            }
        return found

    def texts_quiet(self, quiet: pd.Series, deepest: int) -> Texts:
        """What noise costs: the points that the same training without any is ahead, around a round and in the end.

        Parameters
        ----------
        quiet : pandas.Series
            Accuracy without noise, in per cent, by round.
        deepest : int
            The round: the last evaluation before it counts, the second after it, and, before it, at how many the
            training without noise is behind both, and how far it lags at most.
        """
        costs = pd.DataFrame({"small": quiet - self.small, "large": quiet - self.large}).dropna().round(9)
        before, after = (costs.loc[part] for part in beside(costs.index, deepest))
        found = {
            "quiet-end": f"{quiet.iloc[-1]:.1f}",
            "quiet-evaluations": f"{len(before)}",
            "quiet-behind": f"{(before < 0).all(axis=1).sum()}",
        }
        for name in costs:
            found |= {
                f"quiet-lag-{name}": minus(-before[name].min(), 1),
                f"quiet-before-{name}": minus(before[name].iloc[-1], 1),
                f"quiet-second-{name}": minus(after[name].iloc[1], 1),
                f"quiet-above-{name}": minus(costs[name].iloc[-1], 1),
            }
        return found
