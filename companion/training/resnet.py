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


def whole_training(table: pd.DataFrame, rounds: int) -> pd.Series:
    """CPU hours of a training of so many rounds, extrapolated from the mean of those timed; by model."""
    return table.groupby("model", sort=False).cpu_seconds.mean() * rounds / 3600


def committed() -> pd.DataFrame:
    """Return the committed table."""
    torch.set_num_threads(1)
    dataset = data.load("cifar10")
    rows = []
    for network in NETWORKS:
        run = make_run("cifar10", "AdaScale", 0.01, 0, model=network)
        problem, _ = problem_of(run)
        federation = FedSGD(run.scenario, run.training, dataset, run.seed)
        state = federation.start()
        # at full power; other work adds little to the CPU time
        for t, eta in enumerate(problem.max_eta[:ROUNDS]):
            began = time.process_time()
            state, seen = federation.step(state, eta)
            row = {
                "model": network,
                "parameters": run.scenario.num_parameters,
                "round": t,
                "samples": seen.batch_size,
                "cpu_seconds": time.process_time() - began,
            }
            rows.append(row)
    return pd.DataFrame(rows)
