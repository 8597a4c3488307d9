r"""What an :math:`\varepsilon` lets an adversary do, computed for trainings with the same noise in every round.

The adversary sees all outputs of a training and asks whether one sample was used.  Everything is exact, or a bound that
the exact :math:`\delta(\varepsilon)` of the sampled Gaussian mechanism gives (:eq:`eq:inversion`).
"""

import math
from typing import NamedTuple

import numpy as np

from adascale.accounting import beta, calibrate, exact_delta


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


def adversary(epsilon: float, sampling_rate: float, rounds: int) -> Adversary:
    r"""Compute what an exact :math:`(\varepsilon, 10^{-5})` lets an adversary do who sees a training.

    .. math:: \Pr[\text{best guess is right}] = \tfrac12 (1 + \delta(0))
    """
    sigma = calibrate([(sampling_rate, 1.0, rounds)], epsilon, 1e-5).scale
    schedule = np.full(rounds, sigma)
    return Adversary(
        noise_multiplier=sigma,
        odds=math.exp(epsilon),
        posterior=1 / (1 + math.exp(-epsilon)),
        guess=(1 + exact_delta(sampling_rate, schedule, 0.0).estimate) / 2,
        found=1 - float(beta([(sampling_rate, sigma, rounds)], 0.01)),
    )
