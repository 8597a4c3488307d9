r"""One training in two branches from its deepest fade on: ``python -m companion make fork``.

Up to that round both branches are the same training to the last bit.  In the round itself the bottleneck of the median
round takes the place of the fade's, and what the round spends above its floor stays; then everything is as it was.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from adascale.checks import FloatArray
from adascale.comparison import find_method
from adascale.learning import data, train
from adascale.problem import Problem
from adascale.runs.execution import problem_of
from adascale.runs.specification import Run
from adascale.runs.sweep import read_sweep
from companion.training.controls import FadeLevelled


def levelled(run: Run) -> tuple[Problem, FloatArray]:
    """Return the problem of a run on the default channel without its deepest fade, and the schedule for the fade.

    What the round of the fade spends above its floor stays.
    """
    problem, mean_gain = problem_of(run)
    w = find_method(run.policy)[1](problem, mean_gain).schedule(problem)
    without, _ = problem_of(replace(run, channel=FadeLevelled()))
    fade = without.min_gain != problem.min_gain
    return without, np.where(fade, without.min_noise_energy + problem.spend(w), w)


def fork(run: Run) -> pd.DataFrame:
    r"""Train a run without its deepest fade, with the schedule that was made for the fade.

    A row per evaluation: ``round, accuracy, test_loss, run, nu, seed`` and ``fade_round``, counted from 0.
    """
    problem, _ = problem_of(run)
    dataset = data.load(run.training.dataset, run.training.input_scaling)
    history = train(
        *levelled(run), run.training, dataset, run.seed, every=run.every
    ).history
    rows = history.loc[history.accuracy.notna(), ["round", "accuracy", "test_loss"]]
    fade = problem.min_noise_energy.argmax()
    return rows.assign(run=run.address, nu=run.nu, seed=run.seed, fade_round=fade)


class Forked(NamedTuple):
    """Both branches after the fade, in per cent: a row per evaluation, a column per level."""

    kept: pd.DataFrame
    """With the fade."""
    levelled: pd.DataFrame
    """Without it."""
    fade_round: int
    """Counted from 0."""

    @property
    def gained(self) -> pd.DataFrame:
        """Points that are gained without the fade."""
        return self.levelled - self.kept


def forked(forks: pd.DataFrame, table: pd.DataFrame, curves: pd.DataFrame) -> Forked:
    """Pair both branches at seed 0, from :func:`fork` and from the trainings with the fade."""
    fade = forks.fade_round.iloc[0]
    trained = curves.merge(
        table.loc[table.run.isin(forks.run), ["run", "nu"]], on="run"
    )
    with_fade, levelled = (
        100
        * branch[branch["round"] >= fade].pivot(
            index="round", columns="nu", values="accuracy"
        )
        for branch in (trained.dropna(subset="accuracy"), forks)
    )
    return Forked(with_fade, levelled, fade)


def committed(sweep: Path) -> pd.DataFrame:
    """Return the forks of the runs of a sweep file."""
    return pd.concat(fork(run) for _, run in read_sweep(sweep))
