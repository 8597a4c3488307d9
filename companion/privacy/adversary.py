r"""What an :math:`\varepsilon` lets an adversary do, computed for trainings with the same noise in every round.

The adversary sees all outputs of a training and asks whether one sample was used.  Everything is exact, or a bound that
the exact :math:`\delta(\varepsilon)` of the sampled Gaussian mechanism gives (:eq:`eq:inversion`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from adascale import checks as check
from adascale.accounting import exact_delta, trade_off
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
    r"""The :math:`\sigma` of every round that gives a training an exact :math:`\varepsilon`, to a millionth."""
    target, q = (
        float(check.positive("epsilon", epsilon)),
        float(check.sampling_rate("sampling_rate", sampling_rate)),
    )
    size = check.whole("rounds", rounds)

    def excess(log_sigma: float) -> float:
        return (
            float(sharp_epsilon(q, np.full(size, math.exp(log_sigma)), delta)) - target
        )

    low, high = math.log(0.5), math.log(2.0)
    while excess(high) > 0:
        low, high = high, high + math.log(2)
    while excess(low) < 0:
        low, high = low - math.log(1.25), low
    return math.exp(brentq(excess, low, high, xtol=1e-6))


def adversary(
    epsilon: float, sampling_rate: float, rounds: int, delta: float = 1e-5
) -> Adversary:
    r"""What an exact :math:`(\varepsilon, \delta)` means to an adversary who sees a training of constant noise.

    .. math:: \Pr[\text{best guess is right}] = \tfrac12 (1 + \delta(0))
    """
    sigma = matched_noise(epsilon, sampling_rate, rounds, delta)
    schedule = np.full(rounds, sigma)
    return Adversary(
        noise_multiplier=sigma,
        odds=math.exp(epsilon),
        posterior=1 / (1 + math.exp(-epsilon)),
        guess=(1 + exact_delta(sampling_rate, schedule, 0.0).estimate) / 2,
        found=float(1 - trade_off(sampling_rate, schedule, 0.01)),
    )
