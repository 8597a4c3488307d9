r"""Who listens, and what is left to whom: the threat model as a table, every row of it computed.

A listener who knows all but the victim's data hears, after a change of scale, the sampled Gaussian mechanism of
:prf:ref:`lem-sgm` at another noise: the server's multiplier over the root of how much better his signal-to-noise ratio
for the victim is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from adascale import accounting, channel, policies
from adascale import checks as check
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario
from companion.privacy.sharp import sharp_epsilon

FloatArray = NDArray[np.float64]

LEAST_SIGMA = 0.3
"""Multipliers below it count as this one. What is reported is then a lower bound."""
NEAR, FAR = 10.0, 200.0
"""Metres from the victim to a curious device and to the server. They are the two ends of the paper's cell."""

ROWS: Mapping[str, tuple[str, str]] = {
    "server": ("one sample of any device", "nothing is lost; a larger ν protects more"),
    "model": ("the same: the received sum can be computed back", "nothing is lost"),
    "quieter 3 dB": ("less than is reported", "counting on the least noise that physics allows"),
    "quieter 6 dB": ("less than is reported", "counting on the least noise that physics allows"),
    "antennas": ("no promise is left (worst case)", "noise that the devices add themselves"),
    "stranger": ("no promise is left (worst case)", "noise that the devices add themselves"),
    "three strangers": ("no promise is left (worst case)", "noise that the devices add themselves"),
    "neighbour": (
        "no promise is left (worst case)",
        "noise that the devices add themselves, or secure sums beneath the air",
    ),
}
"""What is protected from each listener and what would restore it."""


class Realisation(NamedTuple):
    """One cell and its horizon, as the victim has it: the device with the largest path loss."""

    fade: FloatArray
    r""":math:`\lvert h_{m,t}\rvert^2` over its mean, shape (T,)."""
    sigma: FloatArray
    r"""The server's noise multiplier in each round, shape (T,)."""


def heard_better(rng: np.random.Generator, fade: FloatArray) -> dict[str, FloatArray]:
    r"""By how much each listener's signal-to-noise ratio for the victim beats the server's, in every round.

    The victim sends :math:`a_{m,t} \mathbf g_{m,t}` (:eq:`eq:transmit-weight`).
    Over channels :math:`h'_j` to receivers that combine what they hear, the ratio is

    .. math::
        \frac{\sum_j \lvert h'_{j,t}\rvert^2}{\lvert h_{m,t}\rvert^2} \cdot \frac{\sigma_n^2}{\sigma_n'^2} .

    Strangers, and the server's other antennas, of which it has four in all, are as far from the victim as the server,
    and fade on their own.  For the neighbour fading is left out.

    Parameters
    ----------
    rng : numpy.random.Generator
        Of the Rayleigh fading.
    fade : numpy.ndarray
        :math:`\lvert h_{m,t}\rvert^2` over its mean, shape (T,).

    Returns
    -------
    dict
        A ratio a round, shape (T,), for each key of :data:`ROWS`.
    """
    others = rng.exponential(size=(3, fade.size)) / fade
    far, near = channel.cost_hata_path_loss(np.array([FAR, NEAR]))
    even = np.ones(fade.size)
    return {
        "server": even,
        "model": even,
        "quieter 3 dB": 10**0.3 * even,
        "quieter 6 dB": 10**0.6 * even,
        "antennas": 1 + others.sum(axis=0),
        "stranger": others[0],
        "three strangers": others.sum(axis=0),
        "neighbour": far / near * even,
    }


def epsilon_at(rate: float, sigma: FloatArray, delta: float = 1e-5) -> tuple[float, bool]:
    r"""The exact :math:`\varepsilon`, and whether it is only a lower bound: where :data:`LEAST_SIGMA` was put in."""
    low = sigma < LEAST_SIGMA
    value = float(sharp_epsilon(rate, np.where(low, LEAST_SIGMA, sigma), delta))
    return value, bool(low.any())


def realisations(scenario: Scenario, nu: float, seeds: Iterable[int]) -> list[Realisation]:
    r"""What a victim has under Optimal at the budget :math:`\nu`, for each seed; the scenario's devices are alike."""
    found = []
    for seed in seeds:
        drawn = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
        problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), nu)
        victim = int(drawn.path_loss.argmax())
        sigma = problem.noise_multiplier(policies.Optimal().schedule(problem))[victim]
        found.append(Realisation(drawn.gain[victim] * drawn.path_loss[victim], sigma))
    return found


def listeners_table(budgets: Iterable[float] = (0.01, 0.16), seeds: Iterable[int] = range(9)) -> pd.DataFrame:
    r"""What each listener is left with, in the MNIST scenario with the policy Optimal.

    Parameters
    ----------
    budgets : iterable of float, > 0
    seeds : iterable of int

    Returns
    -------
    pandas.DataFrame
        A row a listener and budget: ``listener, nu, sigma`` (the median of all rounds), ``epsilon`` (the exact one of
        the median realisation), ``beyond`` (whether that is a lower bound), ``protected``, ``restored``.
    """
    scenario = Scenario.mnist()
    drawn, rows, rate = list(seeds), [], _rate(scenario)
    for nu in budgets:
        own: dict[str, list[FloatArray]] = {listener: [] for listener in ROWS}
        for seed, (fade, sigma) in zip(drawn, realisations(scenario, nu, drawn), strict=True):
            for listener, ratio in heard_better(np.random.default_rng([seed, 18]), fade).items():
                own[listener].append(sigma / np.sqrt(ratio))
        for listener, (protected, restored) in ROWS.items():
            found = [epsilon_at(rate, each) for each in own[listener]]
            epsilon, beyond = sorted(found)[len(found) // 2]
            rows.append(
                {
                    "listener": listener,
                    "nu": nu,
                    "sigma": float(np.median(own[listener])),
                    "epsilon": epsilon,
                    "beyond": beyond,
                    "protected": protected,
                    "restored": restored,
                }
            )
    return pd.DataFrame(rows)


def energy_multiplier(sigma: ArrayLike, dimension: int, norm: float) -> FloatArray:
    r"""The noise multiplier of a listener who has a power meter, and no more.

    .. math::
        \sigma_E = \sigma' \sqrt{1 + \frac{d\,\sigma'^2}{x^2}} , \qquad x = \frac{\lVert\mathbf g_{m,t}\rVert}{C / B_m}

    He measures :math:`\lVert\mathbf y_t\rVert^2` over d complex symbols, where :math:`\mathbf y_t` is
    :math:`\mathbf g_{m,t}` in units of :math:`C/B_m`, and :math:`\sigma'^2` of noise in each real part.  The mean is
    :math:`x^2 + 2d\sigma'^2`, the variance :math:`4\sigma'^2 x^2 + 4 d\sigma'^4`; a sample along the gradient moves the
    mean by about :math:`2x`.  For large d it is normal.

    Parameters
    ----------
    sigma : array_like
        :math:`\sigma' > 0`, that of the listener who demodulates.
    dimension : int
        :math:`d`.
    norm : float
        :math:`x > 0`, the gradient in units of what one sample can change.
    """
    sigma = check.positive("sigma", sigma)
    check.whole("dimension", dimension)
    multiplier: FloatArray = sigma * np.sqrt(1 + dimension * (sigma / check.positive("norm", norm)) ** 2)
    return multiplier


def gaussian_epsilon(mu: float, delta: float = 1e-5) -> float:
    r"""The exact :math:`\varepsilon` of a Gaussian mechanism with sensitivity over noise :math:`\mu`, without sampling.

    .. math::
        \delta = \Phi\Big(\frac\mu2 - \frac\varepsilon\mu\Big)
            - e^\varepsilon\, \Phi\Big(-\frac\mu2 - \frac\varepsilon\mu\Big)
    """
    mu, delta = float(check.positive("mu", mu)), check.fraction("delta", delta)

    def short(epsilon: float) -> float:
        # e^eps Phi(-z) through logarithms: eps may be large
        second = math.exp(epsilon + float(stats.norm.logcdf(-mu / 2 - epsilon / mu)))
        return float(stats.norm.cdf(mu / 2 - epsilon / mu)) - second - delta

    low, high = 0.0, mu**2 / 2 + mu * float(stats.norm.isf(delta)) + 1e-12
    if short(low) <= 0:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) > 0 else (low, middle)
    return high


def whole_device(scenario: Scenario, sigma: FloatArray) -> float:
    r"""Epsilon at :math:`\delta = 10^{-5}` of a whole device, all of whose gradients may be one vector of norm C.

    .. math::
        \mu^2 = \sum_t \frac{(B_m k_m)^2}{\sigma_t^2}

    A device is in every round, and moves the sum by :math:`\lvert\mathcal B_{m,t}\rvert` sensitivities, whose mean
    square is :math:`B_m^2 k_m^2`; batch sizes are taken as known.

    Parameters
    ----------
    scenario : Scenario
        Its devices are alike.
    sigma : numpy.ndarray
        :math:`\sigma_t`, shape (T,).
    """
    square = float(np.ravel(scenario.batch_size)[0]) ** 2 * float(np.ravel(scenario.batch_second_moment)[0])
    return gaussian_epsilon(math.sqrt(square * float((1 / sigma**2).sum())))


def replaced(rate: float, sigma: FloatArray) -> float:
    r"""Epsilon for neighbours that replace one sample, proven from that of adding or removing one.

    Remove, then add: :math:`\delta_2(\varepsilon_1 + \varepsilon_2) \le \delta(\varepsilon_1) + e^{\varepsilon_1}
    \delta(\varepsilon_2)`, at the best of 24 ways to divide :math:`\delta = 10^{-5}`.

    Parameters
    ----------
    rate, sigma
        :math:`q` and :math:`\sigma_t`, shape (T,).
    """
    best, delta = math.inf, 1e-5
    for share in np.linspace(0.02, 0.98, 24):
        first = float(sharp_epsilon(rate, sigma, share * delta))
        second = float(sharp_epsilon(rate, sigma, (1 - share) * delta * math.exp(-first)))
        best = min(best, first + second)
    return best


def opposite_gradients(
    rate: float, sigma: FloatArray, delta: float = 1e-5, orders: Sequence[float] = accounting.DEFAULT_ORDERS
) -> float:
    r"""Epsilon, by Rényi orders, of one replacement: a gradient of norm C by its opposite.

    .. math::
        (1 - q)\, \mathcal N(0, \sigma^2) + q\, \mathcal N(1, \sigma^2) \quad \text{against} \quad
        (1 - q)\, \mathcal N(0, \sigma^2) + q\, \mathcal N(-1, \sigma^2)

    An instance, and no worst case that is proven; to be held against the Rényi value of adding or removing.

    Parameters
    ----------
    rate, sigma
        :math:`q` and :math:`\sigma_t > 0`, shape (T,).
    delta : float, in (0, 1)
    orders : sequence of float
        Each > 1; default Opacus'.
    """
    chosen = np.sort(np.asarray(orders, dtype=float))
    # less noise than there is, by a thousandth of a sensitivity at most, so that few values are left
    values, count = np.unique(np.floor(1000 * sigma) / 1000, return_counts=True)
    total = np.zeros(chosen.shape)
    for each, times in zip(values, count, strict=True):
        z = np.arange(-1 - 2 * chosen[-1] - 14 * each, 1 + 2 * chosen[-1] + 14 * each, each / 8)  # tilted means inside
        base = stats.norm.logpdf(z, 0, each)
        top, bottom = (
            np.logaddexp(np.log1p(-rate) + base, np.log(rate) + stats.norm.logpdf(z, mean, each)) for mean in (1, -1)
        )
        for i, order in enumerate(chosen):
            integrand = order * top + (1 - order) * bottom
            peak = integrand.max()
            area = np.trapezoid(np.exp(integrand - peak), z)
            total[i] += times * (peak + math.log(area)) / (order - 1)
    return float(accounting.to_dp(total, chosen, delta).epsilon)


def added_by_devices(scenario: Scenario) -> float:
    r"""What it costs that every device hides its own gradient: the noise energy of a round, over that of now.

    Noise on :math:`\mathbf g_{m,t}` that is :math:`\sigma` times :math:`C/B_m` is as strong in the sum as the
    server's is now; there are M of them, and the receiver's own: :math:`M + 1`.
    """
    return scenario.num_devices + 1.0


def _rate(scenario: Scenario) -> float:
    return float(np.ravel(scenario.sampling_rate)[0])
