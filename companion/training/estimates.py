r"""Trainings in which devices invert estimates of their channel: ``python -m companion make estimates``.

Beside the accuracy stand three epsilons of the same schedule: the one that is accounted for, what the server is left
with, and what can be promised before anybody knows the channel (:ref:`sec-estimates`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from adascale import channel, policies, presets
from adascale.learning import Training, data
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario
from adascale.statistics import interval
from companion.privacy.observers import epsilon_at
from companion.results import Made
from companion.training import channel_estimates
from companion.training.signals import OnChannel

FloatArray = NDArray[np.float64]

BUDGETS = (0.01, 0.16)
SEEDS = range(10)
"""The realisations of the committed table."""
KINDS = ("mmse", "least-squares")
DELTA = 1e-5
COLUMNS = (
    "dataset",
    "nu",
    "error",
    "kind",
    "seed",
    "accuracy",
    "measured",
    "misaligned",
    "noise",
    "epsilon",
    "true",
    "worst",
    "beyond",
    "promised",
    "over",
    "highest",
    "epsilon_over",
)
"""Of the table, see :func:`leakage_row` and :func:`training_row`."""


def _relative(decibels: float) -> Callable[[Scenario, FloatArray], FloatArray]:
    return lambda scenario, path_loss: np.full(path_loss.shape, 10 ** (decibels / 10))


def _pilots(symbols: int) -> Callable[[Scenario, FloatArray], FloatArray]:
    def error(scenario: Scenario, path_loss: FloatArray) -> FloatArray:
        power = float(np.max(scenario.max_power))
        return channel_estimates.pilot_error(path_loss, symbols, power, scenario.noise_power)

    return error


ERRORS: Mapping[str, Callable[[Scenario, FloatArray], FloatArray]] = {
    "none": lambda scenario, path_loss: np.zeros(path_loss.shape),
    "-30 dB": _relative(-30),
    "-20 dB": _relative(-20),
    "-10 dB": _relative(-10),
    "1000 pilots": _pilots(1000),
    "100 pilots": _pilots(100),
    "10 pilots": _pilots(10),
}
r""":math:`\zeta_m^2` of every device from path losses: alike for all, or of pilots at full power, worse far away.

:meta hide-value:
"""


class Realisation(NamedTuple):
    """One cell with its horizon, as the devices believe it to be and as it is."""

    problem: ReceiveScalingProblem
    """With the floors of the estimates."""
    true_floor: FloatArray
    """Those of the coefficients, shape (T,)."""
    eta: FloatArray
    """Optimal for the floors of the estimates, shape (T,)."""
    alignment: NDArray[np.complex128]
    """:math:`c_{m,t}`, shape (M, T)."""
    law: channel_estimates.AlignmentLaw
    """Of it, given the estimates."""


def realise(scenario: Scenario, nu: float, error: str, kind: str, seed: int) -> Realisation:
    r"""Draw the channel of a seed and its estimates, and solve the problem that is believed.

    Parameters
    ----------
    scenario : Scenario
        The constants.
    nu : float, > 0
    error : str
        A key of :data:`ERRORS`.
    kind : str
        ``least-squares`` or ``mmse``.
    seed : int
        Of the channel, and of the errors.
    """
    if error not in ERRORS:
        raise ValueError(f"error must be one of {', '.join(ERRORS)}, got {error!r}")
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    square = ERRORS[error](scenario, drawn.path_loss)
    believed = channel_estimates.estimate(drawn, square, kind, seed=seed)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(np.abs(believed) ** 2), nu)
    true_floor = scenario.noise_scale / (scenario.x_max * scenario.min_gain(drawn.gain))
    eta = policies.Optimal().schedule(problem)
    law = channel_estimates.alignment_law(believed, drawn.path_loss, square, kind)
    return Realisation(problem, true_floor, eta, channel_estimates.alignment(drawn.coefficient, believed), law)


def epsilons(scenario: Scenario, sigma: FloatArray, delta: float = DELTA) -> tuple[FloatArray, bool]:
    r"""The exact :math:`\varepsilon` of each device from its multipliers of shape (M, T), and whether that is too low.

    It is where a multiplier is below :data:`~companion.privacy.observers.LEAST_SIGMA`, which is put in its place.

    Returns
    -------
    tuple
        Shape (M,), and whether some are only lower bounds.
    """
    rate = np.broadcast_to(scenario.sampling_rate, scenario.num_devices)
    rows, which = np.unique(np.column_stack([rate, sigma]), axis=0, return_inverse=True)
    found = [epsilon_at(float(row[0]), row[1:], delta) for row in rows]
    return np.array([value for value, _ in found])[which.ravel()], any(beyond for _, beyond in found)


def leakage_row(scenario: Scenario, nu: float, error: str, kind: str, seed: int) -> dict[str, Any]:
    r"""What estimates do to noise, power and privacy on one realisation.

    Returns
    -------
    dict
        ``nu, error, kind, seed``; ``noise``, the mean of :math:`w_t / 2`, and ``misaligned``, the bound of the mean
        energy of misalignment; ``epsilon`` accounted for, ``true``, the mean over devices of the server's, ``worst``
        of them, ``beyond``, whether these are lower bounds, and ``promised``, to the worst device.

        And if the server took the true floor for its cap: ``over``, the share of rounds that then can have a device
        over its limit, ``highest``, the largest power over it, in dB, and ``epsilon_over``, the mean that is then left.
    """
    made = realise(scenario, nu, error, kind, seed)
    sigma = made.problem.noise_multiplier(made.eta)
    true, beyond = epsilons(scenario, channel_estimates.true_noise_multiplier(sigma, made.alignment))
    bound = channel_estimates.alignment_bound(made.law, DELTA / 2)
    promised, _ = epsilons(scenario, channel_estimates.true_noise_multiplier(sigma, bound), DELTA / 2)
    if error == "none":  # nothing is left to chance
        promised = true
    over = made.problem.min_noise_energy / made.true_floor  # at the true cap, of the device that needs the most
    careless = ReceiveScalingProblem(scenario, scenario.noise_scale / (scenario.x_max * made.true_floor), nu)
    heard = careless.noise_multiplier(policies.Optimal().schedule(careless))
    careless_true, _ = epsilons(scenario, channel_estimates.true_noise_multiplier(heard, made.alignment))
    return {
        "nu": nu,
        "error": error,
        "kind": kind,
        "seed": seed,
        "noise": float(made.problem.noise_energy(made.eta).mean() / 2),
        "misaligned": float(channel_estimates.misalignment(scenario, made.law.variance).mean()),
        "epsilon": float(epsilons(scenario, sigma)[0].mean()),
        "true": float(true.mean()),
        "worst": float(true.max()),
        "beyond": beyond,
        "promised": float(promised.max()),
        "over": float((over > 1 + 1e-9).mean()),
        "highest": float(10 * np.log10(over.max())),
        "epsilon_over": float(careless_true.mean()),
    }


def training_row(dataset: str, nu: float, error: str, kind: str, seed: int) -> dict[str, Any]:
    r"""One training with the alignments of a realisation.

    Parameters
    ----------
    dataset : str
        A preset.
    nu, error, kind, seed
        As for :func:`realise`; the seed is that of the training too.

    Returns
    -------
    dict
        :func:`leakage_row`, with ``dataset``, ``accuracy``, and ``measured``, the mean over every 20th round of
        :math:`\lVert\frac1M\sum_m(\mathrm{Re}\,c_{m,t} - \bar c_m)\mathbf g_{m,t}\rVert^2`.
    """
    preset = presets.load(dataset)
    scenario, training = preset.scenario, Training.preset(dataset)
    made = realise(scenario, nu, error, kind, seed)
    loaded = data.load(training.dataset, training.input_scaling)
    federation = OnChannel(scenario, training, loaded, seed)
    state, measured = federation.start(), []
    for t, eta in enumerate(made.eta):
        aligned = made.alignment[:, t]
        if t % 20 == 0:
            there, on_average = (
                federation.step(state, math.inf, alignment_t=each)[0].velocity
                for each in (aligned, made.law.mean[:, t])
            )
            measured.append(float((there - on_average).square().sum()))
        exact = error == "none"
        state, _ = federation.step(state, float(eta), alignment_t=None if exact else aligned)
    found = {"dataset": dataset, "accuracy": federation.evaluate(state)[1], "measured": float(np.mean(measured))}
    return found | leakage_row(scenario, nu, error, kind, seed)


CASES = {
    "digits": [
        *((error, "mmse") for error in ("none", "-30 dB", "-20 dB", "-10 dB", "10 pilots")),
        *((error, "least-squares") for error in ("-20 dB", "-10 dB")),
    ],
    # both kinds of estimates; without an error they are one
    "mnist": [(error, kind) for error in ERRORS for kind in (KINDS[:1] if error == "none" else KINDS)],
}
"""What the committed table has of each data set.

:meta hide-value:
"""
TRAINED: Mapping[str, tuple[range, list[tuple[str, str]]]] = {
    "digits": (SEEDS, CASES["digits"]),
    "mnist": (range(4), [("none", "mmse"), ("-10 dB", "mmse")]),
}
"""Seeds and cases of which it has an accuracy; elsewhere it has the leakage alone.

:meta hide-value:
"""


def estimates_table(
    dataset: str,
    seeds: Iterable[int] = SEEDS,
    budgets: Iterable[float] = BUDGETS,
    chosen: Iterable[tuple[str, str]] | None = None,
    *,
    progress: bool = False,
) -> pd.DataFrame:
    """A :func:`training_row`, or where :data:`TRAINED` has none a :func:`leakage_row`, for each budget, case, seed."""
    levels, picked = list(budgets), CASES[dataset] if chosen is None else list(chosen)
    wanted = [(nu, *case, seed) for seed in seeds for nu in levels for case in picked]
    trained_seeds, trained_cases = TRAINED[dataset]
    rows = []
    for nu, error, kind, seed in tqdm(wanted, disable=not progress, unit="row"):
        if seed in trained_seeds and (error, kind) in trained_cases:
            rows.append(training_row(dataset, nu, error, kind, seed))
        else:
            found = leakage_row(presets.load(dataset).scenario, nu, error, kind, seed)
            rows.append({"dataset": dataset, "accuracy": math.nan, "measured": math.nan} | found)
    return pd.DataFrame(rows, columns=COLUMNS)


def compared(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    r"""Each case against exact coefficients, on the same realisations.

    Returns
    -------
    pandas.DataFrame
        One row a budget and case: ``nu, error, kind``; ``accuracy``, the mean, and ``lost``, ``low``, ``high``: what is
        lost against exact coefficients, paired, with its 95 % interval; the medians of the other columns, and
        ``beyond``, whether those of ``true`` or ``worst`` are lower bounds.
    """
    own = table[table["dataset"] == dataset]
    exact = own[own["error"] == "none"].set_index(["nu", "seed"])["accuracy"]
    rows = []
    for (nu, error, kind), part in own.groupby(["nu", "error", "kind"], sort=False):
        about = {"nu": nu, "error": error, "kind": kind}
        about |= part[[*COLUMNS[6:]]].median().to_dict()
        low = part[part["beyond"]]  # of no matter to a median below them all
        about["beyond"] = bool(any((low[name] <= about[name]).any() for name in ("true", "worst")))
        trained = part.dropna(subset=["accuracy"])
        if len(trained):
            lost = exact.loc[nu].loc[trained["seed"]].to_numpy() - trained["accuracy"].to_numpy()
            bounds = interval(lost)
            about |= {"accuracy": float(trained["accuracy"].mean()), "trainings": len(trained)}
            about |= {"lost": bounds.centre, "low": bounds.low, "high": bounds.high}
        rows.append(about)
    return pd.DataFrame(rows)


def committed(datasets: Iterable[str] = tuple(TRAINED)) -> Made:
    """The committed table."""
    torch.set_num_threads(1)
    table = pd.concat([estimates_table(each, progress=sys.stderr.isatty()) for each in datasets])
    yield table.to_csv(index=False, float_format="%.6g"), {"seeds": f"{SEEDS[0]}-{SEEDS[-1]}", "threads": 1}
