r"""The exact :math:`\delta(\varepsilon)` of two rounds, for :ref:`app-privacy-theorems`."""

import math

import numpy as np
from scipy.special import ndtr

_ROOT = math.sqrt(2 * math.pi)
_GAUSS = np.polynomial.legendre.leggauss(24)


def two_round_delta(
    sampling_rate: float,
    noise_multiplier: tuple[float, float],
    epsilon: float,
    removed: bool = False,
) -> float:
    r"""Return the exact :math:`\delta(\varepsilon)` of two rounds at :math:`\varepsilon \ge 0`, by one integral.

    Given the other round, :math:`(y_1 y_2 - K)_+ = q\,y_2\,(e^{L_1} - k)_+` with :math:`k = (K/y_2 - 1 + q)/q`: a call
    on a log-normal variable, whose price is known.  With ``removed`` null against mixture, by default mixture against
    null: there some twelve digits, in the other direction :math:`e^\varepsilon` times the rounding of 1.
    """
    q = sampling_rate
    strike = math.exp(-epsilon if removed else epsilon)
    if strike <= (1 - q) ** 2:  # y_1 y_2 is never less
        return 0.0
    s1, s2 = (float(sigma) ** -2 for sigma in noise_multiplier)
    root = math.sqrt(s2)

    # beyond it every e^{L_1} counts, and below it the price bends
    end = (math.log((strike / (1 - q) - 1 + q) / q) + s2 / 2) / root
    near = end - np.geomspace(1e-6, 20 + root, 50)
    edges = np.r_[near, end, np.arange(-10, 10 + root, 0.25)]
    edges = np.unique(np.clip(edges, -10, end))
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + _GAUSS[0])
    y = 1 - q + q * np.exp(root * x - s2 / 2)
    k = np.maximum((strike / y - 1 + q) / q, 1e-300)
    d = (s1 / 2 - np.log(k)) / math.sqrt(s1)
    price = ndtr(d) - k * ndtr(d - math.sqrt(s1))
    inner = (half * _GAUSS[1] * np.exp(-x * x / 2) / _ROOT * q * y * price).sum()
    call = inner + (1 - q - strike) * ndtr(-end) + q * ndtr(root - end)
    return float(math.exp(epsilon) * (call - 1 + strike) if removed else call)
