"""Whole trainings: round after round, with a history, and from where another one stopped."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from adascale import checks as check
from adascale.accounting import Accountant, RenyiAccountant
from adascale.errors import Diverged as Diverged
from adascale.learning.data import Dataset
from adascale.learning.fedsgd import FedSGD, State
from adascale.learning.gradients import NotFinite
from adascale.learning.settings import Training
from adascale.problem import ReceiveScalingProblem

COLUMNS = ("round", "batch_size", "loss", "clipped", "noise_energy", "test_loss", "accuracy", "epsilon")
"""Of a history, see :class:`Trained`."""


class Trained(NamedTuple):
    """A training, finished or on its way."""

    state: State
    history: pd.DataFrame
    r"""A table with one row a round, of the columns ``round, batch_size, loss`` (of the batches, before the step),
    ``clipped`` (share of their samples), ``noise_energy`` (:math:`w_t`); and where the model was evaluated, after the
    step, ``test_loss, accuracy`` and ``epsilon`` (of the rounds so far), NaN elsewhere."""


def train(
    problem: ReceiveScalingProblem,
    eta: ArrayLike | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    *,
    coefficient: NDArray[np.complex128] | None = None,
    device: str | torch.device = "cpu",
    every: int = 25,
    delta: float = 1e-5,
    accountant: Accountant | None = None,
    progress: bool = False,
    resume: Trained | None = None,
    keep: Callable[[State, list[dict[str, Any]]], None] | None = None,
) -> Trained:
    r"""A whole training with a schedule of receive scalings.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One lane: its scenario is the training's, its horizon the number of rounds.
    eta : array_like or None
        :math:`\eta_t` of every round, shape (T,), within the power limit; ``None`` for a receiver without noise.
    training, dataset, seed, device
        As for :class:`~adascale.learning.fedsgd.FedSGD`.
    coefficient : array_like, optional
        :math:`h_{m,t}`, shape (M, T): run every round at signal level.
    every : int
        Evaluate after every so many rounds, and after the last.
    delta : float
        :math:`\delta` of the epsilon so far.
    accountant : Accountant, optional
        What it is computed by; default :class:`~adascale.accounting.RenyiAccountant`.
    progress : bool
        Show a progress bar on standard error.
    resume : Trained, optional
        The first rounds of this very training: only the others are run.
    keep : callable
        Called after every round with the state and the rows of the history so far.

    Returns
    -------
    Trained
        On one machine, with the same versions and number of threads, the same to the last bit on the CPU, in one go or
        resumed.

    Raises
    ------
    ValueError
        If the schedule does not fit the problem, ``coefficient`` comes without one or in another shape, what is resumed
        has more rounds than it, or as ``FedSGD``.
    Diverged
        If a parameter, or the loss of a sample, is infinite or NaN after a round.  What was kept last is from before.
    """
    check.whole("every", every)
    rounds = problem.num_rounds
    if problem.lanes != ():
        raise ValueError(f"problem must have one lane, got lanes {problem.lanes}")
    if eta is None and coefficient is not None:
        raise ValueError("coefficient needs a schedule: without receiver noise there is no finite eta to send with")
    if coefficient is not None:
        coefficient = np.asarray(coefficient)
        if coefficient.shape != (problem.scenario.num_devices, rounds):
            raise ValueError(
                f"coefficient must have shape ({problem.scenario.num_devices}, {rounds}), got {coefficient.shape}"
            )
    limited = None if eta is None else _within_limit(problem, eta)
    schedule = [math.inf] * rounds if limited is None else limited
    account = RenyiAccountant() if accountant is None else accountant
    federation = FedSGD(problem.scenario, training, dataset, seed, device)
    state, rows = federation.start(), []
    if resume is not None:
        state, rows = resume.state, resume.history.to_dict("records")
        if not len(rows) == state.round <= rounds:
            raise ValueError(
                f"resume must hold as many rounds as its state, at most {rounds}, got {len(rows)} "
                f"and a state before round {state.round}"
            )
        state = state._replace(parameters=state.parameters.to(device), velocity=state.velocity.to(device))
    with tqdm(total=rounds, initial=state.round, disable=not progress, unit="round", desc=training.dataset) as bar:
        for t in range(state.round, rounds):
            try:
                state, shown = federation.step(state, schedule[t], None if coefficient is None else coefficient[:, t])
            except NotFinite as error:
                raise _diverged(t, str(error), training, rows) from None
            if not torch.isfinite(state.parameters).all():
                raise _diverged(t, "parameters are no longer finite", training, rows)
            row = {
                "round": t,
                "batch_size": shown.batch_size,
                "loss": shown.loss,
                "clipped": shown.clipped,
                "noise_energy": problem.scenario.noise_scale / schedule[t],
                "test_loss": math.nan,
                "accuracy": math.nan,
                "epsilon": math.nan,
            }
            if (t + 1) % every == 0 or t + 1 == rounds:
                row["test_loss"], row["accuracy"] = federation.evaluate(state)
                if not math.isfinite(row["test_loss"]):
                    raise _diverged(t, f"the test loss is {row['test_loss']}", training, rows)
                row["epsilon"] = math.inf
                if limited is not None:
                    row["epsilon"] = _epsilon_so_far(problem, limited[: t + 1], account, delta)
                bar.set_postfix_str(
                    f"loss {row['test_loss']:.3f}, accuracy {row['accuracy']:.3f}, epsilon {row['epsilon']:.2f}",
                    refresh=False,
                )
            rows.append(row)
            bar.update()
            if keep is not None:
                keep(state, rows)
    return Trained(state, pd.DataFrame(rows, columns=COLUMNS))


def _diverged(t: int, what: str, training: Training, rows: list[dict[str, Any]]) -> Diverged:
    error = Diverged(
        f"the training diverged in round {t}: {what}; try a learning rate below {training.learning_rate:g}, or a "
        "smaller nu, which is less noise"
    )
    error.history = pd.DataFrame(rows, columns=COLUMNS)
    return error


def _within_limit(problem: ReceiveScalingProblem, eta: ArrayLike) -> NDArray[np.float64]:
    schedule = check.positive("eta", eta)
    if schedule.shape != (problem.num_rounds,):
        raise ValueError(f"eta must have shape ({problem.num_rounds},), got {schedule.shape}")
    problem.spend(schedule)  # says so if it exceeds the power limit
    return schedule


def _epsilon_so_far(
    problem: ReceiveScalingProblem, eta: NDArray[np.float64], accountant: Accountant, delta: float
) -> float:
    so_far = ReceiveScalingProblem(problem.scenario, problem.min_gain[: eta.size], problem.budget)
    return float(so_far.epsilon(eta, accountant, delta))
