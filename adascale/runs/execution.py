"""The execution of a run, which gives a result row and a history; needs the extra ``learn``."""

import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from adascale import accounting
from adascale.channel import Channel
from adascale.checks import FloatArray
from adascale.comparison import find_method, reported_parameters
from adascale.comparison.costs import costs, decide
from adascale.learning import Dataset, data, train
from adascale.learning.devices import find_device
from adascale.policies import Policy, Selection
from adascale.problem import Problem
from adascale.runs.provenance import provenance
from adascale.runs.specification import (
    NOISE_FREE,
    Run,
    described,
    digest_of,
)


class Finished(NamedTuple):
    """The row (:func:`perform`) and the history (:class:`~adascale.learning.training.Trained`) of a run."""

    row: dict[str, Any]
    history: pd.DataFrame


def realisation_of(run: Run) -> tuple[Problem, Channel]:
    """Return the problem of a run's realisation, and the realisation; without ``nu``, the budget is 1 and ignored."""
    scenario = run.scenario
    draw = run.channel.draw(scenario.num_devices, scenario.num_rounds, run.seed)
    budget = 1.0 if run.nu is None else run.nu * run.budget_factor
    min_gain = scenario.min_gain(draw.gain)
    return Problem(scenario, min_gain, budget, draw.exposure), draw


def problem_of(run: Run) -> tuple[Problem, FloatArray]:
    """Return the problem of a run's realisation, and its ``mean_gain`` of shape (M,)."""
    problem, draw = realisation_of(run)
    return problem, run.scenario.mean_gain(draw.path_loss)


def perform(run: Run, *, device: str = "cpu", **how: Any) -> Finished:
    """Draw the channel of the seed, tune the policy to the budget there, and train with its scalings.

    ``device, progress, resume`` and ``keep`` are those of :func:`adascale.learning.training.train`.  The row has
    ``run`` (the address), ``dataset, model, policy, nu, seed, rounds, shortened, budget``, the ``tuned`` parameters of
    the policy, ``cost, order, rdp, delta, epsilon`` (which holds for every device), ``epsilon_mean`` (over devices),
    ``test_accuracy, test_loss, floor_mean, floor_max, floor_max_round, wall_seconds, device, threads`` and
    :func:`~adascale.runs.provenance.provenance`; of a policy that chooses who sends also ``participation,
    participation_min`` (:class:`~adascale.policies.Selection`).
    """
    find_device(device)
    loaded_sources = run.loaded_sources()
    for name, digest in run.sources.items():
        if loaded_sources[name] != digest:
            raise ValueError(
                f"the code of {name} must have the digest {digest}, got {loaded_sources[name]}"
            )
    dataset = _load(run)
    problem, policy, schedule = decided(run)
    start = time.perf_counter()
    how |= {
        "device": device,
        "every": run.every,
        "delta": run.delta,
        "accountant": accounting.find(run.accountant),
    }
    trained = train(problem, schedule, run.training, dataset, run.seed, **how)
    seconds = round(time.perf_counter() - start, 3)
    last = trained.history.iloc[-1]
    floor = problem.min_noise_energy
    row = described(run)
    if policy is not None:
        parameters = reported_parameters(policy)
        row |= {name: float(value) for name, value in parameters.items()}
    row |= _cost(problem, schedule)
    row |= {
        "delta": run.delta,
        "epsilon": float(last["epsilon"]),
        "epsilon_mean": float(last["epsilon_mean"]),
        "test_accuracy": float(last["accuracy"]),
        "test_loss": float(last["test_loss"]),
        "floor_mean": float(floor.mean()),
        "floor_max": float(floor.max()),
        "floor_max_round": int(floor.argmax()),
        "wall_seconds": seconds,
        "device": _device_name(device),
        "threads": torch.get_num_threads(),
    }
    row |= provenance("torch", "numpy")
    row["torch"] = torch.__version__  # with the build, unlike the distribution's
    return Finished(row, trained.history)


def _cost(problem: Problem, schedule: FloatArray | Selection | None) -> dict[str, Any]:
    """Return the cost, the order and the RDP of a schedule, and the participation if the policy chooses who sends."""
    order = {"order": problem.scenario.order}
    if schedule is None:
        return {"cost": None} | order | {"rdp": None}
    share = ["participation", "participation_min"]
    names = ["cost", *share] if isinstance(schedule, Selection) else ["cost"]
    measured = costs(problem, schedule)
    first = {name: float(measured[name]) for name in names}
    return first | order | {"rdp": float(measured["rdp"])}


def _device_name(device: str) -> str:
    on_gpu = torch.device(device).type == "cuda"
    return torch.cuda.get_device_name(device) if on_gpu else device


def decided(
    run: Run,
) -> tuple[Problem, Policy | None, FloatArray | Selection | None]:
    """Return the problem of a run's realisation, the tuned policy and its schedule; None for ``NoiseFree``.

    A policy that chooses who sends gets the total noise energy of the others: the mean floor plus the budget.
    """
    problem, draw = realisation_of(run)
    if run.policy == NOISE_FREE:
        return problem, None, None
    method = find_method(run.policy)[1]
    if problem.exposure is not None and "epsilon" in method.fixed:
        raise ValueError(
            f"{run.policy} guarantees epsilon with one receive chain, which {run.channel} exceeds"
        )
    total = problem.min_noise_energy.mean() + problem.budget
    return problem, *decide(method, problem, draw, total, run.channel)


def _load(run: Run) -> Dataset:
    """Load the data of a run; raise ``ValueError`` if your own reader gives others than when the run was made."""
    training = run.training
    if run.data_digest is None:
        return _load_once(training.dataset, training.input_scaling, data.root())
    dataset = data.load(training.dataset, training.input_scaling)
    digest = digest_of(dataset)
    if digest != run.data_digest:
        raise ValueError(
            f"the data of {training.dataset} must have the digest {run.data_digest}, got {digest}"
        )
    return dataset


@lru_cache(maxsize=1)
def _load_once(dataset: str, input_scaling: str, root: Path) -> Dataset:
    return data.load(dataset, input_scaling)
