"""Audits by training runs with and without one sample."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale.audit import Audit, log_likelihood_ratio, plan
from adascale.audit.canaries import AUDIT, RUNS, coins, unit
from adascale.audit.conclusions import claimed, from_scores, noise_of
from adascale.checks import BoolArray, FloatArray
from adascale.learning import Dataset, FedSGD, Training
from adascale.learning.seeding import stream
from adascale.problem import Problem
from companion.privacy.black_box import SampleCanaries, from_losses


class Audited(NamedTuple):
    """What is audited: a schedule w of a problem, and the training with it at a seed."""

    problem: Problem
    w: ArrayLike
    training: Training
    dataset: Dataset
    seed: int


def paired_runs(
    audited: Audited, runs: int, *, noise: bool = True, norm: float = 1.0
) -> tuple[BoolArray, FloatArray, FloatArray, float]:
    r"""Train repeatedly, including one mislabelled sample or not by a fair coin.

    Return its presence, score and loss (nats) in each run, and the mean accuracy.

    The observer subtracts the result of the same round without sample and noise, :math:`\mathbf s_t`,
    and projects the rest onto the sample's gradient :math:`\mathbf g_t`, clipped to C and divided by :math:`M B_m`:

    .. math::
        u_t = \frac{\langle \tilde{\mathbf r}_t - \mathbf s_t, \mathbf g_t \rangle}{\lVert \mathbf g_t \rVert^2}, \qquad
        \text{with the noise multiplier } \frac{\sigma_t\, C}{M B_m \lVert \mathbf g_t \rVert} .

    The score sums :func:`~adascale.audit.log_likelihood_ratio` over rounds, the loss is that under the final model; for
    parameters see :func:`audit_paired`.
    """
    problem, w, _, _, seed = audited
    scenario, (rate, sigma) = problem.scenario, noise_of(problem, w)
    inside, outside, sample = neighbours(audited, norm)
    eta = problem.eta(w) if noise else np.full(problem.num_rounds, math.inf)
    present = coins(runs, seed)
    score = np.zeros(runs)
    loss = np.zeros(runs)
    accuracy = 0.0
    seeds = stream(seed, AUDIT, RUNS).integers(2**63, size=runs).tolist()
    for i, own_seed in enumerate(seeds):
        inside.seed = outside.seed = own_seed
        state = inside.start()
        for t, eta_t in enumerate(eta):
            after, _ = (inside if present[i] else outside).step(state, eta_t)
            # momentum and weight decay are the same in both
            quiet, _ = outside.step(state, math.inf)
            sent = sample.signal(scenario, np.array([0]), state.parameters).double()
            length = float(sent.norm())
            if length != 0:  # a vanishing gradient carries no information
                added = (after.velocity - quiet.velocity).double()
                heard = float(added @ sent) / length**2
                multiplier = sigma[t] * unit(scenario) / length
                score[i] += log_likelihood_ratio(heard, rate, multiplier)
            state = after
        loss[i] = sample.losses(state.parameters)[0]
        accuracy += inside.evaluate(state)[1] / runs
    return present, score, loss, accuracy


def audit_paired(
    audited: Audited, runs: int, *, noise: bool = True, norm: float = 1.0
) -> tuple[Audit, Audit]:
    """Audit with :func:`paired_runs`, one trial per run (Jagielski, Ullman and Oprea 2020).

    The first audit observes all that the server receives, the second only the sample's loss under the final model.
    ``norm`` is that to which devices clip, in units of the C that the accountant assumes; for the others see
    :func:`~adascale.audit.audit_gradients`.
    """
    claim = claimed(audited.problem, audited.w, delta=1e-5, confidence=0.95)
    planned = plan(claim.rate, claim.sigma, runs, claim.delta, claim.bound_confidence)
    present, score, loss, accuracy = paired_runs(audited, runs, noise=noise, norm=norm)
    return (
        from_scores("paired", runs, claim, planned, score, present, accuracy),
        from_losses("paired samples", runs, claim, loss, present, accuracy),
    )


def neighbours(
    audited: Audited, norm: float = 1.0
) -> tuple[FedSGD, FedSGD, SampleCanaries]:
    """Return the federation with the sample, the one without it, and the sample."""
    problem, _, training, dataset, seed = audited
    scenario = problem.scenario
    clipping = replace(scenario, clip_norm=norm * scenario.clip_norm)
    outside = FedSGD(clipping, training, dataset, seed)
    # all devices are alike; the last sample of one, so that all others have the same draws
    place = outside.parts[-1][-1]
    # n_m, B_m and q_m are public constants
    outside.parts[-1] = outside.parts[-1][:-1]
    label = dataset.labels[place]
    images = dataset.images.clone()
    other_classes = (dataset.test_labels != label).nonzero()
    # same label, so the partition does not change
    images[place] = dataset.test_images[other_classes[0, 0]]
    inside = FedSGD(clipping, training, dataset._replace(images=images), seed)
    sample = images[place : place + 1], label[None], np.array([True]), training
    return inside, outside, SampleCanaries(*sample)
