r"""Trainings in which devices invert estimates of their channel: ``python -m companion make estimates``.

Beside the accuracy stand three epsilons of the same schedule: the one that is accounted for, what the server is left
with, and what can be promised before anybody knows the channel (:ref:`sec-estimates-found`).
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale import channel, policies, presets
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
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


class Realisation(NamedTuple):
    """One cell with its horizon, as the devices believe it to be and as it is.

    The problem has the floors of the estimates, for which eta is optimal; ``true_floor`` has those of the coefficients.
    Both have the shape (T,), the alignments :math:`c_{m,t}` the shape (M, T); ``law`` is theirs, given the estimates.
    """

    problem: Problem
    true_floor: FloatArray
    energy: FloatArray
    alignment: NDArray[np.complex128]
    law: channel_estimates.AlignmentLaw


def realise(
    scenario: Scenario, nu: float, error: str, kind: str, seed: int
) -> Realisation:
    """Draw a channel and its estimates with one of :data:`ERRORS`, and solve the problem that is believed."""
    fading = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    number, _, unit = error.partition(" ")
    square = np.full(
        fading.path_loss.shape, 10 ** (float(number) / 10) if unit == "dB" else 0.0
    )
    if unit == "pilots":
        power = float(np.max(scenario.max_power))
        square = channel_estimates.pilot_error(
            fading.path_loss, int(number), power, scenario.noise_power
        )
    believed = channel_estimates.estimate(fading, square, kind, seed=seed)
    problem = Problem(scenario, scenario.min_gain(np.abs(believed) ** 2), nu)
    true_floor = scenario.floor(scenario.min_gain(fading.gain))
    law = channel_estimates.alignment_law(believed, fading.path_loss, square, kind)
    return Realisation(
        problem,
        true_floor,
        policies.Optimal().schedule(problem),
        fading.coefficient / believed,
        law,
    )


def epsilons(
    scenario: Scenario, sigma: FloatArray, delta: float = DELTA
) -> tuple[FloatArray, bool]:
    r"""Return each device's exact :math:`\varepsilon` from multipliers (M, T), and whether some are lower bounds.

    They are where a multiplier is below :data:`~companion.privacy.observers.LEAST_SIGMA`, which is put in its place.
    """
    rate = np.broadcast_to(scenario.sampling_rate, scenario.num_devices)
    rows, row_of = np.unique(
        np.column_stack([rate, sigma]), axis=0, return_inverse=True
    )
    pairs = [epsilon_at(float(row[0]), row[1:], delta) for row in rows]
    return np.array([value for value, _ in pairs])[row_of.ravel()], any(
        beyond for _, beyond in pairs
    )


def leakage_row(
    scenario: Scenario, nu: float, error: str, kind: str, seed: int
) -> dict[str, Any]:
    r"""Compute what estimates do to noise, power and privacy on one realisation.

    ``misaligned``, the bound of the mean energy of misalignment; ``noise``, the mean of :math:`w_t / 2`; ``epsilon``
    accounted for, ``true``, the mean over devices of the server's, ``worst`` of them, ``beyond``, whether these are
    lower bounds, and ``promised``, to the worst device.  And if the server took the true floor for its cap: ``over``,
    the share of rounds that then can have a device over its limit, and ``highest``, the largest power over it, in dB.
    """
    realised = realise(scenario, nu, error, kind, seed)
    sigma = realised.problem.noise_multiplier(realised.energy)
    true, beyond = epsilons(scenario, true_noise_multiplier(sigma, realised.alignment))
    bound = channel_estimates.alignment_bound(realised.law, DELTA / 2)
    exact = error == "none"  # nothing is left to chance
    promised = (
        true
        if exact
        else epsilons(scenario, true_noise_multiplier(sigma, bound), DELTA / 2)[0]
    )
    # at the true cap, of the device that needs the most
    over = realised.problem.min_noise_energy / realised.true_floor
    return {
        "misaligned": channel_estimates.misalignment(
            scenario, realised.law.variance
        ).mean(),
        "noise": realised.energy.mean() / 2,
        "epsilon": epsilons(scenario, sigma)[0].mean(),
        "true": true.mean(),
        "worst": true.max(),
        "beyond": beyond,
        "promised": promised.max(),
        "over": (over > 1 + 1e-9).mean(),
        "highest": 10 * np.log10(over.max()),
    }


def training_row(
    dataset: str, nu: float, error: str, kind: str, seed: int
) -> dict[str, float]:
    r"""One training of a preset with the alignments of a realisation, whose seed is that of the training too.

    Its ``accuracy``, and ``measured``, the mean over every 20th round of
    :math:`\lVert\frac1M\sum_m(\mathrm{Re}\,c_{m,t} - \bar c_m)\mathbf g_{m,t}\rVert^2`.
    """
    from adascale.learning import Training, data  # slow to import
    from companion.training.signals import OnChannel

    scenario = presets.load(dataset).scenario
    training = Training.preset(dataset)
    realised = realise(scenario, nu, error, kind, seed)
    federation = OnChannel(
        scenario, training, data.load(training.dataset, training.input_scaling), seed
    )
    state = federation.start()
    measured = []
    for t, eta in enumerate(realised.problem.eta(realised.energy)):
        aligned = realised.alignment[:, t]
        if t % 20 == 0:
            received, on_average = (
                federation.step(state, math.inf, alignment_t=weights)[0].velocity
                for weights in (aligned, realised.law.mean[:, t])
            )
            measured.append(float((received - on_average).square().sum()))
        state, _ = federation.step(
            state, float(eta), alignment_t=None if error == "none" else aligned
        )
    return {
        "accuracy": federation.evaluate(state)[1],
        "measured": float(np.mean(measured)),
    }


CASES: Mapping[str, list[tuple[str, str]]] = {
    "digits": [(error, "mmse") for error in (*ERRORS[:4], "10 pilots")]
    + [(error, "least-squares") for error in ("-20 dB", "-10 dB")],
    # both kinds of estimates; without an error they are one
    "mnist": [("none", "mmse"), *product(ERRORS[1:], KINDS)],
}
"""What the committed table has of each data set."""
TRAINED: Mapping[str, tuple[range, list[tuple[str, str]]]] = {
    "digits": (SEEDS, CASES["digits"]),
    "mnist": (range(4), [("none", "mmse"), ("-10 dB", "mmse")]),
}
"""Seeds and cases of which it has an accuracy; elsewhere it has the leakage alone."""


def compared(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    r"""Return each case of the committed table against exact coefficients, on the same realisations.

    A row per budget and case: ``nu, error, kind``; ``accuracy``, the mean, of so many ``trainings``, and ``lost``,
    ``low``, ``high``: what is lost against exact coefficients, paired, with its 95 % interval; the medians of the other
    columns, and ``beyond``, whether those of ``true`` or ``worst`` are lower bounds.
    """
    keys = ["nu", "error", "kind"]
    own = table[table["dataset"] == dataset].set_index(["nu", "seed"], drop=False)
    exact = own.loc[own["error"] == "none", "accuracy"]
    own = own.assign(lost=exact.reindex(own.index) - own["accuracy"])
    own = own.reset_index(drop=True)
    cases = own.groupby(keys, sort=False)
    found = cases[[*own.loc[:, "measured":"highest"]]].median()
    # of no matter to a median below them all
    least = own[own["beyond"]].groupby(keys)[["true", "worst"]].min()
    lost = intervals(own.dropna(subset=["lost"]).groupby(keys)["lost"])
    trained = cases["accuracy"].agg(accuracy="mean", trainings="count")
    return found.assign(
        beyond=(least.reindex(found.index) <= found[[*least]]).any(axis=1),
        **trained,
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
    """Yield the row of a case."""
    import torch

    torch.set_num_threads(1)
    case: dict[str, Any] = {"nu": nu, "error": error, "kind": kind, "seed": seed}
    seeds, cases = TRAINED[dataset]
    trained = {"accuracy": math.nan, "measured": math.nan}
    if seed in seeds and (error, kind) in cases:
        trained = training_row(dataset, **case)
    scenario = presets.load(dataset).scenario
    yield {"dataset": dataset} | case | trained | leakage_row(scenario, **case)
