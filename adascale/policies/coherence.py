r"""For how many rounds a floor counts: fading that hangs together from round to round, known or seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.compiled import njit

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
    rows = np.ascontiguousarray(floor.reshape(-1, floor.shape[-1]))
    return np.array([coherence_of(row) for row in rows]).reshape(floor.shape[:-1])


@njit(cache=True, error_model="numpy")
def coherence_of(floor: FloatArray) -> float:
    """:func:`seen_coherence` of one row of floors."""
    least = floor.min()  # so that x is at most 1
    mean = 0.0
    for w in floor:
        mean += least / w
    mean /= floor.size
    spread, steps = 0.0, 0.0
    for i in range(floor.size):
        x = least / floor[i]
        spread += (x - mean) ** 2
        if i > 0:
            steps += (x - least / floor[i - 1]) ** 2
    if steps == 0.0:
        return float(floor.size)
    return min(max(6 * spread / steps - 2, 1.0), float(floor.size))


def check_coherence(coherence: float | str) -> None:
    """A ``ValueError`` unless it is one number >= 1, or ``"seen"``."""
    if isinstance(coherence, str):
        if coherence != SEEN:
            raise ValueError(f"coherence must be a number of rounds >= 1, or {SEEN!r}, got {coherence!r}")
    elif check.at_least("coherence", coherence, 1).ndim:
        raise ValueError(f"coherence must be one number, got {coherence!r}")
