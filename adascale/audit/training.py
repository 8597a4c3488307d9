"""Audits of real trainings over the air."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from adascale import checks as check
from adascale.audit import scores
from adascale.audit.canaries import Canaries, GradientCanaries, SampleCanaries, batch_of
from adascale.audit.conclusions import Audit, claimed, from_losses, from_scores
from adascale.learning import Dataset, Diverged, FedSGD, Training
from adascale.learning.fedsgd import State
from adascale.problem import ReceiveScalingProblem


def audit_gradients(
    problem: ReceiveScalingProblem,
    eta: ArrayLike,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: int,
    *,
    runs: int = 1,
    delta: float = 1e-5,
    confidence: float = 0.95,
    noise: bool = True,
    norm: float = 1.0,
) -> Audit:
    r"""Audit by the strongest observer: gradient canaries, found again in what the server receives.

    The observer knows the schedule, the canaries, all other samples and their batches, and so subtracts their gradients
    (:prf:ref:`prop-composition` allows that); not the canaries' coins and batches, nor the noise.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One lane: the scenario, and how many rounds.
    eta : array_like, shape (T,), > 0
        :math:`\eta_t` of every round, within the power limit.
    training, dataset, seed
        As for :class:`~adascale.learning.fedsgd.FedSGD`.
    canaries : int, 10 to d
        In each training, on devices that have the rate and the divisor of the first one.
    runs : int, >= 1
        Number of trainings, at ``seed``, ``seed + 1``, ..., each with other canaries and the same schedule.
    delta : float, in (0, 1)
        At most 1/(2m), where m are the canaries of all runs.
    confidence : float, in (0, 1)
        Of all bounds together.
    noise : bool
        False: the receiver has no noise, though the accountant assumes it.
    norm : float, > 0
        Of a canary's gradient, in units of C: more than 1 where the device does not clip.
    """
    claim = claimed(problem, eta, delta, confidence)
    total = check.whole("canaries", canaries) * check.whole("runs", runs)
    planned = scores.plan(claim.rate, claim.sigma, total, delta, claim.each)
    score, present = np.zeros((runs, canaries)), np.zeros((runs, canaries), dtype=bool)
    accuracy = 0.0
    for i in range(runs):
        drawn = GradientCanaries.draw(problem.scenario, canaries, seed + i, norm)
        present[i] = drawn.present

        def listen(t: int, residual: Tensor, i: int = i, drawn: GradientCanaries = drawn) -> None:
            heard = drawn.heard(problem.scenario, residual)
            score[i] += scores.log_likelihood_ratio(heard, claim.rate, claim.sigma[t])

        accuracy += observe(problem, eta if noise else None, training, dataset, seed + i, drawn, listen)[0] / runs
    return from_scores("gradients", runs, claim, planned, score.ravel(), present.ravel(), accuracy)


def audit_samples(
    problem: ReceiveScalingProblem,
    eta: ArrayLike,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: int,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    noise: bool = True,
) -> Audit:
    """Audit by an observer of the final model alone, who looks at its loss on mislabelled scans.

    The quarter with the least loss is guessed to be in, the quarter with the largest to be out.

    Parameters
    ----------
    problem, eta, training, dataset, seed, canaries, delta, confidence, noise
        As for :func:`audit_gradients`; at most as many canaries as test samples.
    """
    claim = claimed(problem, eta, delta, confidence)
    drawn = SampleCanaries.mislabelled(dataset, training, canaries, seed)
    accuracy, last = observe(problem, eta if noise else None, training, dataset, seed, drawn)
    return from_losses("samples", 1, claim, drawn.losses(last.parameters), drawn.present, accuracy)


def observe(
    problem: ReceiveScalingProblem,
    eta: ArrayLike | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: Canaries,
    listen: Callable[[int, Tensor], None] | None = None,
) -> tuple[float, State]:
    """Train with canaries: return the accuracy on the test set (0 ... 1) and the last state.

    The air adds, so the canaries' signal is added to what
    :meth:`FedSGD.step <adascale.learning.fedsgd.FedSGD.step>` received.

    Parameters
    ----------
    problem, training, dataset, seed
        As for :func:`audit_gradients`.
    eta : array_like or None
        The schedule; ``None`` for a receiver without noise.
    canaries : Canaries
    listen : callable, optional
        Called with each round and what is left of it without the known data: noise and canaries, shape (d,).
    """
    scenario = problem.scenario
    schedule = np.full(problem.num_rounds, math.inf) if eta is None else np.asarray(eta, dtype=float)
    federation, rate = FedSGD(scenario, training, dataset, seed), float(np.ravel(scenario.sampling_rate)[0])
    state = federation.start()
    for t, eta_t in enumerate(schedule):
        after, _ = federation.step(state, float(eta_t))
        added = canaries.signal(scenario, batch_of(canaries.present, rate, seed, t), state.parameters)
        if listen is not None:
            # the same step without noise: the momentum of both differs by the noise alone
            quiet = after if eta is None else federation.step(state, math.inf)[0]
            listen(t, after.velocity - quiet.velocity + added)
        state = State(t + 1, after.parameters - training.learning_rate * added, after.velocity + added)
        if not torch.isfinite(state.parameters).all():
            raise Diverged(f"the training diverged in round {t}: parameters are no longer finite")
    return federation.evaluate(state)[1], state
