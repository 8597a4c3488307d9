"""Exact epsilon without proven bounds, for the book's tables; internal, as it is wrong when sampling is rare."""

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.exact.epsilon import checked
from adascale.accounting.exact.search import sharp
from adascale.accounting.kernels import FloatArray


def sharp_epsilon(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, delta: float = 1e-5) -> FloatArray:
    r"""Compute :math:`\varepsilon` of schedules of shape (..., T) without proof; **wrong when sampling is rare**."""
    sigma, delta = check.positive("noise_multiplier", noise_multiplier), check.fraction("delta", delta)
    out = np.empty(sigma.shape[:-1])
    for lane in np.ndindex(out.shape):
        rounds, shown = checked(sampling_rate, sigma[lane])
        try:
            out[lane] = sharp(rounds, delta)[0]
        except ArithmeticError as error:
            raise ValueError(f"the exact epsilon of {shown} at delta {delta:g} was not found: {error}") from None
    return out


class SharpAccountant:
    """:func:`sharp_epsilon` as an accountant."""

    epsilon = staticmethod(sharp_epsilon)
