"""How the book averages: t intervals, on the logarithm for positive and heavy-tailed results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from adascale import checks as check


class Interval(NamedTuple):
    """A centre with the ends of its confidence interval."""

    centre: float
    low: float
    high: float


def interval(values: ArrayLike, level: float = 0.95) -> Interval:
    r"""Mean and Student t interval, for results such as accuracies and paired differences.

    .. math:: \bar v \pm t_{n-1} \frac{s_v}{\sqrt n}

    Parameters
    ----------
    values : array_like
        :math:`v_i`, finite: independent realisations, one axis.  A single value has an infinitely wide interval; that
        of two is sound and hardly tighter, since :math:`t_1 = 12.7` at 95 %.
    level : float
        Confidence level in (0, 1).

    Returns
    -------
    Interval
        ``(centre, low, high)``; an end beyond floating point is infinite.
    """
    v = check.as_floats("values", values)
    if v.ndim != 1 or v.size == 0:
        raise ValueError(f"values must have one axis and at least one entry, got shape {v.shape}")
    if not np.isfinite(v).all():
        raise ValueError(f"values must be finite, got {v[~np.isfinite(v)][0]}")
    level = check.fraction("level", level)
    if v.size == 1:
        return Interval(float(v[0]), float("-inf"), float("inf"))
    # by a power of two, which changes no digit, to where squares neither overflow nor vanish
    scale = np.frexp(np.abs(v).max())[1]
    v = np.ldexp(v, -scale)
    half = stdtrit(v.size - 1, (1 + level) / 2) * v.std(ddof=1) / np.sqrt(v.size)
    with np.errstate(over="ignore"):
        return Interval(*(float(np.ldexp(v.mean() + sign * half, scale)) for sign in (0, -1, 1)))


def log_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    r"""Geometric mean and Student t interval of values >= 0, computed on the logarithm.

    .. math:: \exp\Big(\bar y \pm t_{n-1} \frac{s_y}{\sqrt n}\Big), \qquad y_i = \ln v_i

    For leakages and other :math:`v_i > 0`; arguments, result and errors as of :func:`interval` otherwise.

    A zero, as an :math:`\varepsilon` may be, has no logarithm.  One is enough to make the geometric mean zero, which is
    the centre then; of its error such values say nothing, so the interval is 0 ... inf.  If all are zero it is 0 ... 0.
    """
    v = check.at_least("values", values, 0)
    zero = v == 0
    if zero.any():
        interval(v, level)  # what else may be wrong
        return Interval(0.0, 0.0, 0.0 if zero.all() and v.size > 1 else float("inf"))
    with np.errstate(over="ignore"):
        return Interval(*(float(end) for end in np.exp(interval(np.log(v), level))))
