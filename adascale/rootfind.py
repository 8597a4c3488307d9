r"""Root finders that say whether they have converged: one for kernels, one for many functions side by side.

A search is a small record that is advanced one value at a time by whoever evaluates the function, so compiled code
needs no function pointers.  Whoever calls a search looks at ``converged`` and raises what its reader understands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.compiled import njit

FloatArray = NDArray[np.float64]
Index = NDArray[np.intp]
Lanewise = Callable[[FloatArray, Index], FloatArray]
"""The values at the points ``x`` of the functions with these indices."""


class Search(NamedTuple):
    """A search for where a positive, decreasing ratio is 1: the root lies in ``low ... high``."""

    x: float
    """Where to evaluate next; the root, once converged."""
    low: float
    high: float
    change: float
    """The size of the last step relative to the smaller end of it; inf for a start or a halved bracket."""
    converged: bool


@njit(cache=True, inline="always")
def search_from(x: float, low: float) -> Search:
    """A search that starts at x, for a root above ``low``."""
    return Search(x, low, np.inf, np.inf, False)


@njit(cache=True, inline="always")
def power_law_step(search: Search, ratio: float, decay: float) -> Search:
    r"""One Newton step of :math:`\ln \rho` against :math:`\ln x`, kept within the bracket.

    A power law :math:`\rho = (x / x^\star)^{-m}` is solved in one step, :math:`x^\star = x \rho^{1/m}`; near the root
    its Padé approximant does as well.  The error is squared from step to step, so a small step is the last one.  Where
    a step leaves the bracket or is hardly shorter than the one before, the bracket is halved instead.

    Parameters
    ----------
    search : Search
        The state; ``x`` > 0 is where the ratio was evaluated.
    ratio : float
        :math:`\rho(x) > 0`, decreasing in x.
    decay : float
        :math:`m = -d \ln \rho / d \ln x > 0` there; where it is infinite the step is no Newton step.

    Returns
    -------
    Search
        The next state.
    """
    x, low, high = search.x, search.low, search.high
    if ratio > 1.0:
        low = x
    else:
        high = x
    if 0.1 < ratio < 10.0 and decay > 1.0:
        change = 2 * (ratio - 1) / ((decay - 1) * ratio + decay + 1)
    else:
        change = ratio ** (1 / decay) - 1
    step = x + x * change
    # the next error is about decay * change^2 / 2; a step that ends where it began has no digit left to gain
    converged = step < np.inf and decay < np.inf
    converged = converged and (step == x or (low < step < high and decay * change * change < 2e-16))
    size = abs(step - x) / min(step, x)
    if not converged and not (low < step < high and size < 0.8 * search.change):
        size = np.inf
        if high == np.inf:
            step = max(step, 2 * low)
        else:
            product = low * high
            step = math.sqrt(product) if 1e-290 < product < np.inf else math.sqrt(low) * math.sqrt(high)
            converged = low > 0 and (step <= low or step >= high)  # neighbours
    return Search(step, low, high, size, converged)


class Brackets(NamedTuple):
    """Where functions change their sign, each of shape (N,)."""

    low: FloatArray
    low_value: FloatArray
    high: FloatArray
    high_value: FloatArray
    third: FloatArray
    """One more known point, from which the first step is interpolated; NaN for none."""
    third_value: FloatArray
    converged: NDArray[np.bool_]
    """Whether the two values have unlike signs."""


class Roots(NamedTuple):
    """The best points found, each of shape (N,)."""

    x: FloatArray
    residual: FloatArray
    """The value there."""
    converged: NDArray[np.bool_]
    """Whether the value is within the tolerance."""


def widen(function: Lanewise, start: ArrayLike, step: float, limit: float) -> Brackets:
    r"""Brackets of the roots of many continuous functions, by steps that widen geometrically.

    Parameters
    ----------
    function : callable
        See :data:`Lanewise`.
    start : array_like
        Where to begin, shape (N,), each within ``limit``.
    step : float
        The first step, upwards.
    limit : float
        No point is farther than this from zero: a function that has no root within it does not converge.

    Returns
    -------
    Brackets
    """
    start = np.atleast_1d(np.asarray(start, dtype=float))
    every = np.arange(start.size)
    ends = np.full((start.size, 6), np.nan)  # low, its value, high, its value, the point before, its value
    ends[:, 0], ends[:, 2] = start, np.minimum(start + step, limit)
    ends[:, 1], ends[:, 3] = function(ends[:, 0], every), function(ends[:, 2], every)
    for turn in range(200):
        x, open_ = _beyond(ends, limit, turn)
        if not open_.size:
            break
        _extend(ends, open_, x, function(x, open_))
    low, low_value, high, high_value, third, third_value = ends.T
    return Brackets(low, low_value, high, high_value, third, third_value, (low_value < 0) != (high_value < 0))


def find_roots(function: Lanewise, brackets: Brackets, tolerance: float, iterations: int = 60) -> Roots:
    r"""The roots of many functions by Chandrupatla's method: inverse quadratic steps where they are safe, else halves.

    Parameters
    ----------
    function : callable
        See :data:`Lanewise`.
    brackets : Brackets
        From :func:`widen`, or one's own.  Where there is none, the better end is returned.
    tolerance : float
        Largest size of a value at which a search ends; it also ends at neighbouring points.
    iterations : int
        At most so many evaluations each.

    Returns
    -------
    Roots
    """
    points = np.stack(brackets[:6], axis=1)
    best, residual = _best(points)
    for _ in range(iterations):
        width = np.abs(points[:, 0] - points[:, 2])
        (open_,) = np.nonzero(brackets.converged & (np.abs(residual) > tolerance) & (width > 1e-15 * np.abs(best)))
        if not open_.size:
            break
        x = _propose(points, open_)
        _narrow(points, open_, x, function(x, open_))
        best, residual = _best(points)
    return Roots(best, residual, np.abs(residual) <= tolerance)


def _best(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    first = np.abs(points[:, 1]) < np.abs(points[:, 3])
    return np.where(first, points[:, 0], points[:, 2]), np.where(first, points[:, 1], points[:, 3])


@njit(cache=True, nogil=True)
def _beyond(ends: FloatArray, limit: float, turn: int) -> tuple[FloatArray, Index]:
    """The next point of every search that has no change of sign yet and can still be widened, and its index."""
    x, index, count = np.empty(ends.shape[0]), np.empty(ends.shape[0], dtype=np.intp), 0
    for i in range(ends.shape[0]):
        low, low_value, high, high_value = ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3]
        if (low_value < 0) != (high_value < 0) or (low <= -limit and high >= limit):
            continue
        gap, width = abs(high_value) - abs(low_value), high - low
        up = gap < 0 or (gap == 0 and turn % 2 == 0)  # to where the value is smaller
        up = (up and high < limit) or low <= -limit
        nearer = min(abs(low_value), abs(high_value))
        straight = nearer / abs(gap) if gap != 0 else 4.0  # in widths, where a straight line would cross
        ahead = width * min(max(1.3 * straight, 0.5), 4.0)
        x[count] = min(high + ahead, limit) if up else max(low - ahead, -limit)
        index[count] = i
        count += 1
    return x[:count], index[:count]


@njit(cache=True, nogil=True)
def _extend(ends: FloatArray, index: Index, x: FloatArray, value: FloatArray) -> None:
    """The new points become ends; if the sign has changed there, the other end is no longer one."""
    for n in range(index.size):
        i, up = index[n], x[n] > ends[index[n], 2]
        near, far = (2, 0) if up else (0, 2)
        if (value[n] < 0) != (ends[i, near + 1] < 0):
            ends[i, 4], ends[i, 5] = ends[i, far], ends[i, far + 1]
            ends[i, far], ends[i, far + 1] = ends[i, near], ends[i, near + 1]
        ends[i, near], ends[i, near + 1] = x[n], value[n]


@njit(cache=True, nogil=True)
def _propose(points: FloatArray, index: Index) -> FloatArray:
    """Where to evaluate next; the first point of each row is the last one evaluated."""
    x = np.empty(index.size)
    for n in range(index.size):
        x1, f1, x2, f2, x3, f3 = points[index[n]]
        t = 0.5
        if f3 != f2 and f3 != f1 and x3 != x2:
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            if 1 - math.sqrt(max(1 - xi, 0.0)) < phi < math.sqrt(max(xi, 0.0)):  # then the inverse is monotone
                t = f1 / (f1 - f2) * f3 / (f3 - f2) - (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f2 - f3)
        x[n] = x1 + min(max(t, 0.0), 1.0) * (x2 - x1)
    return x


@njit(cache=True, nogil=True)
def _narrow(points: FloatArray, index: Index, x: FloatArray, value: FloatArray) -> None:
    for n in range(index.size):
        point = points[index[n]]
        if (value[n] < 0) == (point[1] < 0):
            point[4], point[5] = point[0], point[1]
        else:
            point[4], point[5] = point[2], point[3]
            point[2], point[3] = point[0], point[1]
        point[0], point[1] = x[n], value[n]
