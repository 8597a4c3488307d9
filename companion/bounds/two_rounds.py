r"""The exact :math:`\delta(\varepsilon)` of two rounds, for :ref:`app-privacy-theorems`."""

import math

import numpy as np
from scipy.special import ndtr

_NODE, _MASS = np.polynomial.legendre.leggauss(24)


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
    root1 = math.sqrt(s1)
    root2 = math.sqrt(s2)

    # L_2 = root2 x - s2 / 2 for a normal x; beyond this x every e^{L_1} counts, and below it the price bends
    certain = (strike / (1 - q) - 1 + q) / q
    end = (math.log(certain) + s2 / 2) / root2
    near = end - np.geomspace(1e-6, 20 + root2, 50)
    coarse = np.arange(-10, 10 + root2, 0.25)
    edges = np.r_[near, end, coarse]
    edges = np.unique(np.clip(edges, -10, end))

    # below the end: the call's price, by Gauss's rule between the edges
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + _NODE)
    weight = half * _MASS * np.exp(-x * x / 2) / math.sqrt(math.tau)
    y = 1 - q + q * np.exp(root2 * x - s2 / 2)
    k = np.maximum((strike / y - 1 + q) / q, 1e-300)
    d = (s1 / 2 - np.log(k)) / root1
    price = ndtr(d) - k * ndtr(d - root1)
    call = (weight * q * y * price).sum()

    # beyond it: the mean of y_2 - K, as y_1 has the mean 1
    call += (1 - q - strike) * ndtr(-end)
    call += q * ndtr(root2 - end)
    if not removed:
        return float(call)
    put = call - 1 + strike
    return float(math.exp(epsilon) * put)
