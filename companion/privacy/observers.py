r"""The threat model as a table: who listens, and what privacy is left, every row computed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from scipy.stats import norm

from adascale import accounting, channel, policies
from adascale.checks import BoolArray, FloatArray
from adascale.problem import Problem
from adascale.scenario import Scenario
from companion.bounds.convergence import Real
from companion.privacy.sharp import sharp_epsilon

LEAST_SIGMA = 0.3
"""Multipliers below it count as this one. What is reported is then a lower bound."""
NEAR, FAR = 10.0, 200.0
"""Metres from the victim to a curious device and to the server. They are the two ends of the paper's cell."""

_OWN_NOISE = "noise that the devices add themselves"
ROWS = {
    "server": "nothing is lost; a larger budget ν is more noise",
    "model": "nothing is lost",
    "quieter 3 dB": "counting on the least noise that physics allows",
    "quieter 6 dB": "counting on the least noise that physics allows",
    "antennas": f"a single receive chain, or {_OWN_NOISE}",
    "stranger": _OWN_NOISE,
    "neighbour": f"{_OWN_NOISE}, or masks that cancel in the sum",
}
"""What would restore the guarantee against each listener."""


class Realisation(NamedTuple):
    """One cell and its horizon, as the victim has it: the device with the largest path loss."""

    fade: FloatArray
    r""":math:`\lvert h_{m,t}\rvert^2` over its mean, shape (T,)."""
    sigma: FloatArray
    r"""The server's noise multiplier in each round, shape (T,)."""


def heard_better(rng: np.random.Generator, fade: FloatArray) -> dict[str, ArrayLike]:
    r"""Compute how much better each of :data:`ROWS` hears than the server, :math:`\kappa_t` (:eq:`eq:heard-better`).

    Strangers, and the server's other antennas, of which it has four in all, are as far from the victim as the server,
    and fade on their own, Rayleigh.  For the neighbour fading is left out.  ``fade`` is
    :math:`\lvert h_{m,t}\rvert^2` over its mean, shape (T,), like each ratio that is not the same in all rounds.
    """
    strangers = rng.exponential(size=(3, fade.size)) / fade
    far, near = channel.cost_hata_path_loss(np.array([FAR, NEAR]))
    return {
        "server": 1.0,
        "model": 1.0,
        "quieter 3 dB": 10**0.3,
        "quieter 6 dB": 10**0.6,
        "antennas": 1 + strangers.sum(axis=0),
        "stranger": strangers[0],
        "neighbour": far / near,
    }


def epsilon_at(
    rate: float, sigma: FloatArray, delta: float = 1e-5
) -> tuple[FloatArray, BoolArray]:
    r"""Return the exact :math:`\varepsilon` of schedules, shape (..., T), and whether each is only a lower bound.

    It is where a multiplier is below :data:`LEAST_SIGMA`, which is put in its place.
    """
    value = sharp_epsilon(rate, np.maximum(sigma, LEAST_SIGMA), delta)
    return value, np.any(sigma < LEAST_SIGMA, axis=-1)


def realisations(
    scenario: Scenario, nu: float, seeds: Iterable[int]
) -> list[Realisation]:
    r"""Draw what a victim has under Optimal at the budget :math:`\nu`, for each seed, where devices are alike."""
    cells = []
    for seed in seeds:
        fading = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
        problem = Problem(scenario, scenario.min_gain(fading.gain), nu)
        victim = fading.path_loss.argmax()
        sigma = problem.noise_multiplier(policies.Optimal().schedule(problem))[victim]
        cells.append(Realisation(fading.gain[victim] * fading.path_loss[victim], sigma))
    return cells


def listeners_table(
    budgets: Iterable[float] = (0.01, 0.16), seeds: Sequence[int] = range(9)
) -> pd.DataFrame:
    r"""Compute what each listener is left with, in the MNIST scenario with the policy Optimal.

    A row per listener and budget: ``listener, nu, sigma`` (the median of all rounds), ``epsilon`` (the exact one of the
    median realisation), ``beyond`` (whether that is a lower bound), ``restored``.
    """
    scenario = Scenario.mnist()
    rows = []
    for nu in budgets:
        heard = {listener: [] for listener in ROWS}
        cells = realisations(scenario, nu, seeds)
        for seed, (fade, sigma) in zip(seeds, cells, strict=True):
            better = heard_better(np.random.default_rng([seed, 18]), fade)
            for listener, ratio in better.items():
                heard[listener].append(sigma / np.sqrt(ratio))
        for listener, restored in ROWS.items():
            sigmas = np.array(heard[listener])
            epsilons = epsilon_at(float(scenario.sampling_rate), sigmas)
            median = sorted(zip(*epsilons, strict=True))[len(sigmas) // 2]
            rows.append((listener, nu, np.median(sigmas), *median, restored))
    return pd.DataFrame(
        rows, columns=["listener", "nu", "sigma", "epsilon", "beyond", "restored"]
    )


def energy_multiplier(sigma: Real, dimension: int, norm: float) -> FloatArray:
    r"""Return :math:`\sigma_E` of a listener with a power meter and no more (:eq:`eq:power-meter`), for large d.

    ``sigma`` is :math:`\sigma' > 0` of the listener who demodulates, and ``norm`` is x, in units of what one sample can
    change.
    """
    return sigma * np.sqrt(1 + dimension * (sigma / norm) ** 2)


def whole_device(scenario: Scenario, sigma: FloatArray) -> float:
    r"""Epsilon at :math:`\delta = 10^{-5}` of a whole device of like ones (:ref:`sec-power-meter`).

    It is that of one round without sampling, with :math:`\sigma^{-2} = \sum_t B_m^2 k_m^2 / \sigma_t^2`.
    """
    square = np.ravel(np.square(scenario.batch_size) * scenario.batch_second_moment)[0]
    once = np.sum(square / sigma**2) ** -0.5
    return accounting.exact_epsilon(1.0, [once], 1e-5).estimate


def replaced(rate: float, sigma: FloatArray) -> float:
    r"""Epsilon for neighbours that replace one sample, proven from that of adding or removing one.

    Remove, then add: :math:`\delta_2(\varepsilon_1 + \varepsilon_2) \le \delta(\varepsilon_1) + e^{\varepsilon_1}
    \delta(\varepsilon_2)`, at the best of 24 ways to divide :math:`\delta = 10^{-5}`.
    """
    delta = 1e-5

    def both(share):
        first = sharp_epsilon(rate, sigma, share * delta)
        left = (1 - share) * delta * np.exp(-first)
        return first + sharp_epsilon(rate, sigma, left)

    return float(min(map(both, np.linspace(0.02, 0.98, 24))))


def opposite_gradients(
    rate: float, sigma: FloatArray, orders: Sequence[float] = accounting.DEFAULT_ORDERS
) -> float:
    r"""Epsilon, by Rényi orders, of one replacement: a gradient of norm C by its opposite.

    .. math::
        (1 - q)\, \mathcal N(0, \sigma^2) + q\, \mathcal N(1, \sigma^2) \quad \text{against} \quad
        (1 - q)\, \mathcal N(0, \sigma^2) + q\, \mathcal N(-1, \sigma^2)

    An instance, and no worst case that is proven; to be held against the Rényi value of adding or removing.
    """
    alpha = np.sort(orders)
    # less noise than there is, by a thousandth of a sensitivity at most, so that few values are left
    values, count = np.unique(np.floor(1000 * sigma) / 1000, return_counts=True)
    total = np.zeros(alpha.shape)
    for deviation, times in zip(values, count, strict=True):
        # tilted means inside
        reach = 1 + 2 * alpha[-1] + 14 * deviation
        z = np.arange(-reach, reach, deviation / 8)
        top, bottom = (
            np.logaddexp(
                np.log1p(-rate) + norm.logpdf(z, 0, deviation),
                np.log(rate) + norm.logpdf(z, mean, deviation),
            )
            for mean in (1, -1)
        )
        tilted = np.outer(alpha, top) + np.outer(1 - alpha, bottom)
        total += times * (logsumexp(tilted, axis=1) + np.log(deviation / 8))
    return float(accounting.to_dp(total / (alpha - 1), alpha, 1e-5).epsilon)
