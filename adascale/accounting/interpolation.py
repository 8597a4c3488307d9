r"""A table of one log-moment, for schedules with many different noise multipliers.

:math:`\ln A_\alpha(q, e^y)` is a smooth function of :math:`y = \ln s`; on panels of 1/2, or 1/16 where that is too
wide, both narrower at higher orders, it is a polynomial of degree 13 to eleven digits in all ordinary cases, so that a
multiplier costs one polynomial instead of one integral.  A table that is not that good says so, and is not used.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from adascale.accounting.kernels import MomentTerms, map_log_moment, moment_terms
from adascale.compiled import njit

FloatArray = NDArray[np.float64]

_WIDTH = 1 / 16  # up to order 6; half of it up to order 12
_WIDER = 8  # narrow panels in a wide one
_DEGREE = 13
_ACCURACY = 1e-11
_SPAN = 8 * math.log(2)  # ends of a table are rounded outwards to powers of 256, so that it serves again
_NODE = chebyshev.chebpts1(_DEGREE + 1)
_TO_POWERS = np.array([np.pad(chebyshev.cheb2poly(row), (0, _DEGREE - k)) for k, row in enumerate(np.eye(_DEGREE + 1))])


def table_for(q: float, alpha: float, low: float, high: float) -> LogMomentTable:
    """The table that covers ``low <= ln s <= high``, made once for every such range."""
    return _made(q, alpha, math.floor(low / _SPAN), math.ceil(high / _SPAN))


@lru_cache(maxsize=512)
def _made(q: float, alpha: float, first: int, last: int) -> LogMomentTable:
    return LogMomentTable(q, alpha, _SPAN * first, _SPAN * max(last, first + 1))


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
        # of each narrow panel, where its polynomial begins, how wide it is and which it is
        panel = np.arange(start.size)[:, None].repeat(_WIDER, axis=1)
        panel[split] = start.size + np.arange(finer.size).reshape(-1, _WIDER)
        self.panel = panel.ravel()
        self.start = np.concatenate([start, finer])
        self.scale = np.concatenate([np.full(start.size, 2 / wide), np.full(finer.size, 2 / self.width)])
        coefficient = np.concatenate([coefficient, _fit(finer, self.width, terms)])
        self.worst = float(_tail(coefficient)[self.panel].max())
        self.coefficient = coefficient @ _TO_POWERS

    @property
    def accurate(self) -> bool:
        """Whether the last coefficients have died out in every panel."""
        return self.worst < _ACCURACY

    def total(self, log_s: FloatArray) -> float:
        """The log-moments of a schedule, summed; ``log_s`` are the sorted logarithms of its :math:`1 / \\sigma_t^2`."""
        return float(_total(log_s, self.low, self.width, self.panel, self.start, self.scale, self.coefficient))


def _fit(start: FloatArray, width: float, terms: MomentTerms) -> FloatArray:
    """The polynomials of the panels that begin there, shape (panels, degree + 1)."""
    y = start[:, None] + width * (_NODE + 1) / 2
    value = map_log_moment(np.exp(y).ravel(), terms, 0).reshape(y.shape)
    value = np.maximum(value, 1e-300)  # what is 0 has no logarithm
    return np.asarray(chebyshev.chebfit(_NODE, np.log(value).T, _DEGREE).T, dtype=float)


def _tail(coefficient: FloatArray) -> FloatArray:
    last: FloatArray = np.abs(coefficient[:, -2:]).max(axis=-1)
    return last


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
