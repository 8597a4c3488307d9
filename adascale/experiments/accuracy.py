r"""The trainings behind the accuracy panel of the MNIST figure: ``python -m adascale.experiments.accuracy``.

Every finished training is written at once, so the command can be stopped and started again: what is there is not run a
second time.  It needs the extra ``learn``, and MNIST on this machine (``ADASCALE_DATA``, or ``adascale download
mnist``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from adascale._files import write_atomically
from adascale.experiments.training import training_run

BUDGETS = (0.01, 0.02, 0.04, 0.08, 0.16)
SEEDS = {"AdaScale": range(10), "Optimal": range(3), "EqualAlloc": range(3)}
"""Channel realisations of each policy."""

Spec = tuple[str, float, int]
"""Policy, nu and seed."""


def specs() -> list[Spec]:
    """What the committed table holds, the seeds outside, so that an unfinished table has all budgets of some seeds."""
    wanted = [(seed, policy, nu) for policy, seeds in SEEDS.items() for seed in seeds for nu in BUDGETS]
    return [(policy, nu, seed) for seed, policy, nu in sorted(wanted, key=lambda each: each[0])]


def accuracy_table(
    target: Path, dataset: str = "mnist", wanted: Iterable[Spec] | None = None, *, progress: bool = False, **settings
) -> pd.DataFrame:
    r"""Run the trainings that ``target`` does not hold yet, and add each to it as soon as it is finished.

    Parameters
    ----------
    target : pathlib.Path
        A CSV: one row a training, see :func:`~adascale.experiments.training.training_run`.
    dataset : str
        ``mnist``, ``cifar10`` or ``digits``.
    wanted : iterable of tuple
        Policy, :math:`\nu` and seed of each training; default :func:`specs`.
    progress : bool
        Show a progress bar on standard error.
    **settings
        Of :func:`~adascale.experiments.training.training_run`, the same for all.

    Returns
    -------
    pandas.DataFrame
        All rows of ``target``.

    Raises
    ------
    ValueError
        If ``target`` holds rows of another data set, or as ``training_run``.
    """
    rows = pd.read_csv(target).to_dict("records") if target.exists() else []
    if strange := {row["dataset"] for row in rows} - {dataset}:
        raise ValueError(f"{target} holds trainings of {', '.join(sorted(strange))}, expected {dataset} alone")
    done = {(row["policy"], row["nu"], row["seed"]) for row in rows}
    missing = [spec for spec in (specs() if wanted is None else wanted) if spec not in done]
    target.parent.mkdir(parents=True, exist_ok=True)
    for policy, nu, seed in tqdm(missing, disable=not progress, unit="training"):
        rows.append(training_run(dataset, policy, nu, seed, **settings).row)
        write_atomically(target, pd.DataFrame(rows))
    return pd.DataFrame(rows)


if __name__ == "__main__":
    accuracy_table(Path(*sys.argv[1:2] or ["results/mnist/accuracy.csv"]), progress=sys.stderr.isatty())
