"""Audits of real over-the-air training runs with canaries."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from adascale import checks as check
from adascale.audit.canaries import GradientCanaries, batch_of
from adascale.audit.conclusions import (
    Audit,
    claimed,
    from_scores,
    log_likelihood_ratio,
    plan,
)
from adascale.learning import Dataset, Diverged, FedSGD, Training
from adascale.learning.fedsgd import State
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import FloatArray


def audit_gradients(
    problem: ReceiveScalingProblem,
    w: ArrayLike,
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
    """Audit with gradient canaries, observed in all that the server receives.

    The observer knows everything except the noise and the canaries' coins and batches (:prf:ref:`prop-composition`).

    Parameters
    ----------
    problem : ReceiveScalingProblem, without leading axes
    w : array_like, shape (T,), noise energies within the power limit
    training, dataset, seed : see :class:`~adascale.learning.fedsgd.FedSGD`
    canaries : int, 10 to d per training run
    runs : int, >= 1, training runs at ``seed``, ``seed + 1``, ...
    delta : float, in (0, 1), at most 1/(2m) for m canaries in all runs
    confidence : float, in (0, 1), jointly for all bounds
    noise : bool
        Whether the receiver has the noise that the accountant assumes.
    norm : float, > 0
        Norm of a canary's gradient, in units of C.
    """
    claim = claimed(problem, w, delta, confidence)
    total = check.whole("canaries", canaries) * check.whole("runs", runs)
    planned = plan(claim.rate, claim.sigma, total, delta, claim.each)
    scenario, accuracy = problem.scenario, 0.0
    scores, present = np.zeros((runs, canaries)), np.zeros((runs, canaries), dtype=bool)
    for i in range(runs):
        drawn = GradientCanaries.draw(scenario, canaries, seed + i, norm)
        present[i] = drawn.present

        def listen(
            t: int,
            residual: Tensor,
            drawn: GradientCanaries = drawn,
            score: FloatArray = scores[i],
        ) -> None:
            heard = drawn.heard(scenario, residual)
            score += log_likelihood_ratio(heard, claim.rate, claim.sigma[t])

        received = w if noise else None
        run = problem, received, training, dataset, seed + i, drawn, listen
        accuracy += observe(*run)[0] / runs
    return from_scores(
        "gradients", runs, claim, planned, scores.ravel(), present.ravel(), accuracy
    )


def observe(
    problem: ReceiveScalingProblem,
    w: ArrayLike | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: Any,
    listen: Callable[[int, Tensor], None] | None = None,
) -> tuple[float, State]:
    """Train with canaries in the received sum; return the test accuracy (0 ... 1) and the last state.

    Parameters
    ----------
    problem, training, dataset, seed : see :func:`audit_gradients`
    w : array_like, shape (T,), noise energies, or None for a receiver without noise
    canaries : GradientCanaries, or an object with the same ``present`` and ``signal``
    listen : callable, optional
        Called with the index of each round and its noise plus canaries, shape (d,).
    """
    scenario = problem.scenario
    rate = float(np.ravel(scenario.sampling_rate)[0])
    eta = np.full(problem.num_rounds, math.inf) if w is None else problem.eta(w)
    # as if the observer cancelled the rest of the noise, and decoded device 0 with all chains
    exposure = 1.0 if problem.exposure is None else problem.exposure[0]
    protecting = np.broadcast_to(np.sqrt(scenario.noise_share / exposure), eta.shape)
    federation = FedSGD(scenario, training, dataset, seed)
    state = federation.start()
    for t, eta_t in enumerate(eta.tolist()):
        after, _ = federation.step(state, eta_t)
        batch = batch_of(canaries.present, rate, seed, t)
        signal = canaries.signal(scenario, batch, state.parameters)
        if listen is not None:
            # the same step without noise: their momentum differs only by the noise
            quiet = after if w is None else federation.step(state, math.inf)[0]
            noise = after.velocity - quiet.velocity
            listen(t, float(protecting[t]) * noise + signal)
        state = after._replace(
            parameters=after.parameters - training.learning_rate * signal,
            velocity=after.velocity + signal,
        )
        if not torch.isfinite(state.parameters).all():
            raise Diverged(
                f"the training diverged in round {t}: parameters are no longer finite"
            )
    return federation.evaluate(state)[1], state
