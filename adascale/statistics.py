"""How the book averages: t intervals on the logarithm, for positive and heavy-tailed results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from adascale import _validation as check


class Interval(NamedTuple):
    """A centre with the ends of its confidence interval."""

    centre: float
    low: float
    high: float


def log_interval(values, level: float = 0.95) -> Interval:
    r"""Geometric mean and Student t interval of positive values, computed on the logarithm.

    .. math:: \exp\Big(\bar y \pm t_{n-1} \frac{s_y}{\sqrt n}\Big), \qquad y_i = \ln v_i

    Parameters
    ----------
    values : array_like
        :math:`v_i > 0`: independent realisations, one axis.  A single value has an infinitely wide interval.
    level : float
        Confidence level in (0, 1).

    Returns
    -------
    Interval
        ``(centre, low, high)``.

    Raises
    ------
    ValueError
        If a value is not finite and positive, there is none, or the level is out of range.
    """
    y = np.log(check.positive("values", values))
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"values must have one axis and at least one entry, got shape {y.shape}")
    if y.size == 1:
        return Interval(float(np.exp(y[0])), 0.0, float("inf"))
    half = stats.t.ppf((1 + check.fraction("level", level)) / 2, y.size - 1) * y.std(ddof=1) / np.sqrt(y.size)
    centre = float(y.mean())
    return Interval(*(float(value) for value in np.exp([centre, centre - half, centre + half])))
