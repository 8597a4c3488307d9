"""What a round of CIFAR-10 costs with the ResNet-32 that the paper cites: ``python -m companion.training.resnet``.

Per-sample clipping and BatchNorm do not go together: under BatchNorm the gradient of a sample depends on the whole
batch, so no clipped sum bounds what one sample can change.  The network has GroupNorm instead
(:func:`adascale.learning.models.resnet32`).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd
import torch

from adascale.files import write_atomically
from adascale.learning import Dataset, FedSGD, data
from adascale.runs.execution import problem_of
from adascale.runs.provenance import write_provenance
from adascale.runs.specification import Run, make_run

NETWORKS = ("tanh_cnn", "resnet32")
"""The network that was trained, and the one that is cited."""
ROUNDS = 2
"""Rounds that are timed."""


def timed_rounds(run: Run, dataset: Dataset, rounds: int) -> pd.DataFrame:
    """Train a few rounds at full power, and time each.

    Parameters
    ----------
    run : Run
        What would be trained.
    dataset : Dataset
        Its data.
    rounds : int
        How many rounds, >= 1.

    Returns
    -------
    pandas.DataFrame
        A row a round: ``model, parameters, round, samples`` in the batches of all devices, and ``cpu_seconds`` of this
        process, to which other work on the machine adds little.
    """
    problem, _ = problem_of(run)
    federation = FedSGD(run.scenario, run.training, dataset, run.seed)
    state, rows = federation.start(), []
    for eta in problem.max_eta[:rounds]:
        began = time.process_time()
        state, seen = federation.step(state, float(eta))
        rows.append(
            {
                "model": run.training.model,
                "parameters": run.scenario.num_parameters,
                "round": state.round - 1,
                "samples": seen.batch_size,
                "cpu_seconds": time.process_time() - began,
            }
        )
    return pd.DataFrame(rows)


def whole_training(table: pd.DataFrame, rounds: int) -> pd.Series:
    """CPU hours of a training of so many rounds, extrapolated from the mean of those timed; by model."""
    hours: pd.Series = table.groupby("model", sort=False).cpu_seconds.mean() * rounds / 3600
    return hours


def main(target: Path) -> None:
    """Write the table, and beside it what made it."""
    torch.set_num_threads(1)
    target.mkdir(parents=True, exist_ok=True)
    dataset = data.load("cifar10")
    table = pd.concat(
        [timed_rounds(make_run("cifar10", "AdaScale", 0.01, 0, model=each), dataset, ROUNDS) for each in NETWORKS]
    )
    place = target / "resnet32.csv"
    write_atomically(place, table.to_csv(index=False, float_format="%.4g"))
    write_provenance(place, "python -m companion.training.resnet", "torch", "numpy", threads=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m companion.training.resnet", description="Time the rounds again.")
    parser.add_argument("--target", type=Path, default=Path("results/benchmarks"))
    main(parser.parse_args().target)
