"""What a round of CIFAR-10 costs with the ResNet-32 that the paper cites: ``python -m companion make resnet``.

Per-sample clipping and BatchNorm do not go together: under BatchNorm the gradient of a sample depends on the whole
batch, so no clipped sum bounds what one sample can change.  The network has GroupNorm instead
(:func:`adascale.learning.models.resnet32`).
"""

import time

import pandas as pd
import torch

from adascale.learning import FedSGD, data
from adascale.runs.execution import problem_of
from adascale.runs.specification import make_run

NETWORKS = ("tanh_cnn", "resnet32")
ROUNDS = 2
"""The network that was trained and the one that is cited; the rounds that are timed."""


def _timed_rounds(run, dataset, rounds):
    """Train a few rounds at full power; a row each, with the CPU time, to which other work adds little."""
    federation, (problem, _) = (
        FedSGD(run.scenario, run.training, dataset, run.seed),
        problem_of(run),
    )
    state = federation.start()
    rows = []
    for t, eta in enumerate(problem.max_eta[:rounds]):
        began = time.process_time()
        state, seen = federation.step(state, float(eta))
        rows.append((t, seen.batch_size, time.process_time() - began))
    table = pd.DataFrame(rows, columns=["round", "samples", "cpu_seconds"])
    table.insert(0, "model", run.training.model)
    table.insert(1, "parameters", run.scenario.num_parameters)
    return table


def whole_training(table: pd.DataFrame, rounds: int) -> pd.Series:
    """CPU hours of a training of so many rounds, extrapolated from the mean of those timed; by model."""
    return table.groupby("model", sort=False).cpu_seconds.mean() * rounds / 3600


def committed() -> pd.DataFrame:
    """Return the committed table."""
    torch.set_num_threads(1)
    dataset = data.load("cifar10")
    runs = [
        make_run("cifar10", "AdaScale", 0.01, 0, model=network) for network in NETWORKS
    ]
    return pd.concat([_timed_rounds(run, dataset, ROUNDS) for run in runs])
