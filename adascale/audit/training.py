"""Audits of real trainings over the air."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale import checks as check
from adascale.accounting import Accountant, ExactAccountant, RenyiAccountant
from adascale.audit import scores
from adascale.audit.bounds import one_run_bound, paired_bound, scaled_bound
from adascale.audit.canaries import Canaries, GradientCanaries, SampleCanaries, audited_devices, batch_of
from adascale.learning import Dataset, Diverged, FedSGD, Training
from adascale.learning.fedsgd import State
from adascale.problem import ReceiveScalingProblem

FloatArray = NDArray[np.float64]

ACCOUNTANT: Accountant = ExactAccountant()
"""What an audit holds a schedule to: the least epsilon that is proven."""


class Audit(NamedTuple):
    r"""Trainings that were audited: bounds on :math:`\varepsilon` from below beside the one that is accounted for.

    All bounds hold together with the confidence.
    """

    kind: str
    """``gradients`` (white box) or ``samples`` (black box)."""
    runs: int
    """How many trainings."""
    canaries: int
    """m, of all of them together, half in the data by fair coins."""
    guesses: int
    """r, those that were guessed to be in, or out, for :attr:`one_run`."""
    right: int
    """v, the right ones."""
    delta: float
    r""":math:`\delta` of every epsilon here."""
    confidence: float
    """Of all bounds together."""
    renyi: float
    """Epsilon as :class:`~adascale.accounting.RenyiAccountant` accounts for the schedule."""
    accounted: float
    """The exact epsilon, an upper bound that no lower bound may exceed."""
    one_run: float
    """See :func:`~adascale.audit.one_run_bound`; it assumes nothing of the mechanism."""
    paired: float | None
    """See :func:`~adascale.audit.paired_bound`, of gradient canaries."""
    scaled: float | None
    """See :func:`~adascale.audit.scaled_bound`, of gradient canaries."""
    accuracy: float
    """On the test set, of the models that were trained with the canaries, on average."""

    @property
    def lower(self) -> float:
        """The larger of :attr:`one_run` and :attr:`paired`, which asks no more of the noise than independence."""
        return max(self.one_run, self.paired or 0.0)

    @property
    def refuted(self) -> dict[str, float]:
        """The bounds that exceed what is accounted for. There is none unless something is wrong."""
        bounds = {"one_run": self.one_run, "paired": self.paired, "scaled": self.scaled}
        return {name: each for name, each in bounds.items() if each is not None and each > self.accounted}


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
    r"""The strongest observer: gradient canaries in a training, found again in what the server receives.

    He knows the schedule, the canaries, all other samples and their batches, so that he can take their gradients off
    (:prf:ref:`prop-composition` allows him that); not the canaries' coins and batches, nor the noise.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One lane: the scenario, and how many rounds.
    eta : array_like
        :math:`\eta_t` of every round, shape (T,), within the power limit.
    training, dataset, seed
        As for :class:`~adascale.learning.fedsgd.FedSGD`.
    canaries : int
        In each training, 10 to d; they are on devices that have the rate and the divisor of the first one.
    runs : int
        How many trainings, at ``seed``, ``seed + 1``, ..., each with other canaries and the same schedule.
    delta : float
        :math:`\delta` in (0, 1), at most 1/(2m), where m are the canaries of all runs.
    confidence : float
        In (0, 1), of all bounds together.
    noise : bool
        False: the receiver has no noise, though the accountant believes in it.
    norm : float
        Of a canary's gradient, in units of C: more than 1 where the device does not clip, as the accountant believes.

    Raises
    ------
    ValueError
        If an argument is out of range, or they do not fit.
    Diverged
        If a parameter is no longer finite.
    """
    sigma, rate, epsilons = _claims(problem, eta, delta)
    doubt = 1 - check.fraction("confidence", confidence)
    each = 1 - doubt / 6  # three bounds, each with two thresholds, hold together
    total = check.whole("canaries", canaries) * check.whole("runs", runs)
    planned = scores.plan(rate, sigma, total, delta, each)
    score, present = np.zeros((runs, canaries)), np.zeros((runs, canaries), dtype=bool)
    accuracy = 0.0
    for i in range(runs):
        drawn = GradientCanaries.draw(problem.scenario, canaries, seed + i, norm)
        present[i] = drawn.present

        def listen(t: int, residual: Tensor, i: int = i, drawn: GradientCanaries = drawn) -> None:
            score[i] += scores.log_likelihood_ratio(drawn.heard(problem.scenario, residual), rate, sigma[t])

        accuracy += observe(problem, eta if noise else None, training, dataset, seed + i, drawn, listen)[0] / runs
    found, inside = score.ravel(), present.ravel()
    one_run = [(one_run_bound(total, r, v, delta, each), r, v) for r, v in (
        (r, scores.right_guesses(found, inside, r)) for r in planned.guesses
    )]  # fmt: skip
    paired, scaled = (
        [scores.count_alarms(found, inside, threshold) for threshold in (first, planned.thresholds[1])]
        for first in (planned.thresholds[0], 0.0)
    )
    best, guesses, right = max(one_run)
    return Audit(
        "gradients", runs, total, guesses, right, delta, confidence, *epsilons, best,
        max(paired_bound(counts, delta, each) for counts in paired),
        max(scaled_bound(counts, rate, sigma, delta, each) for counts in scaled), accuracy,
    )  # fmt: skip


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
    r"""An observer of the final model alone, who looks at its loss on mislabelled scans.

    The quarter with the least loss is guessed to be in, the quarter with the largest to be out.

    Parameters
    ----------
    problem, eta, training, dataset, seed, canaries, delta, confidence, noise
        As :func:`audit_gradients` takes them; as many canaries as there are test samples at most.

    Raises
    ------
    ValueError
        If an argument is out of range, or they do not fit.
    Diverged
        If a parameter is no longer finite.
    """
    _, _, epsilons = _claims(problem, eta, delta)
    check.fraction("confidence", confidence)
    drawn = SampleCanaries.mislabelled(dataset, training, canaries, seed)
    accuracy, last = observe(problem, eta if noise else None, training, dataset, seed, drawn)
    quarter = canaries // 4
    right = scores.right_guesses(-drawn.losses(last.parameters), drawn.present, quarter, quarter)
    bound = one_run_bound(canaries, 2 * quarter, right, delta, confidence)
    return Audit("samples", 1, canaries, 2 * quarter, right, delta, confidence, *epsilons, bound, None, None, accuracy)


def observe(
    problem: ReceiveScalingProblem,
    eta: ArrayLike | None,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: Canaries,
    listen: Callable[[int, Tensor], None] | None = None,
) -> tuple[float, State]:
    r"""A training with canaries on the air, and what is left of each round when the known data are taken off.

    The air adds, so the canaries' signal is added to what
    :meth:`FedSGD.step <adascale.learning.fedsgd.FedSGD.step>` received.

    Parameters
    ----------
    problem, training, dataset, seed
        As :func:`audit_gradients` takes them.
    eta : array_like or None
        The schedule; ``None`` for a receiver without noise.
    canaries : Canaries
        What is added.
    listen : callable, optional
        Called with each round and its residual, noise and canaries, shape (d,).

    Returns
    -------
    tuple
        Accuracy on the test set (0 ... 1), and the last state.

    Raises
    ------
    ValueError
        If the arguments do not fit.
    Diverged
        If a parameter is no longer finite.
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


def _claims(
    problem: ReceiveScalingProblem, eta: ArrayLike, delta: float
) -> tuple[FloatArray, float, tuple[float, float]]:
    """Noise multipliers and rate of the first device, and what its Renyi and exact epsilons are."""
    if problem.lanes != ():
        raise ValueError(f"problem must have one lane, got lanes {problem.lanes}")
    problem.spend(eta)  # says so if it exceeds the power limit
    device = int(audited_devices(problem.scenario)[0])
    sigma = problem.noise_multiplier(eta)[device]
    rate = float(np.ravel(problem.scenario.sampling_rate)[0])
    renyi, exact = (float(by.epsilon(rate, sigma, delta)) for by in (RenyiAccountant(), ACCOUNTANT))
    return sigma, rate, (renyi, exact)
