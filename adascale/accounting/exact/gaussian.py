r"""Closed forms of Gaussian DP and of one sampled round, :math:`q\, \delta_\mu(\ln(1 + (e^\varepsilon - 1) / q))`."""

import math
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from adascale.accounting.exact.moments import ULP, log_ratio
from adascale.rootfind import solve

TINY = (
    1e-300  # numbers near the smallest of a double are not rounded by a relative error
)


def delta(energy: Any, epsilon: Any) -> tuple[Any, Any, Any]:
    r"""Compute :math:`\Phi(\mu/2 - \varepsilon/\mu) - e^\varepsilon \Phi(-\mu/2 - \varepsilon/\mu)`, with bounds."""
    if np.ndim(energy) == 0 and energy == 0:
        exact = np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)
        return exact, exact * (1 - 8 * ULP), exact * (1 + 8 * ULP)
    mu = np.sqrt(energy)
    first, second = (log_ndtr(sign * 0.5 * mu - epsilon / mu) for sign in (1, -1))
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.exp(first)
        gap = np.minimum(second + epsilon - first, 0.0)
        value = -size * np.expm1(gap)
        gap_off = 16 * ULP * (np.abs(first) + np.abs(second) + np.abs(epsilon))
        off = size * (
            16 * ULP * (4 + np.abs(first))
            + np.exp(np.minimum(gap + gap_off, 0.0)) * gap_off
        )
        # a difference of Mills' ratios, which loses less where epsilon is large
        z = np.maximum(epsilon / mu - 0.5 * mu, 0.0)
        density = 0.5 * np.exp(-0.5 * z * z)
        other = density * (erfcx(z / math.sqrt(2)) - erfcx((z + mu) / math.sqrt(2)))
        other_off = (
            16 * ULP * density * (4 + (z + 1) * (z + mu))
        )  # also for an energy with 48 binary digits
        better = (z > 0) & (other_off < off)
        value, off = np.where(better, other, value), np.where(better, other_off, off)
    gone = first < -800.0  # it underflows
    value, off = np.where(gone, 0.0, value), np.where(gone, 0.0, off)
    return (
        np.clip(value, 0.0, 1.0) + 0.0,
        np.maximum(value - off - TINY, 0.0),
        np.minimum(value + off + TINY, 1.0),
    )


def epsilon(q: float, energy: float, at: float) -> tuple[float, float, float]:
    """Compute the smallest epsilon of one round with a delta of at most ``at``, and its bounds."""
    found = []
    # delta(most) <= at / (2 q)
    most = 0.5 * energy + math.sqrt(2 * energy * max(math.log(q / at), 0.0))
    for i in range(3):
        root = most if delta(energy, 0.0)[i] > at / q else 0.0
        if root and delta(energy, root)[i] <= at / q:

            def excess(x: float, i: int = i) -> float:
                return float(delta(energy, x)[i] - at / q)

            root = solve(excess, 0.0, root, 1e-14)
        found.append(root)
    value, low, high = log_ratio(np.array(found), np.asarray(q))[0].tolist()
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
    low, high = (
        delta(energy, inner * (1 + 1e-14))[1],
        delta(energy, inner * (1 - 1e-14))[2],
    )
    return (
        q * value,
        max(q * low * (1 - 1e-15) - TINY, 0.0),
        min(q * high * (1 + 1e-15) + TINY * (high > 0), 1.0),
    )
