r"""One training as a result row and a history: a data set, a policy, a convergence level and a seed.

It needs the extra ``learn``, so it is imported by its own name and not by :mod:`adascale.experiments`.
"""

from __future__ import annotations

import platform
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from adascale import _validation as check
from adascale import channel, policies
from adascale.experiments.methods import load
from adascale.learning import Training, data, models, train
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

_SETTINGS = {
    "digits": (Scenario.digits, Training.digits),
    "mnist": (Scenario.mnist, Training.mnist),
    "cifar10": (Scenario.cifar10, Training.cifar10),
}
DATASETS = tuple(_SETTINGS)
"""The data sets that have a setting."""


class TrainingRun(NamedTuple):
    """A result and how it came about."""

    row: dict
    """See :func:`training_run`."""
    history: pd.DataFrame
    """See :class:`adascale.learning.fedsgd.Trained`."""


def setting(dataset: str, rounds: int | None = None) -> tuple[Scenario, Training]:
    """The scenario and the training of a data set; d is the network's, T at most the scenario's own.

    Raises
    ------
    ValueError
        If there is no such data set, or the rounds are not 1 ... T.
    """
    if dataset not in _SETTINGS:
        raise ValueError(f"dataset {dataset!r} is unknown; expected one of {', '.join(DATASETS)}")
    scenario, training = (make() for make in _SETTINGS[dataset])
    size = sum(parameter.numel() for parameter in models.MODELS[training.model]().parameters())
    if rounds is not None and check.whole("rounds", rounds) > scenario.num_rounds:
        raise ValueError(f"rounds must be at most the {scenario.num_rounds} of {scenario.name}, got {rounds}")
    return replace(scenario, num_parameters=size, num_rounds=rounds or scenario.num_rounds), training


def training_run(
    dataset: str,
    policy: str,
    nu: float,
    seed: int,
    *,
    rounds: int | None = None,
    device: str = "cpu",
    every: int = 25,
    delta: float = 1e-5,
    progress: bool = False,
) -> TrainingRun:
    r"""Draw the channel of a seed, bring the policy's cost to :math:`\nu` there, and train with its scalings.

    At one seed every policy and every :math:`\nu` meets the same channels, initial model, batches and noise directions.

    Parameters
    ----------
    dataset : str
        ``digits``, ``mnist`` or ``cifar10``.
    policy : str
        A name for :func:`adascale.experiments.load`.
    nu : float
        :math:`\nu > 0`.
    seed : int
        The realisation, >= 0.
    rounds : int, optional
        A shorter horizon, to which the policy is tuned as well: the first so many rounds of the channel.
    device : str
        ``cpu`` or ``cuda``.
    every : int
        Evaluate after every so many rounds.
    delta : float
        :math:`\delta` of epsilon.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    TrainingRun
        The row has ``dataset, policy, nu, seed, rounds, shortened, penalty`` (None without one), ``cost, order, rdp,
        delta, epsilon, test_accuracy, test_loss, floor_max, floor_max_round, wall_seconds`` (of the training),
        ``device, threads, python, torch, numpy, commit`` (None outside a git checkout).

    Raises
    ------
    ValueError
        If an argument is out of range, or the device is not there.
    FileNotFoundError
        If the data set is not on this machine.
    BudgetNotReached
        If no parameter of the policy costs :math:`\nu`.
    """
    scenario, training = setting(dataset, rounds)
    if np.ndim(nu):
        raise ValueError(f"nu must be one number, got {nu!r}")
    check.fraction("delta", delta)
    check.whole("every", every)
    name, make = load(policy)
    _check_device(device)
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), check.positive("nu", nu))
    loaded = data.load(training.dataset, training.input_scaling)
    chosen = make(problem, scenario.mean_gain(drawn.path_loss))
    eta = policies.schedule(chosen, problem)
    start = time.perf_counter()
    trained = train(problem, eta, training, loaded, seed, device=device, every=every, delta=delta, progress=progress)
    wall = time.perf_counter() - start
    last = trained.history.iloc[-1]
    row = {
        "dataset": dataset,
        "policy": name,
        "nu": float(nu),
        "seed": int(seed),
        "rounds": scenario.num_rounds,
        "shortened": scenario.num_rounds < _SETTINGS[dataset][0]().num_rounds,
        "penalty": float(chosen.penalty) if hasattr(chosen, "penalty") else None,
        "cost": float(problem.cost(eta)),
        "order": scenario.order,
        "rdp": float(problem.rdp(eta)),
        "delta": delta,
        "epsilon": float(last.epsilon),
        "test_accuracy": float(last.accuracy),
        "test_loss": float(last.test_loss),
        "floor_max": float(problem.floor.max()),
        "floor_max_round": int(problem.floor.argmax()),
        "wall_seconds": round(wall, 3),
        "device": torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else device,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "commit": _commit(),
    }
    return TrainingRun(row, trained.history)


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not available: {str(error).splitlines()[0]}") from None


def _commit() -> str | None:
    """The commit of the checkout that holds this package, with ``+`` behind it if a tracked file was changed."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None

    def git(*words):
        return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
