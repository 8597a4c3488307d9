r"""What :ref:`chap-convergence` computes around its theorems: what each step gives away, and what it tells in numbers.

All of it is about the least-squares example (:class:`~companion.theory.convergence.Training`), for which the left
side is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from adascale import checks as check
from companion.bounds import SignalMoment, convergence_bound, largest_learning_rate, nearly_exact_bound
from companion.theory.convergence import Training
from companion.theory.least_squares import Constants, LeastSquares, empirical_constants, simulate

FloatArray = NDArray[np.float64]


def mean_interval(values: ArrayLike, tests: int = 1) -> tuple[FloatArray, FloatArray]:
    """Mean over the first axis, and the half width of its t interval at joint level 95 % (Bonferroni).

    Parameters
    ----------
    values : array_like
        Independent runs, shape (runs, ...), at least two.
    tests : int
        How many intervals shall hold together.

    Returns
    -------
    tuple of numpy.ndarray
        Both of shape (...).
    """
    array = check.as_floats("values", values)
    if array.ndim == 0 or len(array) < 2:
        raise ValueError(f"values must have at least two runs, got shape {array.shape}")
    runs, level = len(array), 1 - 0.025 / check.whole("tests", tests)
    half: FloatArray = stats.t.ppf(level, runs - 1) * array.std(axis=0, ddof=1) / math.sqrt(runs)
    return array.mean(axis=0), half


def signal_bounds(training: Training, model: ArrayLike) -> dict[str, float]:
    r"""What each step of :prf:ref:`lem-length` gives away of :math:`\mathbb E\lVert\mathbf s_t\rVert^2`.

    Parameters
    ----------
    training : Training
        The example.
    model : array_like
        :math:`\boldsymbol\theta_t`, shape (d,).

    Returns
    -------
    dict
        Name of the step to the bound after it, from the paper's to the exact value of
        :prf:ref:`prop-second-moment`, in falling order.
    """
    problem, _, _, _, B, n = training
    _, A1, A2, C1, C2, _ = problem.constants
    place, rest = np.asarray(model, dtype=float), 1 - B / n
    gradient, u = problem.gradient(place), place - problem.targets
    S = problem.feature_variance
    g2, h2 = float(gradient @ gradient), np.sum((S * u) ** 2, axis=-1)
    v = h2 + (np.sum(S * u**2, axis=-1) + problem.label_noise**2) * S.sum()
    psi, k2 = 1 / (len(u) * B), 1 + rest / B
    similar = (C1 + 1) * g2 + C2
    return {
        "the paper": 4 * (A1 + 1) * similar + 2 * A2,
        "exact average over devices (no factor 2)": 2 * (A1 + 1) * similar + 2 * A2,
        "k² in place of 2": k2 * ((A1 + 1) * similar + A2),
        "independent batches": g2 + psi * similar + k2 * (A1 * similar + A2),
        "uncorrelated samples": g2 + psi * ((A1 + 1) * similar + A2),
        "exact": g2 + psi * float(rest * h2.mean() + v.mean()),
    }


def over_exact(training: Training) -> dict[str, float]:
    r"""Every bound of the chapter over the exact left side.

    Parameters
    ----------
    training : Training
        The example.

    Returns
    -------
    dict
        ``the paper's``, ``shorter form`` (:prf:ref:`thm-sharper`), ``nearly exact`` (:prf:ref:`thm-nearly-exact`), the
        last for the paper's assumptions alone, and with :math:`L` in the place of :math:`\operatorname{tr}\mathbf H/d`.
    """
    problem, _, rate, energy, B, n = training
    L, A1, A2, C1, C2, _ = problem.constants
    alone = SignalMoment.any_samples(A1, A2, C1, C2, batch_second_moment=1 + (1 - B / n) / B)
    given, mean = (energy, rate, training.initial_gap), problem.feature_variance.mean()
    bounds: dict[str, ArrayLike] = {
        "the paper's": training.paper().total,
        "shorter form": training.halved(),
        "nearly exact": training.nearly_exact().total,
        "the paper's assumptions": nearly_exact_bound(*given, smoothness=L, signal=alone, mean_curvature=mean).total,
        "L for tr H/d": nearly_exact_bound(*given, smoothness=L, signal=training.signal_moment()).total,
    }
    left = training.exact()
    return {name: float(np.asarray(value)) / left for name, value in bounds.items()}


def broken_bounds(training: Training, rates: Sequence[float], rounds: int, loud: float) -> dict[str, float]:
    r"""Wrong forms of :prf:ref:`thm-nearly-exact` over the exact left side: below 1 where the control breaks.

    Parameters
    ----------
    training : Training
        The example.
    rates : sequence of float
        Learning rates at which the bracket :math:`c` (:eq:`eq:bracket`) is left out.
    rounds : int
        Rounds of these trainings, many enough for the initial term to vanish.
    loud : float
        A noise energy beside which the other terms are small, for the other two: noise along the axis of the largest
        curvature, and a curvature matrix four fifths as large as it is.

    Returns
    -------
    dict
        Name of the wrong form to the ratio.
    """
    found = {}
    for rate in rates:
        case = training._replace(learning_rate=rate, noise_energy=np.full(rounds, training.noise_energy[0]))
        c = float(training.signal_moment().bracket(rate, training.problem.constants.smoothness))
        found[f"c = 1, λ = {rate:g}"] = float(case.nearly_exact().total) * c / case.exact()
    case = training._replace(noise_energy=np.full(len(training.noise_energy), loud))
    bound, axis = case.nearly_exact(), np.zeros(len(training.start))
    axis[int(np.argmax(training.problem.feature_variance))] = 1
    found["all noise along an axis of curvature L"] = float(bound.total) / case.exact(axis)
    found["H four fifths of the curvature"] = float(bound.total - 0.2 * bound.noise) / case.exact()
    return found


def measured(cases: Sequence[Training], seed: int, runs: int = 100, tests: int = 1) -> tuple[FloatArray, FloatArray]:
    """The left side of simulated trainings, with joint intervals.

    Parameters
    ----------
    cases : sequence of Training
        What is simulated; case k draws from the seed (``seed``, k).
    seed : int
        The first part of all seeds.
    runs : int
        Trainings of each.
    tests : int
        How many intervals shall hold together (:func:`mean_interval`).

    Returns
    -------
    tuple of numpy.ndarray
        Means and half widths, of shape (cases,).
    """
    drawn = [case.squared_gradients(np.random.default_rng((seed, k)), runs) for k, case in enumerate(cases)]
    mean, half = np.array([mean_interval(squares.mean(axis=1), tests) for squares in drawn]).T
    return mean, half


def allowances(training: Training, target: float) -> pd.DataFrame:
    r"""What the noise of a training stands for, and what a target admits, by each bound (:eq:`eq:budget-price`).

    Parameters
    ----------
    training : Training
        The example.
    target : float
        A target :math:`\gamma`; the other one is the left side that the training reaches.

    Returns
    -------
    pandas.DataFrame
        A row for each bound: ``rest`` :math:`\phi`; ``price`` :math:`p`; ``stands_for``, the :math:`\gamma` of this
        noise; ``at_reached`` and ``at_target``, the mean noise energies that the two targets admit.
    """
    problem, _, rate, energy, _, _ = training
    L, mean_curvature = problem.constants.smoothness, float(problem.feature_variance.mean())
    c = float(training.signal_moment().bracket(rate, L))
    bounds = {
        "the paper's": (float(training.paper().total), rate * L / 2),
        "shorter form": (training.halved(), rate * L / 2),
        "nearly exact": (float(training.nearly_exact().total), rate * mean_curvature / (4 * c)),
    }
    reached, rows = training.exact(), {}
    for name, (total, price) in bounds.items():
        rest = total - price * float(energy.mean())
        rows[name] = (rest, price, total, (reached - rest) / price, (target - rest) / price)
    return pd.DataFrame(rows, ["rest", "price", "stands_for", "at_reached", "at_target"]).T


def promised(known: Constants, gap: float, target: float, rounds: int) -> dict[str, float]:
    r"""What the paper's theorem makes of some constants, at the largest learning rate that it admits.

    Parameters
    ----------
    known : Constants
        Of the population, or of a data set (:func:`~companion.theory.least_squares.empirical_constants`).
    gap : float
        :math:`f(\boldsymbol\theta_0) - f^\star`.
    target : float
        :math:`\gamma`.
    rounds : int

    Returns
    -------
    dict
        The constants, the gap, the learning rate, :math:`\phi` there, and the noise energy that the target leaves; it
        is negative where the target is out of reach.
    """
    rate = float(largest_learning_rate(known.smoothness, known.A1, known.C1))
    others = {name: value for name, value in known._asdict().items() if name != "f_star"}
    rest = float(convergence_bound(np.zeros(rounds), rate, gap, **others).total)
    names = ("L", "A₁", "A₂", "C₁", "C₂", "f(θ₀) − f*", "largest λ", "φ there", f"noise energy at γ = {target:g}")
    values = (*others.values(), gap, rate, rest, (target - rest) / (rate * known.smoothness / 2))
    return dict(zip(names, map(float, values), strict=True))


class FixedData(NamedTuple):
    """Both theorems where every round uses the same data (:prf:ref:`prop-empirical`)."""

    constants: Constants
    """Of these data."""
    gap: float
    """The loss of the first model over the least one, on these data."""
    left: float
    """Mean squared gradient of the loss on these data, over the runs."""
    half: float
    """Half of its 95 % interval."""
    paper: float
    """What the paper's theorem allows."""
    near: float
    """What the nearly exact theorem allows."""


def fixed_data(
    problem: LeastSquares,
    rng: np.random.Generator,
    learning_rate: float,
    noise_energy: ArrayLike,
    batch_size: float,
    dataset_size: int,
    runs: int,
) -> FixedData:
    r"""Draw data once, train on them again and again from the zero model, and compare with both theorems.

    Parameters
    ----------
    problem : LeastSquares
        What the data are drawn from.
    rng : numpy.random.Generator
        All randomness.
    learning_rate : float
        :math:`\lambda`.
    noise_energy : array_like
        :math:`w_t`, shape (T,).
    batch_size : float
        :math:`B`, of every device.
    dataset_size : int
        :math:`n`, of every device.
    runs : int
        Trainings on the same data.

    Returns
    -------
    FixedData
        Constants, measured left side and both right sides.
    """
    held, (M, d) = problem.draw(rng, 1, dataset_size), problem.targets.shape
    features, labels = held[0][0], held[1][0]
    found, energy = empirical_constants(features, labels), check.at_least("noise_energy", noise_energy, 0)
    gap = float(np.mean(labels**2) / 2) - found.f_star
    history = simulate(problem, rng, np.zeros(d), learning_rate, energy, batch_size, dataset_size, runs=runs, data=held)
    squares = np.stack([np.sum(now.full_gradient**2, axis=-1) for now in history], axis=-1)
    left, half = mean_interval(squares.mean(axis=1))
    L, A1, A2, C1, C2, _ = found
    hessian = np.einsum("mid,mie->de", features, features) / (M * dataset_size)
    signal = SignalMoment.uncorrelated(A1, A2, C1, C2, M * batch_size / (1 - batch_size / dataset_size))
    paper = convergence_bound(energy, learning_rate, gap, smoothness=L, A1=A1, A2=A2, C1=C1, C2=C2)
    near = nearly_exact_bound(
        energy,
        learning_rate,
        gap,
        smoothness=float(np.linalg.eigvalsh(hessian).max()),
        signal=signal,
        mean_curvature=float(np.trace(hessian) / d),
    )
    return FixedData(found, gap, float(left), float(half), float(paper.total), float(near.total))


def running_floors(rng: np.random.Generator, rounds: ArrayLike, lanes: int) -> FloatArray:
    r"""The mean of the first :math:`T` floors under Rayleigh fading (:eq:`eq:floor-law`), over :math:`\omega`.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the floors, lane by lane.
    rounds : array_like of int
        Numbers of rounds :math:`T \ge 1`, rising.
    lanes : int

    Returns
    -------
    numpy.ndarray
        Shape (lanes, rounds).
    """
    T = np.asarray(rounds)
    means = np.empty((check.whole("lanes", lanes), T.size))
    for lane in range(lanes):
        means[lane] = np.cumsum(1 / rng.standard_exponential(T[-1]))[T - 1] / T
    return means
