r"""Chebyshev tables of a log-moment in :math:`\ln s`, for schedules with many different noise multipliers."""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from adascale.accounting.kernels import FloatArray, MomentTerms, map_log_moment, moment_terms
from adascale.compiled import njit

_WIDTH = 1 / 16  # width of a panel up to order 6; half of it up to order 12
_WIDER = 8  # number of narrow panels in a wide one
_DEGREE = 13
_ACCURACY = 1e-11
_SPAN = 8 * math.log(2)  # ends of a table are rounded outwards to powers of 256, so that it can be reused
_NODE = chebyshev.chebpts1(_DEGREE + 1)
_TO_POWERS = np.array([np.pad(chebyshev.cheb2poly(row), (0, _DEGREE - k)) for k, row in enumerate(np.eye(_DEGREE + 1))])


class LogMomentTable:
    """``A(q, s)`` at one order for ``low <= ln s <= high``, by piecewise Chebyshev polynomials in ``ln s``."""

    def __init__(self, q: float, alpha: float, low: float, high: float) -> None:
        terms = moment_terms(q, alpha)
        self.low, self.width = low, _WIDTH / math.ceil(alpha / 6)
        wide = _WIDER * self.width
        start = low + wide * np.arange(int((high - low) / wide) + 1.0)
        coefficient = _fit(start, wide, terms)
        split = np.flatnonzero(_tail(coefficient) >= _ACCURACY)
        finer = (start[split, None] + self.width * np.arange(_WIDER)).ravel()
        # which polynomial covers each narrow panel, where it begins, and its scale
        panel = np.arange(start.size)[:, None].repeat(_WIDER, axis=1)
        panel[split] = start.size + np.arange(finer.size).reshape(-1, _WIDER)
        self.panel = panel.ravel()
        self.start = np.concatenate([start, finer])
        self.scale = np.repeat([2 / wide, 2 / self.width], [start.size, finer.size])
        coefficient = np.concatenate([coefficient, _fit(finer, self.width, terms)])
        self.accurate = bool(_tail(coefficient)[self.panel].max() < _ACCURACY)  # the last coefficients are negligible
        self.coefficient = coefficient @ _TO_POWERS

    def total(self, log_s: FloatArray) -> float:
        """Sum the log-moments over ``log_s``, the sorted logarithms of 1 / sigma_t^2."""
        return float(_total(log_s, self.low, self.width, self.panel, self.start, self.scale, self.coefficient))


_cached = lru_cache(maxsize=512)(LogMomentTable)


def table_for(q: float, alpha: float, low: float, high: float) -> LogMomentTable:
    """Return the cached table that covers ``low <= ln s <= high``."""
    first, last = math.floor(low / _SPAN), math.ceil(high / _SPAN)
    return _cached(q, alpha, _SPAN * first, _SPAN * max(last, first + 1))


def _fit(start: FloatArray, width: float, terms: MomentTerms) -> FloatArray:
    y = start[:, None] + width * (_NODE + 1) / 2
    value = np.maximum(map_log_moment(np.exp(y).ravel(), terms).reshape(y.shape), 1e-300)  # zero has no logarithm
    return np.asarray(chebyshev.chebfit(_NODE, np.log(value).T, _DEGREE).T, dtype=float)


def _tail(coefficient: FloatArray) -> FloatArray:
    return np.asarray(np.abs(coefficient[:, -2:]).max(axis=-1))


@njit(cache=True, nogil=True)
def _total(
    log_s: FloatArray,
    low: float,
    width: float,
    panel: NDArray[np.intp],
    start: FloatArray,
    scale: FloatArray,
    coefficient: FloatArray,
) -> float:
    total = value = 0.0
    for j in range(log_s.size):
        if j == 0 or log_s[j] != log_s[j - 1]:
            place = min(max(int((log_s[j] - low) / width), 0), panel.size - 1)
            k = panel[place]
            x = (log_s[j] - start[k]) * scale[k] - 1
            polynomial = 0.0
            for i in range(_DEGREE, -1, -1):
                polynomial = polynomial * x + coefficient[k, i]
            value = math.exp(polynomial)
        total += value
    return total
