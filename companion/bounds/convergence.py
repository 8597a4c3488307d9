r"""The convergence bound of the training, and the learning rates that it admits (:ref:`chap-convergence`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check

FloatArray = NDArray[np.float64]


class ConvergenceBound(NamedTuple):
    r"""The right side of a convergence theorem, term by term, each of the shape of the lanes.

    The formulas are those of the paper's theorem; :func:`~companion.bounds.nearly_exact_bound` has the same four terms
    with smaller factors.
    """

    initial: FloatArray
    r""":math:`2 (f(\boldsymbol\theta_0) - f^\star) / (\lambda T)`: how far there is to go."""
    heterogeneity: FloatArray
    r""":math:`2 k^2 L \lambda (A_1 + 1) C_2`: the devices disagree."""
    sampling: FloatArray
    r""":math:`k^2 L \lambda A_2`: samples differ within a device."""
    noise: FloatArray
    r""":math:`\frac{L \lambda}{2T} \sum_t w_t`: the receiver noise, the only term that the schedule changes."""

    @property
    def total(self) -> FloatArray:
        """The whole right side."""
        return self.initial + self.heterogeneity + self.sampling + self.noise


def check_noise_energy(noise_energy: ArrayLike) -> FloatArray:
    """Finite and >= 0, of shape (..., T) with T >= 1."""
    w = check.at_least("noise_energy", noise_energy, 0)
    if w.ndim == 0 or w.shape[-1] == 0:
        raise ValueError(f"noise_energy must have a last axis of rounds, got shape {w.shape}")
    return w


def largest_learning_rate(
    smoothness: ArrayLike, A1: ArrayLike, C1: ArrayLike, batch_second_moment: ArrayLike = 2.0
) -> FloatArray:
    r"""The largest learning rate that the convergence theorem admits (:eq:`eq:step-limit`).

    .. math:: \lambda_{\max} = \frac{1}{2 k^2 L (C_1 + 1)(A_1 + 1)}

    With :math:`k^2 = 2` this is the paper's :math:`1 / (4 L (C_1 + 1)(A_1 + 1))`.

    Parameters
    ----------
    smoothness, A1, C1, batch_second_moment : array_like
        As for :func:`~companion.bounds.convergence_bound`; they broadcast.

    Returns
    -------
    numpy.ndarray
        Of the broadcast shape.
    """
    smoothness = check.positive("smoothness", smoothness)
    A1, C1 = check.at_least("A1", A1, 0), check.at_least("C1", C1, 0)
    k2 = check.at_least("batch_second_moment", batch_second_moment, 1)
    with np.errstate(over="ignore", divide="ignore"):
        rate = 1 / (2 * k2 * smoothness * (C1 + 1) * (A1 + 1))
    return check.positive("the largest learning rate for these constants", rate)


def convergence_bound(
    noise_energy: ArrayLike,
    learning_rate: ArrayLike,
    initial_gap: ArrayLike,
    *,
    smoothness: ArrayLike,
    A1: ArrayLike,
    A2: ArrayLike,
    C1: ArrayLike,
    C2: ArrayLike,
    batch_second_moment: ArrayLike = 2.0,
) -> ConvergenceBound:
    r"""The right side of the convergence theorem (:prf:ref:`thm-convergence`; the paper's Theorem 1).

    .. math::
        \frac1T \sum_{t=0}^{T-1} \mathbb E\lVert\nabla f(\boldsymbol\theta_t)\rVert^2 \le
        \frac{2 (f(\boldsymbol\theta_0) - f^\star)}{\lambda T} + k^2 L \lambda \big(2 C_2 (A_1 + 1) + A_2\big)
        + \frac{L \lambda}{2T} \sum_{t=0}^{T-1} w_t, \qquad w_t = \frac{d \sigma_n^2}{\eta_t}

    Parameters
    ----------
    noise_energy : array_like
        :math:`w_t \ge 0`, shape (..., T): the leading axes are lanes.  Zero is a receiver without noise.
    learning_rate : array_like
        :math:`0 < \lambda \le` :func:`~companion.bounds.largest_learning_rate`; broadcasts against the lanes, as does
        all that follows.
    initial_gap : array_like
        :math:`f(\boldsymbol\theta_0) - f^\star \ge 0`.
    smoothness : array_like
        :math:`L > 0` of assumption A1.
    A1, A2 : array_like
        :math:`A_1, A_2 \ge 0` of assumption A3: :math:`\mathbb E\lVert\mathbf z\rVert^2 \le
        A_1 \lVert\nabla f_m\rVert^2 + A_2`.
    C1, C2 : array_like
        :math:`C_1, C_2 \ge 0` of assumption A4.
    batch_second_moment : array_like
        :math:`k^2 = \max_m k_m^2 \ge 1`.  The default 2 is the paper's, and covers every :math:`B_m \ge 1 - q_m`; for
        smaller expected batches pass ``max(scenario.batch_second_moment)``.

    Returns
    -------
    ConvergenceBound
        The four terms, in squared gradients; ``.total`` is their sum.
    """
    w = check_noise_energy(noise_energy)
    rate, L = check.positive("learning_rate", learning_rate), check.positive("smoothness", smoothness)
    gap = check.at_least("initial_gap", initial_gap, 0)
    A1, A2 = check.at_least("A1", A1, 0), check.at_least("A2", A2, 0)
    C1, C2 = check.at_least("C1", C1, 0), check.at_least("C2", C2, 0)
    k2 = check.at_least("batch_second_moment", batch_second_moment, 1)
    lanes = {"learning_rate": rate, "initial_gap": gap, "smoothness": L, "A1": A1, "A2": A2, "C1": C1, "C2": C2}
    shapes = {name: value.shape for name, value in lanes.items()}
    check.broadcast(lanes_of_noise_energy=w.shape[:-1], batch_second_moment=k2.shape, **shapes)
    rates, limits = np.broadcast_arrays(rate, largest_learning_rate(L, A1, C1, k2))
    if (rates > limits * (1 + 1e-12)).any():  # the limit itself is admitted, however it was rounded
        worst = np.argmax(rates / limits)
        raise ValueError(
            f"learning_rate must be at most {limits.flat[worst]:.6g} for these constants, got {rates.flat[worst]:.6g}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        terms = (
            2 * gap / (rate * w.shape[-1]),
            2 * k2 * L * rate * (A1 + 1) * C2,
            k2 * L * rate * A2,
            L * rate / 2 * w.mean(axis=-1),
        )
    return bound_of(terms)


def bound_of(terms: tuple[FloatArray, ...]) -> ConvergenceBound:
    """The four terms, each of the shape of the lanes, or an error that one of them overflows."""
    check.finite("a term of this bound for these constants", *terms)
    return ConvergenceBound(*(array.copy() for array in np.broadcast_arrays(*terms)))
