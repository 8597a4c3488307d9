"""Root finders: Newton steps for compiled code, and a vectorised bracketing search."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.compiled import njit

FloatArray = NDArray[np.float64]
Lanewise = Callable[[FloatArray, NDArray[np.intp]], FloatArray]
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


@njit(cache=True, inline="always")
def search_from(x: float, low: float) -> Search:
    """Start a search at x, for a root above ``low``."""
    return Search(x, low, np.inf, np.inf, False)


@njit(cache=True, inline="always")
def power_law_step(search: Search, ratio: float, decay: float) -> Search:
    r"""Take one Newton step of :math:`\ln \rho` against :math:`\ln x`, or bisect if it leaves the bracket or is slow.

    With :math:`\rho > 0` and :math:`m = -d \ln \rho / d \ln x` at ``search.x``, :math:`x^\star \approx x \rho^{1/m}`.
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
    # the next error is about decay * change^2 / 2; a step that does not change x has no digit left to gain
    converged = step < np.inf and decay < np.inf
    converged = converged and (
        step == x or (low < step < high and decay * change * change < 2e-16)
    )
    size = abs(step - x) / min(step, x)
    if not converged and not (low < step < high and size < 0.8 * search.change):
        size = np.inf
        if high == np.inf:
            step = max(step, 2 * low)
        else:
            product = low * high
            step = (
                math.sqrt(product)
                if 1e-290 < product < np.inf
                else math.sqrt(low) * math.sqrt(high)
            )
            converged = low > 0 and (step <= low or step >= high)  # neighbours
    return Search(step, low, high, size, converged)


def solve(
    function: Callable[[float], float],
    low: float,
    high: float,
    tolerance: float = 1e-11,
) -> float:
    """Find where a function crosses 0 between ``low`` and ``high``, by Chandrupatla's method; NaN if it does not.

    It is that of ``scipy.optimize.elementwise``, for one function in plain numbers, as that is slow to import.
    """
    a, b, at_a, at_b, t = low, high, function(low), function(high), 0.5
    while True:
        x, value = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        width, near = abs(b - a), 2 * tolerance * abs(x) + 2e-300
        if value == 0 or width < near:
            return x
        if (at_a > 0) == (at_b > 0):
            return math.nan
        least = 0.5 * near / width
        x = a + min(max(t, least), 1 - least) * (b - a)
        value = function(x)
        if (value > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            b, c, at_b, at_c = a, b, at_a, at_b
        a, at_a, t = x, value, 0.5
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        if (
            1 - math.sqrt(1 - xi) < phi < math.sqrt(xi)
        ):  # inverse quadratic interpolation is safe
            t = at_a / (at_a - at_b) * at_c / (at_c - at_b)
            t -= (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_b - at_c)


def widen(
    function: Lanewise, start: ArrayLike, step: float, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Bracket the roots of many continuous functions within +- ``limit``, by geometrically growing steps."""
    low = np.array(start, dtype=float, ndmin=1)
    ends, every = np.stack([low, np.minimum(low + step, limit)]), np.arange(low.size)
    values = np.stack([function(end, every) for end in ends])
    for turn in range(200):
        (i,) = np.nonzero(
            ((values[0] < 0) == (values[1] < 0))
            & ((ends[0] > -limit) | (ends[1] < limit))
        )
        if not i.size:
            break
        (low, high), (below, above) = ends[:, i], np.abs(values[:, i])
        up = (above < below) | (
            (above == below) & (turn % 2 == 0)
        )  # towards the smaller value
        up = (up & (high < limit)) | (low <= -limit)
        with np.errstate(all="ignore"):  # values may be equal or infinite
            straight = np.minimum(below, above) / np.abs(
                above - below
            )  # where a straight line crosses 0, in widths
            ahead = (high - low) * np.clip(
                np.nan_to_num(1.3 * straight, nan=4.0), 0.5, 4.0
            )
        x = np.where(
            up, np.minimum(high + ahead, limit), np.maximum(low - ahead, -limit)
        )
        value, near = function(x, i), up.astype(np.intp)  # row 1 has the upper ends
        crossed = (value < 0) != (
            values[0, i] < 0
        )  # so far, both ends had the same sign
        for array, new in ((ends, x), (values, value)):
            array[1 - near[crossed], i[crossed]] = array[near[crossed], i[crossed]]
            array[near, i] = new
    return ends[0], ends[1]


def find_roots(
    function: Lanewise, low: ArrayLike, high: ArrayLike, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Find the roots of many functions by Chandrupatla's method, and their values; NaN without a change of sign."""
    from scipy.optimize import elementwise  # slow to import

    low = np.asarray(low, dtype=float)
    found = elementwise.find_root(
        lambda x, index: np.clip(
            function(x, index), -1e300, 1e300
        ),  # an infinite value breaks scipy's tolerance
        (low, high),
        args=(np.arange(low.size),),
        tolerances={"xatol": 0.0, "xrtol": 1e-15, "fatol": tolerance, "frtol": 0.0},
        maxiter=60,
    )
    return found.x, found.f_x
