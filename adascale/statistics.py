"""Means with Student t intervals, for values or their logarithms."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from adascale import checks as check
from adascale.errors import InvalidInput


class Interval(NamedTuple):
    """A centre and the ends of its confidence interval."""

    centre: float
    low: float
    high: float


def interval(values: ArrayLike, level: float = 0.95) -> Interval:
    r"""Compute the mean and its Student t interval, :math:`\bar v \pm t_{n-1}\, s_v / \sqrt n`.

    Parameters
    ----------
    values : array_like, shape (n,), finite
    level : float, in (0, 1)
    """
    v = check.as_floats("values", values)
    if v.ndim != 1 or v.size == 0:
        raise InvalidInput(
            f"values must have one axis and at least one entry, got shape {v.shape}",
            "values",
        )
    if not np.isfinite(v).all():
        raise InvalidInput(
            f"values must be finite, got {v[~np.isfinite(v)][0]}", "values"
        )
    level = check.fraction("level", level)
    if v.size == 1:
        return Interval(float(v[0]), float("-inf"), float("inf"))
    mean = float(v.mean())
    half = stdtrit(v.size - 1, (1 + level) / 2) * v.std(ddof=1) / np.sqrt(v.size)
    return Interval(mean, float(mean - half), float(mean + half))


def log_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    r"""Compute the geometric mean of values >= 0 and its t interval.

    They are the exponentials of :func:`interval` of :math:`\ln v_i`.  A value of 0 makes the mean and the lower end 0,
    and the upper end infinite unless all values are 0.
    """
    v = check.at_least("values", values, 0)
    zero = v == 0
    if zero.any():
        interval(v, level)  # only for its checks of the shape and the level
        return Interval(0.0, 0.0, 0.0 if zero.all() and v.size > 1 else float("inf"))
    with np.errstate(over="ignore"):
        return Interval(*(float(end) for end in np.exp(interval(np.log(v), level))))
