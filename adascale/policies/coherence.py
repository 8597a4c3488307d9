r"""For how many rounds a floor counts: fading that hangs together from round to round, known or seen."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.policies.base import in_rows

FloatArray = NDArray[np.float64]

SEEN = "seen"
"""The coherence of a policy that takes it from the floors it has seen."""


def seen_coherence(floor: ArrayLike) -> FloatArray:
    r"""For how many rounds a floor counts, from the floors seen, by von Neumann's ratio.

    .. math::
        \hat c = 1 + \tfrac32 \Big(\frac{1 + \hat\varrho_1}{1 - \hat\varrho_1} - 1\Big)
        = \frac{6 \sum_i (x_i - \bar x)^2}{\sum_i (x_{i+1} - x_i)^2} - 2, \qquad x_i = \frac{1}{w_{\min,i}}

    with the correlation :math:`\hat\varrho_1` of neighbours, held between 1 and the number of floors.  The inner
    fraction is the integrated autocorrelation time of correlations that fall geometrically.  The bottleneck of
    Gauss-Markov gains has about twice that, blocks half of it; the factor 3/2 was chosen between them.

    Parameters
    ----------
    floor : array_like
        :math:`w_{\min,i} > 0`, shape (..., n), in the order of the rounds, n >= 1.

    Returns
    -------
    numpy.ndarray
        :math:`\hat c`, shape (...); n where all floors are equal.

    Raises
    ------
    ValueError
        If a floor is not finite and positive, or there is none.
    """
    floor = check.positive("floor", floor)
    if floor.ndim == 0 or floor.shape[-1] == 0:
        raise ValueError(f"floor must have a last axis of floors, got shape {floor.shape}")
    return seen_next(np.zeros((floor[..., 0].size, 6)), floor)[1]


def seen_next(moments: FloatArray, floor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ``moments`` of :func:`next_coherence`, a row per lane, after floors of shape (..., n), and the coherence."""
    after, lanes = moments.copy(), floor.shape[:-1]
    return after, _next(after, in_rows(floor, lanes, floor.shape[-1])).reshape(lanes)


@njit(cache=True, error_model="numpy")
def _next(moments: FloatArray, floor: FloatArray) -> FloatArray:
    coherence = np.empty(len(floor))
    for lane in range(len(floor)):
        for t in range(floor.shape[1]):
            coherence[lane] = next_coherence(moments[lane], floor[lane, t])
    return coherence


@njit(cache=True, error_model="numpy")
def next_coherence(moments: FloatArray, floor: float) -> float:
    """:func:`seen_coherence` after one more floor.  ``moments`` begin as zeros and follow: the number of floors, the
    least, the last, and for x in units of the largest the mean, the squares about it and those of the steps."""
    n, mean = moments[0] + 1, moments[3]
    least, last = (moments[1], moments[2]) if n > 1 else (floor, floor)
    unit = min(least, floor)
    x, shrink = unit / floor, unit / least
    off = x - mean * shrink
    moments[0], moments[1], moments[2], moments[3] = n, unit, floor, x - off * (n - 1) / n
    moments[4] = moments[4] * shrink**2 + off**2 * (n - 1) / n
    moments[5] = moments[5] * shrink**2 + (x - unit / last) ** 2
    coherence: float = n if moments[5] == 0.0 else min(max(6 * moments[4] / moments[5] - 2, 1.0), n)
    return coherence


def check_coherence(coherence: float | str) -> None:
    """A ``ValueError`` unless it is one number >= 1, or ``"seen"``."""
    if isinstance(coherence, str):
        if coherence != SEEN:
            raise ValueError(f"coherence must be a number of rounds >= 1, or {SEEN!r}, got {coherence!r}")
    elif check.at_least("coherence", coherence, 1).ndim:
        raise ValueError(f"coherence must be one number, got {coherence!r}")
