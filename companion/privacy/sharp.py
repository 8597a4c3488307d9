"""Epsilon as one number inside the certified interval, mostly without computing the interval; for the book's tables."""

import numpy as np
from numpy.typing import ArrayLike

from adascale.accounting.exact.certify import epsilon_interval
from adascale.accounting.exact.rounds import rounds_of
from adascale.accounting.exact.sums import sharp
from adascale.checks import FloatArray
from adascale.errors import CannotCertify


def sharp_epsilon(
    sampling_rate: float, noise_multiplier: ArrayLike, delta: float = 1e-5
) -> FloatArray:
    r"""Compute :math:`\varepsilon` of schedules of shape (..., T) of two rounds or more, not for rare samples."""

    def value(lane):
        rounds = rounds_of(np.full(lane.shape, float(sampling_rate)), lane)
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                return max(sharp(rounds, delta).values())
        except CannotCertify:
            return epsilon_interval(rounds, delta).estimate

    return np.apply_along_axis(value, -1, noise_multiplier)


class SharpAccountant:
    """:func:`sharp_epsilon` as an accountant."""

    epsilon = staticmethod(sharp_epsilon)
