"""The execution of a run, which gives a result row and a history; needs the extra ``learn``."""

import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from adascale import accounting
from adascale.comparison import as_method, find_method
from adascale.learning import Dataset, data, train
from adascale.learning.devices import find_device
from adascale.policies import Policy, Selection
from adascale.problem import ReceiveScalingProblem
from adascale.runs.provenance import provenance
from adascale.runs.specification import (
    NOISE_FREE,
    Run,
    described,
    digest_of,
    loaded_digest,
)


class Finished(NamedTuple):
    """The row (:func:`perform`) and the history (:class:`~adascale.learning.training.Trained`) of a run."""

    row: dict[str, Any]
    history: pd.DataFrame


def problem_of(run: Run) -> tuple[ReceiveScalingProblem, NDArray[np.float64]]:
    """Return the problem of a run's realisation, and its ``mean_gain`` of shape (M,)."""
    scenario = run.scenario
    drawn = run.channel.draw(scenario.num_devices, scenario.num_rounds, run.seed)
    problem = ReceiveScalingProblem(
        scenario,
        scenario.min_gain(drawn.gain),
        run.nu * run.budget_factor,
        drawn.exposure,
    )
    return problem, scenario.mean_gain(drawn.path_loss)


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
    for kind, name in run.own_code.items():
        if (found := loaded_digest(kind, name)) != (wanted := run.sources[name]):
            raise ValueError(
                f"the code of {name} must have the digest {wanted}, got {found}; restart this process"
            )
    loaded = _load(run)
    problem, policy, schedule = decided(run)
    start = time.perf_counter()
    how |= {
        "device": device,
        "every": run.every,
        "delta": run.delta,
        "accountant": accounting.find(run.accountant),
    }
    trained = train(problem, schedule, run.training, loaded, run.seed, **how)
    seconds = round(time.perf_counter() - start, 3)
    last, floor = trained.history.iloc[-1], problem.min_noise_energy
    row = described(run)
    named = (
        () if policy is None else (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    )
    row |= {
        name: float(value)
        for name in named
        if (value := getattr(policy, name)) is not None
    }
    if isinstance(schedule, Selection):
        share = schedule.participation
        row |= {
            "cost": float(schedule.total - floor.mean()),
            "participation": float(share.mean()),
        }
        row |= {"participation_min": float(share.min())}
    else:
        row["cost"] = None if schedule is None else float(problem.cost(schedule))
    rdp = None
    if schedule is not None:
        rdp = float(
            schedule.rdp() if isinstance(schedule, Selection) else problem.rdp(schedule)
        )
    row |= {"order": run.scenario.order, "rdp": rdp, "delta": run.delta}
    row |= {name: float(last[name]) for name in ("epsilon", "epsilon_mean")}
    row |= {"test_accuracy": float(last.accuracy), "test_loss": float(last.test_loss)}
    row |= {
        "floor_mean": float(floor.mean()),
        "floor_max": float(floor.max()),
        "floor_max_round": int(floor.argmax()),
    }
    row["wall_seconds"] = seconds
    row["device"] = (
        torch.cuda.get_device_name(device)
        if torch.device(device).type == "cuda"
        else device
    )
    row |= {"threads": torch.get_num_threads()} | provenance("torch", "numpy")
    row["torch"] = (
        torch.__version__
    )  # with the build, which the distribution's version omits
    return Finished(row, trained.history)


def decided(
    run: Run,
) -> tuple[
    ReceiveScalingProblem, Policy | None, NDArray[np.float64] | Selection | None
]:
    """Return the problem of a run's realisation, the tuned policy and its schedule; None for ``NoiseFree``.

    A policy that chooses who sends gets the total noise energy of the others: the mean floor plus the budget.
    """
    problem, mean_gain = problem_of(run)
    if run.policy == NOISE_FREE:
        return problem, None, None
    method: Any = as_method(find_method(run.policy)[1], run.channel)
    if getattr(method, "chooses", False):
        gain = run.channel.draw(
            run.scenario.num_devices, problem.num_rounds, run.seed
        ).gain
        selecting = method.choosing(
            run.scenario, gain, problem.min_noise_energy.mean() + problem.budget
        )
        exposure = 1.0 if problem.exposure is None else problem.exposure
        return (
            problem,
            selecting,
            selecting.select(run.scenario, gain)._replace(exposure=exposure),
        )
    policy = method(problem, mean_gain)
    return problem, policy, policy.schedule(problem)


def _load(run: Run) -> Dataset:
    """Load the data of a run; raise ``ValueError`` if your own reader gives others than when the run was made."""
    training = run.training
    if run.data_digest is None:
        return _load_once(training.dataset, training.input_scaling, data.root())
    dataset = data.load(training.dataset, training.input_scaling)
    if (digest := digest_of(dataset)) != run.data_digest:
        raise ValueError(
            f"the data of {training.dataset} must have the digest {run.data_digest}, got {digest}"
        )
    return dataset


@lru_cache(maxsize=1)
def _load_once(dataset: str, input_scaling: str, root: Path) -> Dataset:
    return data.load(dataset, input_scaling)
