"""Coherence: the number of rounds that a floor counts for, known or estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.base import FloatArray

SEEN = "seen"
"""The coherence that is estimated from the floors seen so far."""


def seen_coherence(floor: ArrayLike) -> FloatArray:
    r"""Estimate by von Neumann's ratio for how many rounds a floor counts, shape (...).

    .. math::
        \hat c = 1 + \tfrac32 \Big(\frac{1 + \hat\varrho_1}{1 - \hat\varrho_1} - 1\Big)
        = \frac{6 \sum_i (x_i - \bar x)^2}{\sum_i (x_{i+1} - x_i)^2} - 2, \qquad x_i = \frac{1}{w_{\min,i}}

    with the correlation :math:`\hat\varrho_1` of consecutive floors; the estimate is clipped to 1 ... n.

    Parameters
    ----------
    floor : array_like, shape (..., n), :math:`w_{\min,i} > 0`
    """
    floor = check.positive("floor", floor)
    if floor.ndim == 0 or floor.shape[-1] == 0:
        raise ValueError(f"floor must have a last axis of floors, got shape {floor.shape}")
    rows = np.ascontiguousarray(floor.reshape(-1, floor.shape[-1]))
    return np.array([next_coherence(np.zeros(6), row) for row in rows]).reshape(floor.shape[:-1])


@njit(cache=True, nogil=True, error_model="numpy")
def next_coherence(moments: FloatArray, floor: FloatArray) -> float:
    """Return :func:`seen_coherence` after more floors of a row, and update ``moments``."""
    # moments: count, least and last floor; and, with x in units of its largest, its mean and both sums of squares
    for w in floor:
        n, mean = moments[0] + 1, moments[3]
        least, last = (moments[1], moments[2]) if n > 1 else (w, w)
        unit = min(least, w)
        x, shrink = unit / w, unit / least
        off = x - mean * shrink
        moments[0], moments[1], moments[2], moments[3] = n, unit, w, x - off * (n - 1) / n
        moments[4] = moments[4] * shrink**2 + off**2 * (n - 1) / n
        moments[5] = moments[5] * shrink**2 + (x - unit / last) ** 2
    coherence: float = moments[0]
    return coherence if moments[5] == 0.0 else min(max(6 * moments[4] / moments[5] - 2, 1.0), coherence)


def check_coherence(coherence: float | str) -> None:
    """Validate a coherence: one number >= 1, or ``"seen"`` as a string."""
    if isinstance(coherence, str):
        if coherence != SEEN:
            raise ValueError(f"coherence must be a number of rounds >= 1, or {SEEN!r}, got {coherence!r}")
    elif check.at_least("coherence", coherence, 1).ndim:
        raise ValueError(f"coherence must be one number, got {coherence!r}")
