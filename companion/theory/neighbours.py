"""Why the sampling rate and the divisor of a batch must be public constants: an example in which they are not."""

from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm

from adascale import accounting


class OverTheLemma(NamedTuple):
    """Leakage of a round over that of :prf:ref:`lem-sgm`, by what follows the size of the data set."""

    nothing: float
    """Rate and divisor are public constants, and this is at most 1."""
    rate: float
    r"""The rate is :math:`B / n`, with the size :math:`n` of the data at hand."""
    divisor: float
    r"""The divisor is :math:`q n`, with the size :math:`n` of the data at hand."""


def size_follows_data(
    size: int = 100, batch: int = 10, sigma: float = 10.0
) -> OverTheLemma:
    """Integrate the leakage of one opposite gradient among equal ones, at order 3, over the lemma's.

    All ``size`` gradients are 1, in the unit of the sensitivity, and the sample that is added has the gradient -1.  The
    sum of a batch, ``batch`` samples on average, is binomial, so that the outputs for both neighbours are mixtures of
    normals. The larger of both directions counts.
    """
    count = np.arange(size + 1)
    z = np.arange(-1 - 12 * sigma, size + 12 * sigma, sigma / 40)

    def density(rate, means):
        """Of the sum of a batch, drawn at a rate, whose normals have these means, one per size of the batch."""
        return norm.pdf(z[:, None], means, sigma) @ binom.pmf(count, size, rate)

    def leakage(top, base):
        kept = (top > 0) & (base > 0)
        tilted = top[kept] ** 3.0 * base[kept] ** -2.0
        return np.log(np.trapezoid(tilted, z[kept])) / 2

    rate = batch / size
    less = batch / (size + 1)
    unit = size / (size + 1)
    without = density(rate, count)
    lemma = float(accounting.rdp(rate, sigma, 3))
    ratios = []
    for q, scale in ((rate, 1), (less, 1), (rate, unit)):
        absent, present = (density(q, scale * (count - drawn)) for drawn in (0, 1))
        near = (1 - q) * absent + q * present
        ratios.append(max(leakage(near, without), leakage(without, near)) / lemma)
    return OverTheLemma(*map(float, ratios))
