"""Why the sampling rate and the divisor of a batch must be public constants: an example in which they are not."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from adascale import accounting

# means and weights of normals with one deviation
_Mixture = tuple[NDArray[np.float64], NDArray[np.float64]]


class OverTheLemma(NamedTuple):
    """Leakage of a round over that of :prf:ref:`lem-sgm`, by what follows the size of the data set."""

    nothing: float
    """Rate and divisor are public constants, and this is at most 1."""
    rate: float
    r"""The rate is :math:`B / n`, with the size :math:`n` of the data at hand."""
    divisor: float
    r"""The divisor is :math:`q n`, with the size :math:`n` of the data at hand."""


def _divergence(top, base, sigma, order):
    low = min(top[0].min(), base[0].min()) - 12 * sigma
    high = max(top[0].max(), base[0].max()) + 12 * sigma
    z = np.arange(low, high, sigma / 40)
    p, q = (
        stats.norm.pdf(z[:, None], means, sigma) @ weights
        for means, weights in (top, base)
    )
    positive = (p > 0) & (q > 0)
    return float(
        np.log(
            np.trapezoid(p[positive] ** order * q[positive] ** (1 - order), z[positive])
        )
        / (order - 1)
    )


def size_follows_data(
    size: int = 100, batch: int = 10, sigma: float = 10.0
) -> OverTheLemma:
    """Integrate the leakage of one opposite gradient among equal ones, at order 3, over the lemma's.

    All ``size`` gradients are 1, in the unit of the sensitivity, and the sample that is added has the gradient -1.  The
    sum of a batch, ``batch`` samples on average, is binomial, so that the outputs for both neighbours are mixtures of
    normals. The larger of both directions counts.
    """
    count = np.arange(size + 1).astype(float)

    def with_opposite(rate, unit=1.0):
        law = stats.binom.pmf(count, size, rate)
        return unit * np.r_[count, count - 1], np.r_[law * (1 - rate), law * rate]

    rate = batch / size
    without = count, stats.binom.pmf(count, size, rate)
    lemma = float(accounting.rdp(rate, sigma, 3))
    neighbours = [
        with_opposite(rate),
        with_opposite(batch / (size + 1)),
        with_opposite(rate, size / (size + 1)),
    ]
    ratios = [
        max(_divergence(near, without, sigma, 3), _divergence(without, near, sigma, 3))
        / lemma
        for near in neighbours
    ]
    return OverTheLemma(*ratios)
