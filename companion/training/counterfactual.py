r"""One training, told apart at its deepest fade: from that round on once with the fade, and once without.

Up to that round both are the same training to the last bit.  In the round itself the bottleneck of the median round
takes the place of the fade's, and what the round spends above its floor stays; then everything is as it was.

``python -m companion make fork --checkpoints FOLDER``
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale.comparison import find_method
from adascale.learning import Trained, data, train
from adascale.problem import ReceiveScalingProblem
from adascale.runs.execution import problem_of
from adascale.runs.specification import Run
from adascale.runs.store import Checkpoint
from adascale.runs.sweep import read_sweep
from companion.results import Made

Schedule = NDArray[np.float64]


def fade_levelled(problem: ReceiveScalingProblem, eta: Schedule) -> tuple[ReceiveScalingProblem, Schedule]:
    r"""The round of the largest floor with the (lower) median floor, and the same :math:`w_t - w_{\min,t}` in it.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One lane.
    eta : ndarray
        A schedule, shape (T,).

    Returns
    -------
    problem, eta
        Equal to what is given in every other round; the cost is the same.
    """
    deepest, median = problem.min_noise_energy.argsort()[[-1, problem.num_rounds // 2]]  # the lower median of the gains
    min_gain = problem.min_gain.copy()
    min_gain[deepest] = min_gain[median]
    levelled = ReceiveScalingProblem(problem.scenario, min_gain, problem.budget)
    schedule = eta.copy()
    energy = levelled.min_noise_energy[deepest] + problem.spend(eta)[deepest]
    schedule[deepest] = min(problem.scenario.noise_scale / energy, levelled.max_eta[deepest])
    return levelled, schedule


def fork(run: Run, begun: Trained | None = None) -> pd.DataFrame:
    r"""The training of a run without its deepest fade, with the schedule that was made for the fade.

    Parameters
    ----------
    run : Run
        Of a policy.
    begun : Trained, optional
        The run's own first rounds, at most those before the fade, which need not be trained again.

    Returns
    -------
    pandas.DataFrame
        A row an evaluation, with the columns ``round, accuracy, test_loss, run, nu, seed`` and, of the realisation,
        ``fade_round, fade_floor, level_floor``; rounds count from 0.

    Raises
    ------
    ValueError
        If ``begun`` has the fade behind it.
    FileNotFoundError
        If the data set is not on this machine.
    """
    problem, mean_gain = problem_of(run)
    fade = int(problem.min_noise_energy.argmax())
    if begun is not None and begun.state.round > fade:
        raise ValueError(f"begun must end before round {fade}, that of the fade; got {begun.state.round} rounds")
    eta = find_method(run.policy)[1](problem, mean_gain).schedule(problem)
    levelled, schedule = fade_levelled(problem, eta)
    dataset = data.load(run.training.dataset, run.training.input_scaling)
    trained = train(levelled, schedule, run.training, dataset, run.seed, every=run.every, resume=begun)
    rows = trained.history.loc[trained.history.accuracy.notna(), ["round", "accuracy", "test_loss"]]
    return rows.assign(
        run=run.address,
        nu=run.nu,
        seed=run.seed,
        fade_round=fade,
        fade_floor=problem.min_noise_energy[fade],
        level_floor=levelled.min_noise_energy[fade],
    ).reset_index(drop=True)


class Forked(NamedTuple):
    """Both branches after the fade, in per cent: a row an evaluation, a column a level."""

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
    """Both branches of the trainings of the realisation of seed 0.

    Parameters
    ----------
    forks : pandas.DataFrame
        Of :func:`fork`.
    table, curves : pandas.DataFrame
        The trainings with the fade, as :func:`adascale.runs.sweep.tables` gives them.
    """
    chosen = forks[forks.seed == 0]
    fade = int(chosen.fade_round.iloc[0])
    own = curves.merge(table.loc[table.run.isin(chosen.run), ["run", "nu"]], on="run")
    both = [
        100 * each[each["round"] >= fade].pivot(index="round", columns="nu", values="accuracy")
        for each in (own.dropna(subset="accuracy"), chosen)
    ]
    if not both[0].index.equals(both[1].index) or not both[0].columns.equals(both[1].columns):
        raise ValueError("forks and curves must have the same evaluations after the fade")
    return Forked(both[0], both[1], fade)


def committed(sweep: Path, checkpoints: Path | None = None, run: str | None = None) -> Made:
    """The forks of the runs of a sweep file, each from its checkpoint where there is one."""
    tables = []
    for _, each in read_sweep(sweep):
        if run in (None, each.address):
            begun = Checkpoint(checkpoints / f"{each.address}.checkpoint", each).read()[0] if checkpoints else None
            tables.append(fork(each, begun))
    yield pd.concat(tables).to_csv(index=False), {"sweep": str(sweep)}
