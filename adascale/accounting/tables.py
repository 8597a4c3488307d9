r"""A table of one log-moment, for schedules with many different noise multipliers.

:math:`\ln A_\alpha(q, e^y)` is a smooth function of :math:`y = \ln s`; on panels of 1/16, narrower at
higher orders, it is a polynomial of degree 13 to eleven digits in all ordinary cases, so that a multiplier costs one
polynomial instead of one integral.  A table that is not that good says so, and is not used.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.polynomial import chebyshev

from adascale.accounting import kernels

_WIDTH = 1 / 16  # up to order 6; half of it up to order 12
_DEGREE = 13
_ACCURACY = 1e-11
_SPAN = 4 * math.log(2)  # ends of a table are rounded outwards to powers of 16, so that it serves again


def table_for(q: float, alpha: float, low: float, high: float) -> LogMomentTable:
    """The table that covers ``low <= s <= high``, made once for every such range."""
    return _made(q, alpha, math.floor(math.log(low) / _SPAN), math.ceil(math.log(high) / _SPAN))


@lru_cache(maxsize=256)
def _made(q, alpha, first, last):
    return LogMomentTable(q, alpha, math.exp(_SPAN * first), math.exp(_SPAN * max(last, first + 1)))


class LogMomentTable:
    """``A(q, s)`` at one order for ``low <= s <= high``, by piecewise Chebyshev polynomials in ``ln s``."""

    def __init__(self, q: float, alpha: float, low: float, high: float):
        weights = kernels.log_weights(q, alpha)
        self.start = math.log(low)
        self.width = _WIDTH / math.ceil(alpha / 6)
        panels = int((math.log(high) - self.start) / self.width) + 1
        node = chebyshev.chebpts1(_DEGREE + 1)
        y = self.start + self.width * (np.arange(panels)[:, None] + (node + 1) / 2)
        value = kernels.map_log_moment(np.exp(y).ravel(), q, alpha, weights, False).reshape(y.shape)
        self.coefficient = chebyshev.chebfit(node, np.log(value).T, _DEGREE).T.copy()

    @property
    def accurate(self) -> bool:
        """Whether the last coefficients have died out in every panel."""
        return bool(np.abs(self.coefficient[:, -2:]).max() < _ACCURACY)

    def total(self, s: np.ndarray, count: np.ndarray) -> float:
        """The log-moments of the multipliers ``s``, each times its count, summed."""
        return _total(s, count, self.start, self.width, self.coefficient)


@njit(cache=True)
def _total(s, count, start, width, coefficient):
    total = 0.0
    for j in range(s.size):
        place = (math.log(s[j]) - start) / width
        panel = min(max(int(place), 0), coefficient.shape[0] - 1)
        x = 2 * (place - panel) - 1
        b1 = b2 = 0.0  # Clenshaw's recurrence
        for k in range(_DEGREE, 0, -1):
            b1, b2 = 2 * x * b1 - b2 + coefficient[panel, k], b1
        total += count[j] * math.exp(x * b1 - b2 + coefficient[panel, 0])
    return total
