r"""Correlated noise over the air: its error and its exact epsilon (:ref:`app-correlated-noise`).

Devices send :math:`(Cg)_t = \sum_j c_j \mathbf g_{t-j}`, the receiver adds white noise, and the server inverts C.
The noise energy of a round is given as the square of its noise multiplier.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.signal import lfilter

from adascale import accounting
from adascale.scenario import FloatArray

DELTA = 1e-5


def coefficients(bands: int) -> FloatArray:
    r"""Return :math:`c_j \propto \binom{2j}{j} 4^{-j}`, the first of the root of the matrix of ones, of norm 1."""
    j = np.arange(1, bands)
    c = np.cumprod(np.append(1.0, (2 * j - 1) / (2 * j)))
    return c / np.linalg.norm(c)


def power_factor(c: FloatArray) -> float:
    r"""Return :math:`\kappa = (\sum_j |c_j|)^2 / \lVert c\rVert^2`, the most energy of a signal over :math:`G^2`."""
    return float(np.abs(c).sum() ** 2 / np.sum(c**2))


def error(c: FloatArray, energy: FloatArray) -> float:
    r"""Return the mean over t of :math:`\mathbb E\lVert\sum_{s \le t} (C^{-1}\mathbf z)_s\rVert^2`, of noise (T,)."""
    T = len(energy)
    sums = np.cumsum(lfilter([1.0], c, np.eye(1, T)[0]))
    return float(np.cumsum(sums**2)[::-1] @ energy / T)


def multipliers(c: FloatArray, energy: FloatArray, residue: int) -> FloatArray:
    r"""Return the multipliers :math:`(\sum_j c_j^2 / n_{t+j})^{-1/2}` of the rounds that a sample may join."""
    seen = np.convolve(1 / energy[::-1], c**2)[: len(energy)][::-1]
    return 1 / np.sqrt(seen[residue :: len(c)])


def epsilon(c: FloatArray, energy: FloatArray, rate: float) -> float:
    """Return the exact epsilon of the worst residue under cyclic Poisson sampling; the rate is that of white noise."""
    b = len(c)
    events = [
        [(b * rate, float(sigma), 1) for sigma in multipliers(c, energy, r)]
        for r in range(b)
    ]
    return max(accounting.epsilon(each, DELTA).upper for each in events)


def water_level(
    c: FloatArray, floor: FloatArray, rate: float, target: float
) -> FloatArray:
    """Return the noise energies, at least these floors (T,), at which epsilon is the target, or less."""

    def gap(log_level):
        reached = epsilon(c, np.maximum(np.exp(log_level), floor), rate)
        return float(np.log(reached / target))  # nearly linear

    low = -2.0
    high = 6.0
    level = np.exp(brentq(gap, low, high, xtol=1e-4)) if gap(low) > 0 else 0.0
    return np.maximum(level, floor)
