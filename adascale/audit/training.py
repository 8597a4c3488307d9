"""Audits of real over-the-air training runs with canaries."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.audit.canaries import GradientCanaries, batch_of
from adascale.audit.conclusions import (
    Audit,
    claimed,
    from_scores,
    log_likelihood_ratio,
    plan,
)
from adascale.checks import FloatArray
from adascale.learning import Dataset, FedSGD, Training
from adascale.learning.fedsgd import State
from adascale.problem import Problem


def audit_gradients(
    problem: Problem,
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
    problem : Problem, without leading axes
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
    planned = plan(claim.rate, claim.sigma, total, delta, claim.bound_confidence)
    scores = []
    coins = []
    accuracy = 0.0
    for own_seed in range(seed, seed + runs):
        placed = GradientCanaries.draw(problem.scenario, canaries, own_seed, norm)
        received = w if noise else None
        run = observe(problem, received, training, dataset, own_seed, placed)
        ratio = log_likelihood_ratio(run.heard, claim.rate, claim.sigma[:, None])
        scores.append(ratio.sum(axis=0))
        coins.append(placed.present)
        accuracy += run.accuracy / runs
    score = np.concatenate(scores)
    present = np.concatenate(coins)
    return from_scores("gradients", runs, claim, planned, score, present, accuracy)


class Observed(NamedTuple):
    """A training with canaries, as its observer sees it."""

    accuracy: float
    """On the test set, 0 ... 1."""
    state: State
    """After the last round."""
    heard: FloatArray
    """What each canary adds to each round, plus noise, in units of its sensitivity, shape (T, k).

    It is empty if the canaries are not :class:`~adascale.audit.GradientCanaries`.
    """


def observe(
    problem: Problem,
    w: ArrayLike | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: Any,
) -> Observed:
    """Train with canaries in the received sum.

    Parameters
    ----------
    problem, training, dataset, seed : see :func:`audit_gradients`
    w : array_like, shape (T,), noise energies, or None for a receiver without noise
    canaries : GradientCanaries, or an object with the same ``present`` and ``signal``, whose signals are not observed
    """
    scenario = problem.scenario
    rate = float(np.ravel(scenario.sampling_rate)[0])
    eta = np.full(problem.num_rounds, math.inf) if w is None else problem.eta(w)
    # as if the observer cancelled the rest of the noise, and decoded device 0 with all receive chains
    exposure = 1.0 if problem.exposure is None else problem.exposure[0]
    protecting = np.broadcast_to(np.sqrt(scenario.noise_share / exposure), eta.shape)
    federation = FedSGD(scenario, training, dataset, seed)
    state = federation.start()
    heard = []
    for t, eta_t in enumerate(eta.tolist()):
        after, _ = federation.step(state, eta_t)
        batch = batch_of(canaries.present, rate, seed, t)
        signal = canaries.signal(scenario, batch, state.parameters)
        if isinstance(canaries, GradientCanaries):
            # the same step without noise: their momentum differs only by the noise
            quiet = after if w is None else federation.step(state, math.inf)[0]
            noise = after.velocity - quiet.velocity
            residual = float(protecting[t]) * noise + signal
            heard.append(canaries.heard(scenario, residual))
        state = after._replace(
            parameters=after.parameters - training.learning_rate * signal,
            velocity=after.velocity + signal,
        )
    return Observed(federation.evaluate(state)[1], state, np.array(heard))
