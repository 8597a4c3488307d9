r"""What :ref:`chap-convergence` computes around its theorems: how much each step loses, and the numbers of its text.

All of it is about the least-squares example (:class:`~companion.theory.convergence.Training`), for which the left
side is known exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from adascale.scenario import FloatArray
from adascale.statistics import interval
from companion.bounds import (
    Constants,
    SignalMoment,
    convergence_bound,
    largest_learning_rate,
    nearly_exact_bound,
)
from companion.bounds.convergence import Real
from companion.theory.convergence import Training
from companion.theory.least_squares import empirical_constants


def mean_interval(values: ArrayLike, tests: int = 1) -> tuple[float, float]:
    """Mean of independent runs, and the half width of its t interval: ``tests`` of them hold together at 95 %."""
    ends = interval(values, 1 - 0.05 / tests)
    return ends.centre, ends.high - ends.centre


def signal_bounds(training: Training, model: FloatArray) -> dict[str, Real]:
    r"""Bound :math:`\mathbb E\lVert\mathbf s_t\rVert^2` at a model after each step of :prf:ref:`lem-length`.

    Name of the step to the bound after it, from the paper's to the exact value of :prf:ref:`prop-second-moment`, in
    falling order.
    """
    _, A1, A2, C1, C2, _ = training.problem.constants
    g2, h2, v = training.moments(model)
    rest = 1 - training.sampling_rate
    psi = 1 / training.averaged
    k2 = 1 + rest / training.batch_size
    similar = (C1 + 1) * g2 + C2
    return {
        "the paper": 4 * (A1 + 1) * similar + 2 * A2,
        "exact average over devices (no factor 2)": 2 * (A1 + 1) * similar + 2 * A2,
        "k² in place of 2": k2 * ((A1 + 1) * similar + A2),
        "independent batches": g2 + psi * similar + k2 * (A1 * similar + A2),
        "uncorrelated samples": g2 + psi * ((A1 + 1) * similar + A2),
        "exact": g2 + psi * (rest * h2.mean() + v.mean()),
    }


def over_exact(training: Training) -> dict[str, Real]:
    r"""Return every bound of the chapter over the exact left side.

    ``shorter form`` is :prf:ref:`thm-sharper`, and ``nearly exact`` :prf:ref:`thm-nearly-exact`: this also for the
    paper's assumptions alone, and with :math:`L` in the place of :math:`\operatorname{tr}\mathbf H/d`.
    """
    constants = training.problem.constants
    k2 = 1 + (1 - training.sampling_rate) / training.batch_size
    alone = SignalMoment.any_samples(constants, k2)
    bounds = {
        "the paper's": training.paper().total,
        "shorter form": training.halved(),
        "nearly exact": training.nearly_exact().total,
        "the paper's assumptions": training.nearly_exact(signal=alone).total,
        "L for tr H/d": training.nearly_exact(
            mean_curvature=constants.smoothness
        ).total,
    }
    exact = training.exact()
    return {name: value / exact for name, value in bounds.items()}


def broken_bounds(training: Training) -> dict[str, Real]:
    """Wrong forms of :prf:ref:`thm-nearly-exact` over the exact left side: below 1 where the control breaks.

    At three learning rates the bracket :math:`c` (:eq:`eq:bracket`) is left out, in trainings of so many rounds that
    the initial term vanishes.  At a noise energy beside which the other terms are small, noise goes along the axis of
    the largest curvature, or the curvature matrix is four fifths as large as it is.
    """
    curvature = training.problem.feature_variance
    energy = np.full(20_000, training.noise_energy[0])
    over_the_exact = {}
    for rate in (0.1, 0.5, 1.0):
        case = training._replace(learning_rate=rate, noise_energy=energy)
        c = case.signal_moment().bracket(rate, curvature.max())
        ratio = case.nearly_exact().total * c / case.exact()
        over_the_exact[f"c = 1, λ = {rate:g}"] = ratio
    loud = np.full(len(training.noise_energy), 100.0)
    case = training._replace(noise_energy=loud)
    bound = case.nearly_exact()
    axis = np.eye(curvature.size)[curvature.argmax()]
    flatter = bound.total - 0.2 * bound.noise
    return over_the_exact | {
        "all noise along an axis of curvature L": bound.total / case.exact(axis),
        "H four fifths of the curvature": flatter / case.exact(),
    }


def measured(cases: Sequence[Training], seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the left side of simulated trainings: means, and half widths of intervals of which six hold together.

    Case k draws its hundred trainings from the seed (``seed``, k).
    """
    generators = [np.random.default_rng((seed, k)) for k in range(len(cases))]
    found = [
        mean_interval(case.squared_gradients(rng, 100).mean(axis=1), tests=6)
        for case, rng in zip(cases, generators, strict=True)
    ]
    mean, half = np.array(found).T
    return mean, half


def allowances(training: Training, target: float) -> pd.DataFrame:
    r"""Compute what the noise of a training stands for, and what a target admits (:eq:`eq:budget-price`).

    A row for each bound: ``rest`` :math:`\phi`; ``price`` :math:`p`; ``stands_for``, the :math:`\gamma` of this noise;
    ``at_reached`` and ``at_target``, the mean noise energies that the left side reached and ``target`` admit.
    """
    paper = training.paper()
    near = training.nearly_exact()
    bounds = {
        "the paper's": (paper.total, paper.noise),
        "shorter form": (training.halved(), paper.noise),
        "nearly exact": (near.total, near.noise),
    }
    table = pd.DataFrame(bounds, ["stands_for", "noise"], dtype=float).T
    rest = table.stands_for - table.noise
    price = table.noise / training.noise_energy.mean()
    return table.assign(
        rest=rest,
        price=price,
        at_reached=(training.exact() - rest) / price,
        at_target=(target - rest) / price,
    )


def promised(constants: Constants, gap: float, target: float) -> dict[str, Real]:
    r"""Compute what the paper's theorem makes of some constants, at the largest learning rate that it admits.

    The constants, the gap, the learning rate, :math:`\phi` there, and the noise energy that the target :math:`\gamma`
    leaves over a thousand rounds; it is negative where the target is out of reach.
    """
    rate = float(largest_learning_rate(constants))
    bound = convergence_bound(np.zeros(1000), rate, gap, constants)
    price = rate * constants.smoothness / 2
    names = ("L", "A₁", "A₂", "C₁", "C₂")
    return dict(zip(names, constants, strict=False)) | {
        "f(θ₀) − f*": gap,
        "largest λ": rate,
        "φ there": bound.total,
        f"noise energy at γ = {target:g}": (target - bound.total) / price,
    }


class FixedData(NamedTuple):
    """Both theorems where every round uses the same data (:prf:ref:`prop-empirical`).

    The constants of these data, and the gap of the first model on them; the left side, its mean over the runs, and half
    of its 95 % interval; what the paper's theorem allows, and the nearly exact one.
    """

    constants: Constants
    gap: float
    left: float
    half: float
    paper: Real
    near: Real


def fixed_data(training: Training, rng: np.random.Generator, runs: int) -> FixedData:
    """Draw data once, train on them again and again from the zero model, and compare with both theorems."""
    energy = training.noise_energy
    rate = training.learning_rate
    data = training.problem.draw(rng, 1, training.dataset_size)
    features = data[0][0]
    labels = data[1][0]
    constants = empirical_constants(features, labels)
    gap = float(np.mean(labels**2) / 2) - constants.f_star
    history = training.rounds(rng, runs, data)
    gradients = np.stack([now.full_gradient for now in history], axis=1)
    mean, half = mean_interval(np.sum(gradients**2, axis=-1).mean(axis=1))
    hessian = np.einsum("mid,mie->de", features, features) / labels.size
    paper = convergence_bound(energy, rate, gap, constants)
    # the samples that a signal averages, more as a batch has a part of the data only
    averaged = training.averaged / (1 - training.sampling_rate)
    near = nearly_exact_bound(
        energy,
        rate,
        gap,
        smoothness=np.linalg.eigvalsh(hessian).max(),
        signal=SignalMoment.uncorrelated(constants, averaged),
        mean_curvature=np.trace(hessian) / len(hessian),
    )
    return FixedData(constants, gap, mean, half, paper.total, near.total)


def running_floors(
    rng: np.random.Generator, rounds: NDArray[np.int64], lanes: int
) -> FloatArray:
    r"""Return the mean of the first :math:`T` floors under Rayleigh fading, over :math:`\omega`; shape (lanes, rounds).

    ``rounds`` are rising numbers :math:`T` (:eq:`eq:floor-law`).
    """
    floors = 1 / rng.standard_exponential((lanes, rounds[-1]))
    return floors.cumsum(axis=1)[:, rounds - 1] / rounds
