r"""What an :math:`\varepsilon` lets an adversary do, computed for trainings with the same noise in every round.

The adversary sees all outputs of a training and asks whether one sample was used.  Everything is exact, or a bound that
the exact :math:`\delta(\varepsilon)` of the sampled Gaussian mechanism gives (:eq:`eq:inversion`).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from adascale.accounting import beta, exact_delta
from companion.privacy.sharp import sharp_epsilon


class Adversary(NamedTuple):
    r"""What an adversary gains from a whole training with :math:`\sigma`, ``noise_multiplier``, in every round.

    The definition allows the factor :math:`e^\varepsilon` on the ``odds``, under which even odds become ``posterior``.
    The best guess is right with probability ``guess``, at even odds, and at most the share ``found`` of the samples
    that were used is found at one false alarm in a hundred.
    """

    noise_multiplier: float
    odds: float
    posterior: float
    guess: float
    found: float


def matched_noise(
    epsilon: float, sampling_rate: float, rounds: int, delta: float = 1e-5
) -> float:
    r"""Return the :math:`\sigma` of every round that gives a training an exact :math:`\varepsilon`, to a millionth."""

    def excess(log_sigma):
        schedule = np.full(rounds, math.exp(log_sigma))
        return float(sharp_epsilon(sampling_rate, schedule, delta)) - epsilon

    return math.exp(brentq(excess, math.log(0.25), math.log(64), xtol=1e-6))


def adversary(epsilon: float, sampling_rate: float, rounds: int) -> Adversary:
    r"""Compute what an exact :math:`(\varepsilon, 10^{-5})` lets an adversary do who sees a training.

    .. math:: \Pr[\text{best guess is right}] = \tfrac12 (1 + \delta(0))
    """
    sigma = matched_noise(epsilon, sampling_rate, rounds)
    schedule = np.full(rounds, sigma)
    return Adversary(
        noise_multiplier=sigma,
        odds=math.exp(epsilon),
        posterior=1 / (1 + math.exp(-epsilon)),
        guess=(1 + exact_delta(sampling_rate, schedule, 0.0).estimate) / 2,
        found=1 - float(beta([(sampling_rate, sigma, rounds)], 0.01)),
    )
