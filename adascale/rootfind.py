"""Root finders: Newton steps for compiled code, a vectorised bracketing search, and a search for a minimum."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale.checks import FloatArray, IndexArray
from adascale.compiled import inlined

Lanewise = Callable[[FloatArray, IndexArray], FloatArray]
"""A function of points ``x`` and indices that returns the value of each indexed function at its point."""


class Search(NamedTuple):
    """A search for the point at which a positive, decreasing ratio is 1, with its bracket ``low ... high``."""

    x: float
    """The next point to evaluate; once converged, the root."""
    low: float
    high: float
    change: float
    """The last step relative to its smaller end; inf at the start or after a bisection."""
    converged: bool


@inlined
def search_from(x: float, low: float) -> Search:
    """Start a search at x, for a root above ``low``."""
    return Search(x, low, np.inf, np.inf, False)


@inlined
def power_law_step(search: Search, ratio: float, decay: float) -> Search:
    r"""Take one Newton step of :math:`\ln \rho` against :math:`\ln x`, or bisect if it leaves the bracket or is slow.

    With :math:`\rho > 0` and :math:`m = -d \ln \rho / d \ln x` at ``search.x``, :math:`x^\star \approx x \rho^{1/m}`.
    """
    x = search.x
    low = search.low
    high = search.high
    if ratio > 1.0:
        low = x
    else:
        high = x
    if 0.1 < ratio < 10.0 and decay > 1.0:
        change = 2 * (ratio - 1) / ((decay - 1) * ratio + decay + 1)
    else:
        change = ratio ** (1 / decay) - 1
    step = x + x * change
    inside = low < step < high
    # the next error is about decay * change^2 / 2; a step that does not change x has no digit left to gain
    near = inside and decay * change * change < 2e-16
    if step < np.inf and decay < np.inf and (step == x or near):
        return Search(step, low, high, abs(step - x) / min(step, x), True)
    size = abs(step - x) / min(step, x)
    if inside and size < 0.8 * search.change:
        return Search(step, low, high, size, False)
    return _bisection(low, high, step)


@inlined
def _bisection(low: float, high: float, step: float) -> Search:
    """Halve a bracket in logarithms; without an upper end, take at least the double of the lower one."""
    if high == np.inf:
        return Search(max(step, 2 * low), low, high, np.inf, False)
    middle = math.sqrt(low) * math.sqrt(high)
    if 1e-290 < low * high < np.inf:
        middle = math.sqrt(low * high)
    neighbours = low > 0 and not low < middle < high
    return Search(middle, low, high, np.inf, neighbours)


def solve(
    function: Callable[[float], float],
    low: float,
    high: float,
    tolerance: float = 1e-11,
) -> float:
    """Find where a function crosses 0 between ``low`` and ``high``, by Chandrupatla's method; NaN if it does not.

    It is that of ``scipy.optimize.elementwise``, for one function in plain numbers, as that is slow to import.
    """
    a = low
    b = high
    at_a = function(low)
    at_b = function(high)
    t = 0.5
    while True:
        x, value = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        width = abs(b - a)
        near = 2 * tolerance * abs(x) + 2e-300
        if value == 0 or width < near:
            return x
        if (at_a > 0) == (at_b > 0):
            return math.nan
        least = 0.5 * near / width
        x = a + min(max(t, least), 1 - least) * (b - a)
        value = function(x)
        if (value > 0) == (at_a > 0):
            c = a
            at_c = at_a
        else:
            b, c, at_b, at_c = a, b, at_a, at_b
        a = x
        at_a = value
        t = 0.5
        xi = (a - b) / (c - b)
        phi = (at_a - at_b) / (at_c - at_b)
        # inverse quadratic interpolation is safe
        if 1 - math.sqrt(1 - xi) < phi < math.sqrt(xi):
            t = at_a / (at_a - at_b) * at_c / (at_c - at_b)
            t -= (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_b - at_c)


def valley(value: Callable[[int], float], size: int, guess: int) -> tuple[int, float]:
    """Find the minimum of unimodal value(0), ..., value(size - 1) by galloping from ``guess``, then bisection."""
    at = cache(value)
    low = 0
    high = size - 1
    middle = min(guess, size - 2)
    step = 1
    while low < high:  # the deepest point is in low ... high
        if at(middle) <= at(middle + 1):
            high = middle
            middle = middle - step
        else:
            low = middle + 1
            middle = middle + step
        step *= 2
        if not low <= middle < high or (low > 0 and high < size - 1):
            middle = (low + high) // 2
    return low, at(low)


def widen(
    function: Lanewise, start: ArrayLike, step: float, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Bracket the roots of many continuous functions within +- ``limit``, by growing steps in one direction.

    The direction is that of the smaller value, and where no root comes up to the limit, the other one.
    """
    low = np.array(start, dtype=float, ndmin=1)
    index = np.arange(low.size)
    ends = np.stack([low, np.minimum(low + step, limit)])
    values = np.stack([function(end, index) for end in ends])
    back = np.abs(values[0]) < np.abs(values[1])
    ends[:, back], values[:, back] = ends[::-1, back], values[::-1, back]
    begun, at_begun = ends.copy(), values.copy()
    missed = np.ones(low.size, dtype=bool)
    for way in (1, -1):
        ends[:, missed], values[:, missed] = (
            begun[::way, missed],
            at_begun[::way, missed],
        )
        for _ in range(200):
            missed = ((values[0] < 0) == (values[1] < 0)) & (values[1] != 0)
            (i,) = np.nonzero(missed & (np.abs(ends[1]) < limit))
            if not i.size:
                break
            ahead = ends[1, i] + 1.5 * (ends[1, i] - ends[0, i])
            ends[:, i] = ends[1, i], np.clip(ahead, -limit, limit)
            values[:, i] = values[1, i], function(ends[1, i], i)
    return ends.min(axis=0), ends.max(axis=0)


def bounded(values: FloatArray) -> FloatArray:
    """Replace infinite values by finite ones, because an infinite one breaks the tolerances of SciPy's root finder."""
    return np.clip(values, -1e300, 1e300)


def find_roots(
    function: Lanewise, low: ArrayLike, high: ArrayLike, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Find the roots of many functions by Chandrupatla's method, and their values; NaN without a change of sign.

    The values of the functions must be finite or NaN (:func:`bounded`).
    """
    from scipy.optimize import elementwise  # slow to import

    low = np.asarray(low, dtype=float)
    root = elementwise.find_root(
        function,
        (low, high),
        args=(np.arange(low.size),),
        tolerances={"xatol": 0.0, "xrtol": 1e-15, "fatol": tolerance, "frtol": 0.0},
        maxiter=60,
    )
    return root.x, root.f_x
