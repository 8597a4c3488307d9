"""Root finders: Newton steps for compiled code, Chandrupatla's method for one function or many, and a minimum."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale.checks import FloatArray, IndexArray
from adascale.compiled import inlined

ManyFunctions = Callable[[FloatArray, IndexArray], FloatArray]
"""Many functions in one, of points x and an index: entry k is the value of function ``index[k]`` at ``x[k]``."""


class Search(NamedTuple):
    """A search for the x > 0 at which a decreasing function, the ratio, is 1; it is between ``low`` and ``high``."""

    x: float
    """The next point to evaluate; once converged, the root."""
    low: float
    high: float
    size: float
    """The size of the last step relative to the smaller of its ends; inf at the start or after a bisection."""
    converged: bool


@inlined
def search_from(x: float, low: float) -> Search:
    """Start a search at x, for a root above ``low``."""
    return Search(x, low, np.inf, np.inf, False)


@inlined
def power_law_step(search: Search, ratio: float, decay: float) -> Search:
    r"""Take one Newton step of :math:`\ln \rho` against :math:`\ln x`, or bisect if it leaves the bracket or is slow.

    Given are the ratio :math:`\rho > 0` and its decay :math:`m = -d \ln \rho / d \ln x > 0` at ``search.x``.  A power
    law with these two is 1 at :math:`x \rho^{1/m}`, the next point.
    """
    x = search.x
    low = search.low
    high = search.high
    if ratio > 1.0:
        low = x
    else:
        high = x
    # ratio^(1 / decay) - 1, for which a rational approximation is good enough near the root, and faster
    if 0.1 < ratio < 10.0 and decay > 1.0:
        change = 2 * (ratio - 1) / ((decay - 1) * ratio + decay + 1)
    else:
        change = ratio ** (1 / decay) - 1
    step = x + x * change
    inside = low < step < high
    size = abs(step - x) / min(step, x)
    # the next error is about decay * change^2 / 2; a step that does not change x has no digit left to gain
    near = inside and decay * change * change < 2e-16
    if step < np.inf and decay < np.inf and (step == x or near):
        return Search(step, low, high, size, True)
    if inside and size < 0.8 * search.size:  # slower steps may never arrive
        return Search(step, low, high, size, False)
    return _bisection(low, high, step)


@inlined
def _bisection(low: float, high: float, step: float) -> Search:
    """Halve a bracket in logarithms; without an upper end, go on to the step, but at least to twice the lower end."""
    if high == np.inf:
        return Search(max(step, 2 * low), low, high, np.inf, False)
    middle = math.sqrt(low) * math.sqrt(high)  # does not overflow
    if 1e-290 < low * high < np.inf:
        middle = math.sqrt(low * high)  # rounded less
    neighbours = low > 0 and not low < middle < high
    return Search(middle, low, high, np.inf, neighbours)


def solve(
    function: Callable[[float], float],
    low: float,
    high: float,
    tolerance: float = 1e-11,
) -> float:
    """Find where a function crosses 0 between ``low`` and ``high``, by Chandrupatla's method; NaN if it does not.

    SciPy has this method in ``scipy.optimize.elementwise``, which is slow to import.  The search ends at a bracket
    whose width is twice ``tolerance``, relative to the root.
    """
    a = low
    b = high
    at_a = function(low)
    at_b = function(high)
    t = 0.5  # the next point, as a share of the way from a to b
    while True:
        x, value = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        width = abs(b - a)
        near = 2 * tolerance * abs(x) + 2e-300
        if value == 0 or width < near:
            return x
        if (at_a > 0) == (at_b > 0):
            return math.nan
        least = 0.5 * near / width  # stay off the ends, which are known
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
        # Chandrupatla's criterion: inverse quadratic interpolation through a, b and c is safe; else halve the bracket
        if 1 - math.sqrt(1 - xi) < phi < math.sqrt(xi):
            t = at_a / (at_a - at_b) * at_c / (at_c - at_b)
            t -= (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_b - at_c)


def valley(value: Callable[[int], float], size: int, guess: int) -> tuple[int, float]:
    """Return where value(0), ..., value(size - 1) is least, and that value; the values fall first and rise then.

    Starting from ``guess``, steps that double find two places with the minimum between them, and bisection ends there.
    """
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
        # bisect once a step would leave low ... high, or both ends have been moved
        if not low <= middle < high or (low > 0 and high < size - 1):
            middle = (low + high) // 2
    return low, at(low)


def widen(
    function: ManyFunctions, start: ArrayLike, step: float, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends, within +- ``limit``, between which many continuous functions change sign.

    Each search goes from ``start``, shape (n,), in steps that begin with ``step`` and grow by half.  First it goes
    where the absolute value falls, and if there is no root up to the limit, the other way.  A function without a root
    has no change of sign between its ends.
    """
    low = np.array(start, dtype=float, ndmin=1)
    index = np.arange(low.size)
    # the search goes from ends[0] to ends[1] and beyond
    ends = np.stack([low, np.minimum(low + step, limit)])
    values = np.stack([function(end, index) for end in ends])
    back = np.abs(values[0]) < np.abs(values[1])
    ends[:, back], values[:, back] = ends[::-1, back], values[::-1, back]
    begun, at_begun = ends.copy(), values.copy()
    missed = np.ones(low.size, dtype=bool)
    for way in (1, -1):  # -1 exchanges the ends
        ends[:, missed], values[:, missed] = (
            begun[::way, missed],
            at_begun[::way, missed],
        )
        for _ in range(200):  # 1.5^200 times the first step gets to any limit
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
    function: ManyFunctions, low: ArrayLike, high: ArrayLike, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Find the roots of many functions between ``low`` and ``high`` by Chandrupatla's method, and the values there.

    A search ends at a value of at most ``tolerance``, with a bracket that has no digit left to gain, or after 60 steps.
    Both results are NaN without a change of sign.  The values of the functions must be finite or NaN (:func:`bounded`).
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
