r"""Closed forms of Gaussian DP and of one sampled round, :math:`q\, \delta_\mu(\ln(1 + (e^\varepsilon - 1) / q))`."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.special import erfcx

from adascale.accounting.exact.moments import ULP, log_ratio
from adascale.rootfind import solve

# numbers near the smallest of a double are not rounded by a relative error
TINY = 1e-300


def delta(energy: Any, epsilon: Any) -> tuple[Any, Any, Any]:
    r"""Compute :math:`\Phi(\mu/2 - \varepsilon/\mu) - e^\varepsilon \Phi(-\mu/2 - \varepsilon/\mu)`.

    Return the value, its lower and its upper bound; ``energy`` is :math:`\mu^2`, (sensitivity / noise) squared.
    """
    with np.errstate(over="ignore"):
        mu = np.maximum(np.sqrt(energy), TINY)
        # beyond these, delta is 0 or 1
        z = np.clip(np.abs(epsilon) / mu - 0.5 * mu, -37.0, 40.0)
    # Mills' ratios, whose difference loses little where epsilon is large
    density = 0.5 * np.exp(-0.5 * z * z)
    first = density * erfcx(z / math.sqrt(2))
    value = first - density * erfcx((z + mu) / math.sqrt(2))
    # also for an energy with 48 binary digits
    size = np.abs(z)
    off = first * (4 + z * z) + density * (size + 1) * (size + mu)
    off = (16 * ULP * off + TINY) * (energy > 0)
    # delta(-x) = 1 - e^{-x} + e^{-x} delta(x)
    below = np.minimum(epsilon, 0.0)
    value = np.exp(below) * value - np.expm1(below)
    off = np.exp(below) * off + 8 * ULP * value
    low = np.maximum(value - off, 0.0)
    high = np.minimum(value + off, 1.0)
    return np.clip(value, 0.0, 1.0) + 0.0, low, high


def epsilon(q: float, energy: float, target: float) -> tuple[float, float, float]:
    """Compute the least epsilon of one round sampled at rate q with a delta of at most ``target``, and its bounds."""
    # delta(largest) <= target / (2 q)
    root = math.sqrt(2 * energy * max(math.log(q / target), 0.0))
    roots = []
    largest = 0.5 * energy + root

    def excess(x: float, side: int) -> float:
        return float(delta(energy, x)[side] - target / q)

    for side in range(3):  # value, lower bound, upper bound
        x = largest if excess(0.0, side) > 0 else 0.0
        if x and excess(x, side) <= 0:
            x = solve(partial(excess, side=side), 0.0, x, 1e-14)
        roots.append(x)
    value, low, high = log_ratio(np.array(roots), np.asarray(q)).tolist()
    return value, low * (1 - 1.5e-11), high * (1 + 1.5e-11)


def sampled_delta(
    q: float, energy: float, epsilon: float
) -> tuple[float, float, float]:
    """Compute :func:`delta` of one round sampled at rate ``q``: mixture against null, the larger direction."""
    if epsilon < 30.0:
        inner = math.log1p(math.expm1(epsilon) / q)
    else:
        inner = epsilon - math.log(q) + math.log1p((q - 1) * math.exp(-epsilon))
    value = delta(energy, inner)[0]
    # inner is accurate to a few units in the last place, and delta decreases with it
    low = delta(energy, inner * (1 + 1e-14))[1]
    high = delta(energy, inner * (1 - 1e-14))[2]
    low = max(q * low * (1 - 1e-15) - TINY, 0.0)
    return q * value, low, min(q * high * (1 + 1e-15) + TINY * (high > 0), 1.0)
