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
    SignalMoment,
    convergence_bound,
    largest_learning_rate,
    nearly_exact_bound,
)
from companion.bounds.convergence import Real
from companion.theory.convergence import Training
from companion.theory.least_squares import (
    Constants,
    LeastSquares,
    empirical_constants,
    simulate,
)


def mean_interval(values: ArrayLike, tests: int = 1) -> tuple[float, float]:
    """Mean of independent runs, and the half width of its t interval: ``tests`` of them hold together at 95 %."""
    ends = interval(values, 1 - 0.05 / tests)
    return ends.centre, ends.high - ends.centre


def signal_bounds(training: Training, model: FloatArray) -> dict[str, Real]:
    r"""Bound :math:`\mathbb E\lVert\mathbf s_t\rVert^2` at a model after each step of :prf:ref:`lem-length`.

    Name of the step to the bound after it, from the paper's to the exact value of :prf:ref:`prop-second-moment`, in
    falling order.
    """
    problem, _, _, _, B, n = training
    _, A1, A2, C1, C2, _ = problem.constants
    (g2, h2, v), rest = training.moments(model), 1 - B / n
    psi = 1 / (len(v) * B)
    k2 = 1 + rest / B
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
    problem, _, rate, energy, B, n = training
    L, A1, A2, C1, C2, _ = problem.constants
    alone = SignalMoment.any_samples(
        A1, A2, C1, C2, batch_second_moment=1 + (1 - B / n) / B
    )
    schedule = (energy, rate, training.initial_gap)
    mean = problem.feature_variance.mean()
    bounds = {
        "the paper's": training.paper().total,
        "shorter form": training.halved(),
        "nearly exact": training.nearly_exact().total,
        "the paper's assumptions": nearly_exact_bound(
            *schedule, smoothness=L, signal=alone, mean_curvature=mean
        ).total,
        "L for tr H/d": nearly_exact_bound(
            *schedule, smoothness=L, signal=training.signal_moment()
        ).total,
    }
    exact = training.exact()
    return {name: value / exact for name, value in bounds.items()}


def broken_bounds(
    training: Training, rates: Sequence[float], rounds: int, loud: float
) -> dict[str, Real]:
    """Wrong forms of :prf:ref:`thm-nearly-exact` over the exact left side: below 1 where the control breaks.

    At the learning rates the bracket :math:`c` (:eq:`eq:bracket`) is left out, in trainings of so many rounds that the
    initial term vanishes.  At the noise energy ``loud``, beside which the other terms are small, noise goes along the
    axis of the largest curvature, or the curvature matrix is four fifths as large as it is.
    """
    curvature = training.problem.feature_variance
    over_the_exact = {}
    for rate in rates:
        energy = np.full(rounds, training.noise_energy[0])
        case = training._replace(learning_rate=rate, noise_energy=energy)
        c = case.signal_moment().bracket(rate, curvature.max())
        ratio = case.nearly_exact().total * c / case.exact()
        over_the_exact[f"c = 1, λ = {rate:g}"] = ratio
    case = training._replace(noise_energy=np.full(len(training.noise_energy), loud))
    bound = case.nearly_exact()
    axis = np.eye(curvature.size)[curvature.argmax()]
    return over_the_exact | {
        "all noise along an axis of curvature L": bound.total / case.exact(axis),
        "H four fifths of the curvature": (bound.total - 0.2 * bound.noise)
        / case.exact(),
    }


def measured(
    cases: Sequence[Training], seed: int, runs: int = 100, tests: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Return the left side of simulated trainings: means and half widths of joint intervals (:func:`mean_interval`).

    Case k draws its ``runs`` trainings from the seed (``seed``, k).
    """
    simulated = [
        case.squared_gradients(np.random.default_rng((seed, k)), runs)
        for k, case in enumerate(cases)
    ]
    mean, half = np.array(
        [mean_interval(squares.mean(axis=1), tests) for squares in simulated]
    ).T
    return mean, half


def allowances(training: Training, target: float) -> pd.DataFrame:
    r"""Compute what the noise of a training stands for, and what a target admits (:eq:`eq:budget-price`).

    A row for each bound: ``rest`` :math:`\phi`; ``price`` :math:`p`; ``stands_for``, the :math:`\gamma` of this noise;
    ``at_reached`` and ``at_target``, the mean noise energies that the left side reached and ``target`` admit.
    """
    problem, _, rate, energy, _, _ = training
    L = problem.constants.smoothness
    c = training.signal_moment().bracket(rate, L)
    bounds = {
        "the paper's": (training.paper().total, rate * L / 2),
        "shorter form": (training.halved(), rate * L / 2),
        "nearly exact": (
            training.nearly_exact().total,
            rate * problem.feature_variance.mean() / (4 * c),
        ),
    }
    table = pd.DataFrame(bounds, ["stands_for", "price"], dtype=float).T
    rest = table.stands_for - table.price * energy.mean()
    return table.assign(
        rest=rest,
        at_reached=(training.exact() - rest) / table.price,
        at_target=(target - rest) / table.price,
    )


def promised(
    constants: Constants, gap: float, target: float, rounds: int
) -> dict[str, Real]:
    r"""Compute what the paper's theorem makes of some constants, at the largest learning rate that it admits.

    The constants, the gap, the learning rate, :math:`\phi` there, and the noise energy that the target :math:`\gamma`
    leaves; it is negative where the target is out of reach.
    """
    L, A1, A2, C1, C2, _ = constants
    rate = float(largest_learning_rate(L, A1, C1))
    bound = convergence_bound(
        np.zeros(rounds), rate, gap, smoothness=L, A1=A1, A2=A2, C1=C1, C2=C2
    )
    return {
        "L": L,
        "A₁": A1,
        "A₂": A2,
        "C₁": C1,
        "C₂": C2,
        "f(θ₀) − f*": gap,
        "largest λ": rate,
        "φ there": bound.total,
        f"noise energy at γ = {target:g}": (target - bound.total) / (rate * L / 2),
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


def fixed_data(
    problem: LeastSquares,
    rng: np.random.Generator,
    learning_rate: float,
    noise_energy: FloatArray,
    batch_size: float,
    dataset_size: int,
    runs: int,
) -> FixedData:
    """Draw data once, train on them again and again from the zero model, and compare with both theorems."""
    data, (M, d) = problem.draw(rng, 1, dataset_size), problem.targets.shape
    features = data[0][0]
    labels = data[1][0]
    constants = empirical_constants(features, labels)
    gap = float(np.mean(labels**2) / 2) - constants.f_star
    history = simulate(
        problem,
        rng,
        np.zeros(d),
        learning_rate,
        noise_energy,
        batch_size,
        dataset_size,
        runs=runs,
        data=data,
    )
    squares = np.stack(
        [np.sum(now.full_gradient**2, axis=-1) for now in history], axis=-1
    )
    mean, half = mean_interval(squares.mean(axis=1))
    L, A1, A2, C1, C2, _ = constants
    hessian = np.einsum("mid,mie->de", features, features) / (M * dataset_size)
    signal = SignalMoment.uncorrelated(
        A1, A2, C1, C2, M * batch_size / (1 - batch_size / dataset_size)
    )
    paper = convergence_bound(
        noise_energy, learning_rate, gap, smoothness=L, A1=A1, A2=A2, C1=C1, C2=C2
    )
    near = nearly_exact_bound(
        noise_energy,
        learning_rate,
        gap,
        smoothness=np.linalg.eigvalsh(hessian).max(),
        signal=signal,
        mean_curvature=np.trace(hessian) / d,
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
