r"""The nearly exact convergence bound: curvature as a matrix, nothing given away (:ref:`chap-convergence`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from companion.bounds.convergence import ConvergenceBound, bound_of, check_noise_energy

FloatArray = NDArray[np.float64]


class SignalMoment(NamedTuple):
    r"""A bound on the second moment of the aggregate (:eq:`eq:signal-moment`).

    .. math::
        \mathbb E[\lVert\mathbf s_t\rVert^2 \mid \boldsymbol\theta_t] \le
        D_1 \lVert\nabla f(\boldsymbol\theta_t)\rVert^2 + D_2

    The three constructors are the rows of the table in the chapter; for data that are held fixed, pass
    :math:`M \min_m B_m / (1 - \min_m q_m)` as ``averaged``.
    """

    slope: FloatArray
    r""":math:`D_1 \ge 1`."""
    heterogeneity: FloatArray
    r"""The part of :math:`D_2` with :math:`C_2`."""
    sampling: FloatArray
    r"""The rest of :math:`D_2`."""

    @classmethod
    def uncorrelated(
        cls, A1: ArrayLike, A2: ArrayLike, C1: ArrayLike, C2: ArrayLike, averaged: ArrayLike
    ) -> SignalMoment:
        r"""Uncorrelated samples: :math:`D_1 = 1 + \psi (A_1 + 1)(C_1 + 1)`, :math:`D_2 = \psi (C_2 (A_1 + 1) + A_2)`.

        ``averaged`` is :math:`1 / \psi = M \min_m B_m`, the samples that a round averages, > 0.  Raises ``ValueError``
        if a value is out of range.
        """
        A1, A2, C1, C2 = _constants(A1, A2, C1, C2)
        psi = 1 / check.positive("averaged", averaged)
        return cls(1 + psi * (A1 + 1) * (C1 + 1), psi * C2 * (A1 + 1), psi * A2)

    @classmethod
    def any_samples(
        cls, A1: ArrayLike, A2: ArrayLike, C1: ArrayLike, C2: ArrayLike, batch_second_moment: ArrayLike = 2.0
    ) -> SignalMoment:
        r"""Whatever the samples: :math:`D_1 = k^2 (A_1 + 1)(C_1 + 1)`, :math:`D_2 = k^2 (C_2 (A_1 + 1) + A_2)`.

        Raises ``ValueError`` if a value is out of range; ``batch_second_moment`` is :math:`k^2 \ge 1`.
        """
        A1, A2, C1, C2 = _constants(A1, A2, C1, C2)
        k2 = check.at_least("batch_second_moment", batch_second_moment, 1)
        return cls(k2 * (A1 + 1) * (C1 + 1), k2 * C2 * (A1 + 1), k2 * A2)

    @classmethod
    def bounded(cls, clip_norm: ArrayLike, averaged: ArrayLike) -> SignalMoment:
        r"""Uncorrelated, unbiased samples of norm at most :math:`G`: :math:`D_1 = 1`, :math:`D_2 = \psi G^2`.

        Raises ``ValueError`` if a value is not positive.
        """
        G, averaged = check.positive("clip_norm", clip_norm), check.positive("averaged", averaged)
        zero = np.zeros(np.broadcast_shapes(G.shape, averaged.shape))
        return cls(zero + 1, zero, G**2 / averaged)

    def bracket(self, learning_rate: ArrayLike, smoothness: ArrayLike) -> FloatArray:
        r""":math:`c = 1 - \frac12 D_1 L \lambda`; the theorem needs :math:`c > 0`."""
        bracket: FloatArray = 1 - self.slope * np.asarray(smoothness) * np.asarray(learning_rate) / 2
        return bracket


def _constants(A1: ArrayLike, A2: ArrayLike, C1: ArrayLike, C2: ArrayLike) -> tuple[FloatArray, ...]:
    """The constants of A3 and A4, checked."""
    named = {"A1": A1, "A2": A2, "C1": C1, "C2": C2}
    return tuple(check.at_least(name, value, 0) for name, value in named.items())


def nearly_exact_bound(
    noise_energy: ArrayLike,
    learning_rate: ArrayLike,
    initial_gap: ArrayLike,
    *,
    smoothness: ArrayLike,
    signal: SignalMoment,
    mean_curvature: ArrayLike | None = None,
) -> ConvergenceBound:
    r"""The right side of the nearly exact theorem (:prf:ref:`thm-nearly-exact`).

    .. math::
        \frac1T \sum_{t=0}^{T-1} \mathbb E\lVert\nabla f(\boldsymbol\theta_t)\rVert^2 \le \frac1c \Big\{
        \frac{f(\boldsymbol\theta_0) - f^\star}{\lambda T} + \frac{L \lambda}2 D_2
        + \frac{\lambda}{4} \frac{\operatorname{tr}\mathbf H}{d} \frac1T \sum_{t=0}^{T-1} w_t \Big\}, \qquad
        c = 1 - \tfrac12 D_1 L \lambda

    Parameters
    ----------
    noise_energy, learning_rate, initial_gap, smoothness : array_like
        As for :func:`~companion.bounds.convergence_bound`, with noise of the same power in every direction,
        :math:`0 < \lambda < 2 / (D_1 L)`, and L the largest eigenvalue of the matrix :math:`\mathbf H`.
    signal : SignalMoment
        :math:`D_1` and :math:`D_2`.
    mean_curvature : array_like, optional
        :math:`\operatorname{tr}\mathbf H / d`, between 0 and :math:`L`.  Without it :math:`L`, which is always allowed.

    Returns
    -------
    ConvergenceBound
        The four terms, in squared gradients; ``.total`` is their sum.
    """
    w = check_noise_energy(noise_energy)
    rate, L = check.positive("learning_rate", learning_rate), check.positive("smoothness", smoothness)
    gap = check.at_least("initial_gap", initial_gap, 0)
    flat = L if mean_curvature is None else check.at_least("mean_curvature", mean_curvature, 0)
    slope = check.at_least("signal.slope", signal.slope, 1)
    parts = [check.at_least(f"signal.{name}", getattr(signal, name), 0) for name in ("heterogeneity", "sampling")]
    lanes = {"learning_rate": rate, "initial_gap": gap, "smoothness": L, "mean_curvature": flat, "signal": slope}
    shapes = {name: value.shape for name, value in lanes.items()}
    check.broadcast(lanes_of_noise_energy=w.shape[:-1], **shapes, **{f"D2_{k}": v.shape for k, v in enumerate(parts)})
    if (flat > L * (1 + 1e-12)).any():  # a trace is a sum, and rounded
        raise ValueError("mean_curvature must be at most smoothness, as a mean is at most the largest")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        c, limit = 1 - slope * L * rate / 2, 2 / (slope * L)
        if not (c > 0).all():
            raise ValueError(
                f"learning_rate must be below {np.min(limit):.6g} for these constants, got {rate.max():.6g}"
            )
        terms = (
            gap / (rate * w.shape[-1]) / c,
            L * rate / 2 * parts[0] / c,
            L * rate / 2 * parts[1] / c,
            rate * flat / 4 * w.mean(axis=-1) / c,
        )
    return bound_of(terms)
