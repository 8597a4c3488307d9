r"""A training run: a specification with an address, and what it becomes, a result row and a history.

It needs the extra ``learn``, so it is imported by its own name and not by :mod:`adascale.paper`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from adascale import channel, policies
from adascale import checks as check
from adascale.comparison.hindsight import load
from adascale.learning import Trained, Training, data, models, train
from adascale.learning.fedsgd import State
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

FORMAT = 1
"""A part of every address, to be raised when the same specification would give other results."""

NOISE_FREE = "NoiseFree"
"""The policy of a receiver without noise, :math:`\\eta_t = \\infty`; it keeps no budget and protects nobody."""

_PRESETS = {
    "digits": (Scenario.digits, Training.digits),
    "mnist": (Scenario.mnist, Training.mnist),
    "cifar10": (Scenario.cifar10, Training.cifar10),
}
DATASETS = tuple(_PRESETS)
"""The data sets that have a preset."""


@dataclass(frozen=True)
class Run:
    r"""Everything that a training's result depends on.

    Make one with :func:`make_run`; two runs are the same if their addresses are.

    Parameters
    ----------
    scenario : Scenario
        Its ``num_parameters`` are the network's.
    training : Training
        Data set, network, optimiser.
    policy : str
        A name for :func:`adascale.comparison.load`, or ``NoiseFree``.
    nu : float
        :math:`\nu > 0`, what results are filed under.
    seed : int
        The realisation, >= 0: channels, partition, initial model, batches and noise.
    budget_factor : float
        The budget is :math:`\nu` times this (> 0); the paper's words ask for 1.
    placement : str
        Of the devices, see :func:`adascale.channel.draw`.
    every : int
        Evaluate after every so many rounds.
    delta : float
        :math:`\delta` of epsilon.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    scenario: Scenario
    training: Training
    policy: str
    nu: float
    seed: int
    budget_factor: float = 1.0
    placement: str = "radius"
    every: int = 25
    delta: float = 1e-5

    def __post_init__(self):
        for name in ("nu", "budget_factor"):
            if np.ndim(value := getattr(self, name)):
                raise ValueError(f"{name} must be one number, got {value!r}")
            object.__setattr__(self, name, float(check.positive(name, value)))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ValueError(f"seed must be a whole number >= 0, got {self.seed!r}")
        object.__setattr__(self, "seed", int(self.seed))
        check.whole("every", self.every)
        check.fraction("delta", self.delta)
        if self.policy != NOISE_FREE:
            load(self.policy)

    @property
    def specification(self) -> str:
        """The run as JSON text, the same for the same run."""
        return json.dumps({"format": FORMAT} | asdict(self), indent=1, sort_keys=True) + "\n"

    @property
    def address(self) -> str:
        """Sixteen hexadecimal digits of the SHA-256 of the specification."""
        return hashlib.sha256(self.specification.encode()).hexdigest()[:16]


class Finished(NamedTuple):
    """A result and how it came about."""

    row: dict
    """See :func:`perform`."""
    history: pd.DataFrame
    """See :class:`adascale.learning.training.Trained`."""


def make_run(dataset: str, policy: str, nu: float, seed: int, *, rounds: int | None = None, **changes) -> Run:
    r"""A run of a data set's preset, with what is named changed.

    Parameters
    ----------
    dataset : str
        ``digits``, ``mnist`` or ``cifar10``: the paper's scenario and training, d being the network's.
    policy, nu, seed
        As for :class:`Run`.
    rounds : int, optional
        A shorter horizon, to which the policy is tuned as well: the first so many rounds of the channel.
    **changes
        Any other field of :class:`Run`, :class:`~adascale.scenario.Scenario` or
        :class:`~adascale.learning.settings.Training`, such as ``budget_factor``, ``noise_power``, ``learning_rate``.

    Raises
    ------
    ValueError
        If there is no such data set, policy or field, the rounds are not 1 ... T, or a value is out of range.
    """
    scenario, training = (make() for make in _preset(dataset))
    if policy != NOISE_FREE:
        known, _ = load(policy)
        policy = policy if ":" in policy else known
    own = {kind: {field.name for field in fields(kind)} for kind in (Scenario, Training, Run)}
    for kind, fixed in ((Scenario, {"name", "num_rounds", "num_parameters"}), (Run, {"scenario", "training"})):
        own[kind] -= fixed
    own[Training] -= {"dataset"}
    taken = {kind: {name: changes.pop(name) for name in sorted(own[kind] & set(changes))} for kind in own}
    if changes:
        raise ValueError(f"{min(changes)!r} is nothing that a run has; expected one of "
                         f"{', '.join(sorted(set().union(*own.values())))}")  # fmt: skip
    if rounds is not None and check.whole("rounds", rounds) > scenario.num_rounds:
        raise ValueError(f"rounds must be at most the {scenario.num_rounds} of {scenario.name}, got {rounds}")
    training = replace(training, **taken[Training])
    size = models.size(training.model)
    horizon = rounds or scenario.num_rounds
    scenario = replace(scenario, **taken[Scenario], num_parameters=size, num_rounds=horizon)
    return Run(scenario, training, policy, nu, seed, **taken[Run])


def problem_of(run: Run) -> tuple[ReceiveScalingProblem, np.ndarray]:
    r"""The problem of a run's realisation, and its ``mean_gain`` of shape (M,)."""
    scenario = run.scenario
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, run.seed, placement=run.placement)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), run.nu * run.budget_factor)
    return problem, scenario.mean_gain(drawn.path_loss)


def described(run: Run) -> dict:
    """The first columns of a run's row, which are known before it is run: ``run`` to ``budget``."""
    return {
        "run": run.address,
        "dataset": run.training.dataset,
        "model": run.training.model,
        "policy": run.policy if run.policy == NOISE_FREE else load(run.policy)[0],
        "nu": run.nu,
        "seed": run.seed,
        "rounds": run.scenario.num_rounds,
        "shortened": run.scenario.num_rounds < _preset(run.training.dataset)[0]().num_rounds,
        "budget": run.nu * run.budget_factor,
    }


def perform(
    run: Run,
    *,
    device: str = "cpu",
    progress: bool = False,
    resume: Trained | None = None,
    keep: Callable[[State, list[dict]], None] | None = None,
) -> Finished:
    r"""Draw the channel of the seed, bring the policy's cost to the budget there, and train with its scalings.

    At one seed every policy and every :math:`\nu` meets the same channels, initial model, batches and noise directions.

    Parameters
    ----------
    run : Run
        What to do.
    device : str
        ``cpu`` or ``cuda``.
    progress : bool
        Show a progress bar on standard error.
    resume, keep
        As for :func:`adascale.learning.training.train`.

    Returns
    -------
    Finished
        The row has ``run`` (the address), ``dataset, model, policy, nu, seed, rounds, shortened, budget, penalty``
        (None without one), ``cost, order, rdp, delta, epsilon, test_accuracy, test_loss, floor_mean, floor_max,
        floor_max_round, wall_seconds`` (of the rounds that were run now), ``device, machine, threads, python, torch,
        numpy, commit`` (None outside a git checkout).

    Raises
    ------
    ValueError
        If the device is not there.
    FileNotFoundError
        If the data set is not on this machine.
    BudgetNotReached
        If no parameter of the policy costs the budget.
    """
    _check_device(device)
    training, scenario = run.training, run.scenario
    problem, mean_gain = problem_of(run)
    loaded = _load(training.dataset, training.input_scaling, data.root())
    if run.policy == NOISE_FREE:
        chosen, eta = None, None
    else:
        _, method = load(run.policy)
        chosen = method(problem, mean_gain)
        eta = policies.schedule(chosen, problem)
    start = time.perf_counter()
    trained = train(problem, eta, training, loaded, run.seed, device=device, every=run.every, delta=run.delta,
                    progress=progress, resume=resume, keep=keep)  # fmt: skip
    wall = time.perf_counter() - start
    last = trained.history.iloc[-1]
    row = described(run) | {
        "penalty": float(chosen.penalty) if hasattr(chosen, "penalty") else None,
        "cost": None if eta is None else float(problem.cost(eta)),
        "order": scenario.order,
        "rdp": None if eta is None else float(problem.rdp(eta)),
        "delta": run.delta,
        "epsilon": float(last.epsilon),
        "test_accuracy": float(last.accuracy),
        "test_loss": float(last.test_loss),
        "floor_mean": float(problem.floor.mean()),
        "floor_max": float(problem.floor.max()),
        "floor_max_round": int(problem.floor.argmax()),
        "wall_seconds": round(wall, 3),
        "device": torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else device,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "commit": _commit(),
    }
    return Finished(row, trained.history)


@lru_cache(maxsize=1)
def _load(dataset, input_scaling, root):
    """The runs of a sweep follow each other on one data set."""
    return data.load(dataset, input_scaling)


def _preset(dataset):
    if dataset not in _PRESETS:
        raise ValueError(f"dataset {dataset!r} is unknown; expected one of {', '.join(DATASETS)}")
    return _PRESETS[dataset]


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not available: {str(error).splitlines()[0]}") from None


@lru_cache(maxsize=1)
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
