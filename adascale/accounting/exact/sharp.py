"""Epsilon as one number inside the certified interval, mostly without computing the interval; for the book's tables."""

import contextlib
import math

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.exact.certify import epsilon_interval, is_rare
from adascale.accounting.exact.epsilon import checked
from adascale.accounting.exact.inversion import look
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.exact.search import sharp
from adascale.accounting.kernels import FloatArray
from adascale.errors import CannotCertify

_ROUNDING = 1e-14  # of the sum for one round, relative to its largest term


def sharp_epsilon(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, delta: float = 1e-5) -> FloatArray:
    r"""Compute :math:`\varepsilon` of schedules of shape (..., T) (:func:`exact_epsilon` has bounds)."""
    sigma, delta = check.positive("noise_multiplier", noise_multiplier), check.fraction("delta", delta)
    out = np.empty(sigma.shape[:-1])
    for lane in np.ndindex(out.shape):
        out[lane] = _value(checked(sampling_rate, sigma[lane])[0], delta)
    return out


def _value(rounds: Rounds, delta: float) -> float:
    if rounds.size > 1 and not is_rare(rounds):
        with contextlib.suppress(CannotCertify):
            value, direction, _ = sharp(rounds, delta, smooth=False)
            # how far the sum starts above delta, as its logarithm
            above = float(look(rounds, direction, None, value).log_bound(value).min()) - math.log(delta)
            if _ROUNDING * rounds.size * math.exp(min(above, 100.0)) < 1e-5:
                return value
    return epsilon_interval(rounds, delta).value


class SharpAccountant:
    """:func:`sharp_epsilon` as an accountant."""

    epsilon = staticmethod(sharp_epsilon)
