r"""Chebyshev tables of a log-moment in :math:`\ln s`, for schedules with many different noise multipliers."""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from adascale.accounting.kernels import FloatArray, map_log_moment, moment_terms

LARGEST_ORDER = 12.0  # above it panels would have to be too narrow to be worth it
_WIDTH = 1 / 16  # width of a panel up to order 6, beyond it half of that
_DEGREE = 13
_ACCURACY = 1e-11
_SPAN = 8 * math.log(2)  # ends of a table are rounded outwards to powers of 256, so that it can be reused
_NODE = chebyshev.chebpts1(_DEGREE + 1)
_BLOCK = 2**16  # entries at a time, to stay in the cache


class LogMomentTable:
    """``A(q, s)`` at one order for ``low <= ln s <= high``, by piecewise Chebyshev polynomials in ``ln s``."""

    def __init__(self, q: float, alpha: float, low: float, high: float) -> None:
        self.low, self.width = low, _WIDTH / math.ceil(alpha / 6)
        y = low + self.width * (np.arange(int((high - low) / self.width) + 1.0)[:, None] + (_NODE + 1) / 2)
        value = map_log_moment(np.exp(y).ravel(), moment_terms(q, alpha)).reshape(y.shape)
        self.coefficient = chebyshev.chebfit(_NODE, np.log(np.maximum(value, 1e-300)).T, _DEGREE)  # 0 has no logarithm
        self.accurate = bool(np.abs(self.coefficient[-2:]).max() < _ACCURACY)  # the last coefficients are negligible

    def total(self, log_s: FloatArray) -> float:
        """Sum the log-moments over ``log_s``, logarithms of 1 / sigma_t^2."""
        total = 0.0
        for start in range(0, log_s.size, _BLOCK):
            place = (log_s[start : start + _BLOCK] - self.low) / self.width
            panel = np.clip(place.astype(int), 0, self.coefficient.shape[1] - 1)
            x, value, before = 2 * (place - panel) - 1, np.zeros(place.shape), np.zeros(place.shape)
            for each in self.coefficient[:0:-1]:  # Clenshaw's recurrence
                value, before = each[panel] + 2 * x * value - before, value
            total += float(np.exp(self.coefficient[0][panel] + x * value - before).sum())
        return total


_cached = lru_cache(maxsize=512)(LogMomentTable)


def table_for(q: float, alpha: float, low: float, high: float) -> LogMomentTable:
    """Return the cached table that covers ``low <= ln s <= high``."""
    first, last = math.floor(low / _SPAN), math.ceil(high / _SPAN)
    return _cached(q, alpha, _SPAN * first, _SPAN * max(last, first + 1))
