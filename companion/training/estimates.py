r"""Trainings in which devices invert estimates of their channel: ``python -m companion make estimates``.

Beside the accuracy stand three epsilons of the same schedule: the one that is accounted for, what the server is left
with, and what can be promised before anybody knows the channel (:ref:`sec-estimates-found`).
"""

import math
from itertools import product

import numpy as np
import pandas as pd

from adascale import channel, policies, presets
from adascale.problem import Problem
from companion.privacy.observers import epsilon_at
from companion.results import Rows
from companion.summary import intervals
from companion.training import channel_estimates
from companion.training.channel_estimates import KINDS, true_noise_multiplier

BUDGETS = (0.01, 0.16)
SEEDS = range(10)
DELTA = 1e-5
"""Of the committed table."""
ERRORS = (
    "none",
    "-30 dB",
    "-20 dB",
    "-10 dB",
    "1000 pilots",
    "100 pilots",
    "10 pilots",
)
r""":math:`\zeta_m^2`, alike for all devices, or of pilots at full power, worse far away."""


def _square_error(scenario, path_loss, error):
    """Return the errors of the devices of a cell, shape (M,), from one of :data:`ERRORS`."""
    number, _, unit = error.partition(" ")
    if unit == "pilots":
        power = np.max(scenario.max_power)
        return channel_estimates.pilot_error(
            path_loss, int(number), power, scenario.noise_power
        )
    return np.full(path_loss.shape, 10 ** (float(number) / 10) if unit else 0.0)


def _accuracy(scenario, dataset, seed, etas, alignment):
    """Train a preset with the alignments of a realisation, whose seed is that of the training too."""
    from adascale.learning import Training, data  # slow to import
    from companion.training.signals import OnChannel

    training = Training.preset(dataset)
    loaded = data.load(training.dataset, training.input_scaling)
    federation = OnChannel(scenario, training, loaded, seed)
    state = federation.start()
    for eta, aligned in zip(etas, alignment.T, strict=True):
        state, _ = federation.step(state, eta, alignment_t=aligned)
    return federation.evaluate(state)[1]


CASES = {
    "digits": [
        *product((*ERRORS[:4], "10 pilots"), ["mmse"]),
        *product(("-20 dB", "-10 dB"), ["least-squares"]),
    ],
    # both kinds of estimates; without an error they are one
    "mnist": [("none", "mmse"), *product(ERRORS[1:], KINDS)],
}
"""What the committed table has of each data set."""
TRAINED = [(error, seed) for error in ("none", "-10 dB") for seed in range(4)]
"""Of MNIST's cases with MMSE, those that have an accuracy; the others have the leakage alone."""


def compared(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    r"""Return each case of the committed table against exact coefficients, on the same realisations.

    A row per budget and case: ``nu, error, kind``; ``lost``, ``low``, ``high``: what accuracy is lost against exact
    coefficients in so many paired ``trainings``, with its 95 % interval; the medians of the other columns, and
    ``beyond``, whether those of ``true`` or ``worst`` are lower bounds.
    """
    keys = ["nu", "error", "kind"]
    own = table[table["dataset"] == dataset]
    exact = own.loc[own["error"] == "none", ["nu", "seed", "accuracy"]]
    own = own.merge(exact, on=["nu", "seed"], suffixes=("", "_exact"))
    own["lost"] = own["accuracy_exact"] - own["accuracy"]
    cases = own.groupby(keys, sort=False)
    found = cases[[*own.loc[:, "misaligned":"highest"]]].median()
    # of no matter to a median below them all
    least = own[own["beyond"]].groupby(keys)[["true", "worst"]].min()
    lost = intervals(own.dropna(subset=["lost"]).groupby(keys)["lost"])
    return found.assign(
        beyond=(least.reindex(found.index) <= found[[*least]]).any(axis=1),
        trainings=cases["lost"].count(),
        lost=lost["centre"],
        low=lost["low"],
        high=lost["high"],
    ).reset_index()


TASKS = [
    (dataset, nu, *case, seed)
    for dataset, cases in CASES.items()
    for seed in SEEDS
    for nu in BUDGETS
    for case in cases
]


def rows(dataset: str, nu: float, error: str, kind: str, seed: int) -> Rows:
    r"""Yield the row of a case: what estimates do to accuracy, noise, power and privacy on one realisation.

    ``misaligned``, the bound of the mean energy of misalignment; ``noise``, the mean of :math:`w_t / 2`; ``epsilon``
    accounted for, ``true``, the mean over devices of the server's, ``worst`` of them, ``beyond``, whether these are
    lower bounds, and ``promised``, to the worst device.  And if the server took the true floor for its cap: ``over``,
    the share of rounds that then can have a device over its limit, and ``highest``, the largest power over it, in dB.
    """
    import torch

    torch.set_num_threads(1)
    scenario = presets.load(dataset).scenario
    rate = float(scenario.sampling_rate)
    fading = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    square = _square_error(scenario, fading.path_loss, error)
    believed = channel_estimates.estimate(fading, square, kind, seed=seed)
    law = channel_estimates.alignment_law(believed, fading.path_loss, square, kind)
    alignment = fading.coefficient / believed
    # eta is optimal for the floors of the estimates
    problem = Problem(scenario, scenario.min_gain(np.abs(believed) ** 2), nu)
    w = policies.Optimal().schedule(problem)
    sigma = problem.noise_multiplier(w)
    true, beyond = epsilon_at(rate, true_noise_multiplier(sigma, alignment), DELTA)
    # half of delta is for the bound, if anything is left to chance
    delta = DELTA if error == "none" else DELTA / 2
    bound = channel_estimates.alignment_bound(law, DELTA / 2)
    promised, _ = epsilon_at(rate, true_noise_multiplier(sigma, bound), delta)
    # at the true cap, of the device that needs the most
    true_floor = scenario.floor(scenario.min_gain(fading.gain))
    over = problem.min_noise_energy / true_floor
    accuracy = math.nan
    if dataset == "digits" or (kind == "mmse" and (error, seed) in TRAINED):
        accuracy = _accuracy(scenario, dataset, seed, problem.eta(w), alignment)
    yield {
        "dataset": dataset,
        "nu": nu,
        "error": error,
        "kind": kind,
        "seed": seed,
        "accuracy": accuracy,
        "misaligned": channel_estimates.misalignment(scenario, law.variance).mean(),
        "noise": w.mean() / 2,
        "epsilon": float(epsilon_at(rate, sigma[0], DELTA)[0]),
        "true": true.mean(),
        "worst": true.max(),
        "beyond": beyond.any(),
        "promised": promised.max(),
        "over": (over > 1 + 1e-9).mean(),
        "highest": 10 * np.log10(over.max()),
    }
