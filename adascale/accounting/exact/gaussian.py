r"""Gaussian differential privacy, where every round uses all samples: closed forms with the rounding they have."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

_ULP = 2.0**-52


def delta(energy: float, epsilon: float) -> tuple[float, float, float]:
    r""":math:`\delta = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon} \Phi(-\mu/2 - \varepsilon/\mu)` and its ends.

    With :math:`\mu^2` the sum of :math:`1 / \sigma_t^2`.
    """
    if energy == 0.0:
        return 0.0, 0.0, 0.0
    mu = math.sqrt(energy)
    first, second = (float(log_ndtr(sign * 0.5 * mu - epsilon / mu)) for sign in (1, -1))
    value = -math.exp(first) * math.expm1(min(second + epsilon - first, 0.0))
    off = 16 * _ULP * math.exp(first) * (4 + abs(first) + abs(second) + epsilon)
    return min(max(value, 0.0), 1.0), max(value - off, 0.0), min(value + off, 1.0)


def epsilon(energy: float, at: float) -> tuple[float, float, float]:
    """The smallest epsilon with delta at most ``at``, and its ends."""
    found = []
    for end in range(3):
        if delta(energy, 0.0)[end] <= at:
            found.append(0.0)
            continue
        high = 1.0
        while delta(energy, high)[end] > at:
            high *= 2.0
        root: float = brentq(lambda x, end=end: delta(energy, x)[end] - at, 0.0, high, rtol=1e-14, xtol=1e-300)
        found.append(root)
    return found[0], found[1] * (1 - 1e-11), found[2] * (1 + 1e-11)
