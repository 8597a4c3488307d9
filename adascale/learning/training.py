"""Whole trainings with a history, which can be resumed."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from tqdm import tqdm

from adascale import checks as check
from adascale.accounting import Accountant, RenyiAccountant
from adascale.accounting.interval import round_outward
from adascale.errors import Diverged as Diverged
from adascale.learning.data import Dataset
from adascale.learning.fedsgd import FedSGD, State
from adascale.learning.gradients import NotFinite
from adascale.learning.settings import Training
from adascale.policies import Selection
from adascale.problem import ReceiveScalingProblem, over_devices

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
    problem: ReceiveScalingProblem,
    schedule: ArrayLike | Selection | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    *,
    device: str | torch.device = "cpu",
    every: int = 25,
    delta: float = 1e-5,
    accountant: Accountant | None = None,
    progress: bool = False,
    resume: Trained | None = None,
    keep: Callable[[State, list[dict[str, Any]]], None] | None = None,
) -> Trained:
    r"""Train with a schedule of receive scalings; on the CPU, results are reproducible to the last bit, also resumed.

    Parameters
    ----------
    problem : ReceiveScalingProblem
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
    check.whole("every", every)
    rounds, scenario = problem.num_rounds, problem.scenario
    if problem.lanes != ():
        raise ValueError(f"problem must have one instance, got shape {problem.lanes}")
    chosen = None
    if schedule is None:
        eta = np.full(rounds, math.inf)
    elif isinstance(schedule, Selection):
        chosen, eta = schedule, schedule.eta
    else:
        eta = problem.eta(schedule)
    if eta.shape != (rounds,):
        raise ValueError(f"schedule must have shape ({rounds},), got {eta.shape}")
    energy = np.divide(
        scenario.noise_scale, eta, out=np.full(rounds, math.inf), where=eta > 0
    )
    account = RenyiAccountant() if accountant is None else accountant
    federation = FedSGD(scenario, training, dataset, seed, device)
    state, rows = federation.start(), []
    if resume is not None:
        state, rows = resume.state, resume.history.to_dict("records")
        if not len(rows) == state.round <= rounds:
            got = f"{len(rows)} and a state before round {state.round}"
            raise ValueError(
                f"resume must hold as many rounds as its state, at most {rounds}, got {got}"
            )
        state = state._replace(
            parameters=state.parameters.to(device), velocity=state.velocity.to(device)
        )

    def diverged(what: str) -> Diverged:
        remedy = f"try a learning rate below {training.learning_rate:g}, or a smaller nu, which is less noise"
        error = Diverged(f"the training diverged in round {t}: {what}; {remedy}")
        error.history = pd.DataFrame(rows, columns=COLUMNS)
        return error

    with tqdm(
        total=rounds,
        initial=state.round,
        disable=not progress,
        unit="round",
        desc=training.dataset,
    ) as bar:
        for t in range(state.round, rounds):
            try:
                state, shown = federation.step(
                    state, eta[t], senders_t=chosen.senders[:, t] if chosen else None
                )
            except NotFinite as error:
                raise diverged(str(error)) from None
            if not torch.isfinite(state.parameters).all():
                raise diverged("parameters are no longer finite")
            test_loss = accuracy = math.nan
            leaked = dict.fromkeys(("epsilon", "epsilon_mean"), math.nan)
            if (t + 1) % every == 0 or t + 1 == rounds:
                test_loss, accuracy = federation.evaluate(state)
                if not math.isfinite(test_loss):
                    raise diverged(f"the test loss is {test_loss}")
                devices = np.array([math.inf])
                seen = (
                    None if problem.exposure is None else problem.exposure[..., : t + 1]
                )
                if chosen:
                    begun = chosen._replace(
                        eta=eta[: t + 1], senders=chosen.senders[:, : t + 1]
                    )
                    begun = begun if seen is None else begun._replace(exposure=seen)
                    devices = begun.epsilons(account, delta)
                elif schedule is not None:
                    so_far = ReceiveScalingProblem(
                        scenario, problem.min_gain[: t + 1], problem.budget, seen
                    )
                    devices = so_far.epsilons(energy[: t + 1], account, delta)
                leaked = {
                    name: float(value) for name, value in over_devices(devices).items()
                }
                shown_epsilon = f"{round_outward(leaked['epsilon'], up=True):.6g}"
                text = f"loss {test_loss:.3f}, accuracy {accuracy:.3f}, epsilon {shown_epsilon}"
                bar.set_postfix_str(text, refresh=False)
            row = (t, *shown[:3], energy[t], test_loss, accuracy, *leaked.values())
            rows.append(dict(zip(COLUMNS, row, strict=True)))
            bar.update()
            if keep is not None:
                keep(state, rows)
    return Trained(state, pd.DataFrame(rows, columns=COLUMNS))
