r"""Closed forms of Gaussian DP and of one sampled round, :math:`q\, \delta_\mu(\ln(1 + (e^\varepsilon - 1) / q))`."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from adascale.accounting.exact.moments import ULP, log_ratio
from adascale.rootfind import solve

# numbers near the smallest of a double are not rounded by a relative error
TINY = 1e-300


def delta(energy: Any, epsilon: Any) -> tuple[Any, Any, Any]:
    r"""Compute :math:`\Phi(\mu/2 - \varepsilon/\mu) - e^\varepsilon \Phi(-\mu/2 - \varepsilon/\mu)`.

    Return the value, its lower and its upper bound; ``energy`` is :math:`\mu^2`, (sensitivity / noise) squared.
    """
    if np.ndim(energy) == 0 and energy == 0:
        exact = np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)
        return exact, exact * (1 - 8 * ULP), exact * (1 + 8 * ULP)
    mu = np.sqrt(energy)
    log_first = log_ndtr(0.5 * mu - epsilon / mu)
    log_second = log_ndtr(-0.5 * mu - epsilon / mu)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.exp(log_first)
        gap = np.minimum(log_second + epsilon - log_first, 0.0)
        value = -size * np.expm1(gap)
        logs = np.abs(log_first) + np.abs(log_second) + np.abs(epsilon)
        gap_off = 16 * ULP * logs
        second_off = np.exp(np.minimum(gap + gap_off, 0.0)) * gap_off
        off = size * (16 * ULP * (4 + np.abs(log_first)) + second_off)
        # a difference of Mills' ratios, which loses less where epsilon is large
        z = np.maximum(epsilon / mu - 0.5 * mu, 0.0)
        density = 0.5 * np.exp(-0.5 * z * z)
        other = density * (erfcx(z / math.sqrt(2)) - erfcx((z + mu) / math.sqrt(2)))
        # also for an energy with 48 binary digits
        other_off = 16 * ULP * density * (4 + (z + 1) * (z + mu))
        better = (z > 0) & (other_off < off)
        value = np.where(better, other, value)
        off = np.where(better, other_off, off)
    gone = log_first < -800.0  # it underflows
    value = np.where(gone, 0.0, value)
    off = np.where(gone, 0.0, off)
    low = np.maximum(value - off - TINY, 0.0)
    high = np.minimum(value + off + TINY, 1.0)
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
    value, low, high = log_ratio(np.array(roots), np.asarray(q))[0].tolist()
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
