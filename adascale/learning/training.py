"""Whole trainings with a history, which can be resumed."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from tqdm import tqdm

from adascale.accounting import Accountant
from adascale.accounting.interval import round_outward
from adascale.checks import FloatArray
from adascale.errors import Diverged as Diverged
from adascale.learning.data import Dataset
from adascale.learning.fedsgd import FedSGD, State
from adascale.learning.settings import Training
from adascale.policies import Selection
from adascale.problem import RENYI, Problem, over_devices

COLUMNS = (
    "round",
    "batch_size",
    "loss",
    "clipped",
    "noise_energy",
    "test_loss",
    "accuracy",
    "epsilon",
    "epsilon_mean",
)
"""The columns of a history, see :class:`Trained`."""


class Trained(NamedTuple):
    """A training, finished or not."""

    state: State
    history: pd.DataFrame
    """One row per round of :data:`COLUMNS`.

    ``epsilon`` holds for every device, and ``epsilon_mean`` is the mean over devices.  These, ``test_loss`` and
    ``accuracy`` are NaN where the model was not evaluated.
    """


def train(
    problem: Problem,
    schedule: ArrayLike | Selection | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    *,
    device: str | torch.device = "cpu",
    every: int = 25,
    delta: float = 1e-5,
    accountant: Accountant = RENYI,
    progress: bool = False,
    resume: Trained | None = None,
    keep: Callable[[State, list[dict[str, Any]]], None] | None = None,
) -> Trained:
    r"""Train with a schedule of receive scalings; on the CPU, results are reproducible to the last bit, also resumed.

    Parameters
    ----------
    problem : Problem
        One instance.
    schedule : array_like, shape (T,), or Selection, or None
        Noise energies :math:`w_t` within the power limit; None for a receiver without noise; a
        :class:`~adascale.policies.Selection` of these rounds also says who sends.
    training, dataset, seed, device
        As for :class:`~adascale.learning.fedsgd.FedSGD`.
    every : int, >= 1
        Rounds between evaluations; the last round is always evaluated.
    delta, accountant
        For epsilon; default accountant: :class:`~adascale.accounting.RenyiAccountant`.
    progress : bool
    resume : Trained, optional
        The first rounds of this same training.
    keep : callable, optional
        Called after every round with the state and the rows of the history so far.

    Raises
    ------
    Diverged
        If a parameter or a loss is not finite after a round.
    """
    scenario = problem.scenario
    rounds = problem.num_rounds
    eta = scalings(problem, schedule)
    with np.errstate(divide="ignore"):  # eta is 0 in a round without senders
        energy = scenario.noise_scale / eta
    senders = schedule.senders.T if isinstance(schedule, Selection) else [None] * rounds
    federation = FedSGD(scenario, training, dataset, seed, device)
    state = federation.start()
    rows = []
    if resume is not None:
        rows = resume.history.to_dict("records")
        state = resume.state._replace(
            parameters=resume.state.parameters.to(device),
            velocity=resume.state.velocity.to(device),
        )
    bar = tqdm(
        total=rounds,
        initial=state.round,
        disable=not progress,
        unit="round",
        desc=training.dataset,
    )
    with bar:
        for t in range(state.round, rounds):
            evaluation: tuple[float, ...] = (math.nan,) * 4
            try:
                state, record = federation.step(state, eta[t], senders_t=senders[t])
                if (t + 1) % every == 0 or t + 1 == rounds:
                    loss, accuracy = federation.evaluate(state)
                    begun = eta[: t + 1]
                    leaked = epsilon_so_far(problem, schedule, begun, accountant, delta)
                    evaluation = loss, accuracy, *leaked
                    epsilon = f"{round_outward(leaked[0], up=True):.6g}"
                    bar.set_postfix(loss=loss, accuracy=accuracy, epsilon=epsilon)
            except Diverged as error:
                failed = Diverged(f"the training diverged in round {t}: {error}")
                failed.history = pd.DataFrame(rows, columns=COLUMNS)
                raise failed from None
            row = (t, *record[:3], energy[t], *evaluation)
            rows.append(dict(zip(COLUMNS, row, strict=True)))
            bar.update()
            if keep is not None:
                keep(state, rows)
    return Trained(state, pd.DataFrame(rows, columns=COLUMNS))


def scalings(problem: Problem, schedule: ArrayLike | Selection | None) -> FloatArray:
    """Return the receive scaling of every round in watts, ``inf`` for a receiver without noise, shape (T,)."""
    rounds = problem.num_rounds
    if schedule is None:
        return np.full(rounds, math.inf)
    eta = schedule.eta if isinstance(schedule, Selection) else problem.eta(schedule)
    if eta.shape != (rounds,):
        raise ValueError(f"schedule must have shape ({rounds},), got {eta.shape}")
    return eta


def epsilon_so_far(
    problem: Problem,
    schedule: ArrayLike | Selection | None,
    eta: FloatArray,
    accountant: Accountant,
    delta: float,
) -> tuple[float, float]:
    """Return the largest epsilon of a device after the first rounds of a schedule, and the mean over devices.

    ``eta`` has the scalings of these rounds, and so their number.
    """
    if schedule is None:
        return math.inf, math.inf
    rounds = len(eta)
    scenario = problem.scenario
    exposure = None if problem.exposure is None else problem.exposure[..., :rounds]
    if isinstance(schedule, Selection):
        begun = schedule._replace(eta=eta, senders=schedule.senders[:, :rounds])
        if exposure is not None:
            begun = begun._replace(exposure=exposure)
        devices = begun.epsilons(accountant, delta)
    else:
        min_gain = problem.min_gain[:rounds]
        part = Problem(scenario, min_gain, problem.budget, exposure)
        devices = part.epsilons(scenario.noise_scale / eta, accountant, delta)
    epsilon, epsilon_mean = over_devices(devices).values()
    return float(epsilon), float(epsilon_mean)
