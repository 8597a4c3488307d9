r"""The two convergence bounds of the training, and the learning rates that they admit (:ref:`chap-convergence`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.scenario import FloatArray


class ConvergenceBound(NamedTuple):
    """The right side of a convergence theorem, term by term, each of the shape of the lanes, in squared gradients."""

    initial: FloatArray
    """How far there is to go."""
    heterogeneity: FloatArray
    """The devices disagree."""
    sampling: FloatArray
    """Samples differ within a device."""
    noise: FloatArray
    """The receiver noise, the only term that the schedule changes."""

    @property
    def total(self) -> FloatArray:
        """The whole right side."""
        return self.initial + self.heterogeneity + self.sampling + self.noise


def largest_learning_rate(
    smoothness: ArrayLike, A1: ArrayLike, C1: ArrayLike, batch_second_moment: ArrayLike = 2.0
) -> FloatArray:
    r"""Return :math:`1 / (2 k^2 L (C_1 + 1)(A_1 + 1))`, the largest rate of :func:`convergence_bound`.

    See :eq:`eq:step-limit`.  The default :math:`k^2 = 2` is the paper's.
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

    ``noise_energy`` is :math:`w_t`, shape (..., T).  All else broadcasts against its leading axes: the learning rate
    up to :func:`largest_learning_rate`, the gap :math:`f(\boldsymbol\theta_0) - f^\star`, the constants of A1, A3 and
    A4, and :math:`k^2 = \max_m k_m^2 \ge 1`.  The default 2 is the paper's and covers every :math:`B_m \ge 1 - q_m`.
    """
    A1, A2, C1, C2 = _constants(A1, A2, C1, C2)
    k2 = check.at_least("batch_second_moment", batch_second_moment, 1)
    w, rate, gap, L = _lanes(
        noise_energy, learning_rate, initial_gap, smoothness, A1=A1, A2=A2, C1=C1, C2=C2, batch_second_moment=k2
    )
    rates, limits = np.broadcast_arrays(rate, largest_learning_rate(L, A1, C1, k2))
    if (rates > limits * (1 + 1e-12)).any():  # the limit itself is admitted, however it was rounded
        worst = np.argmax(rates / limits)
        raise ValueError(
            f"learning_rate must be at most {limits.flat[worst]:.6g} for these constants, got {rates.flat[worst]:.6g}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return _bound(
            2 * gap / (rate * w.shape[-1]),
            2 * k2 * L * rate * (A1 + 1) * C2,
            k2 * L * rate * A2,
            L * rate / 2 * w.mean(axis=-1),
        )


class SignalMoment(NamedTuple):
    r"""A bound on the second moment of the aggregate, :math:`D_1 \lVert\nabla f\rVert^2 + D_2`.

    See :eq:`eq:signal-moment`.  The three constructors are the rows of the table in the chapter; for data that are held
    fixed, pass :math:`M \min_m B_m / (1 - \min_m q_m)` as ``averaged``.
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
        r"""Uncorrelated samples, of which a round averages :math:`1 / \psi = M \min_m B_m`."""
        A1, A2, C1, C2 = _constants(A1, A2, C1, C2)
        psi = 1 / check.positive("averaged", averaged)
        return cls(1 + psi * (A1 + 1) * (C1 + 1), psi * C2 * (A1 + 1), psi * A2)

    @classmethod
    def any_samples(
        cls, A1: ArrayLike, A2: ArrayLike, C1: ArrayLike, C2: ArrayLike, batch_second_moment: ArrayLike = 2.0
    ) -> SignalMoment:
        r"""Any samples, by :math:`k^2 \ge 1`."""
        A1, A2, C1, C2 = _constants(A1, A2, C1, C2)
        k2 = check.at_least("batch_second_moment", batch_second_moment, 1)
        return cls(k2 * (A1 + 1) * (C1 + 1), k2 * C2 * (A1 + 1), k2 * A2)

    @classmethod
    def bounded(cls, clip_norm: ArrayLike, averaged: ArrayLike) -> SignalMoment:
        r"""Uncorrelated, unbiased samples of norm at most :math:`G`: :math:`D_1 = 1`, :math:`D_2 = \psi G^2`."""
        G, averaged = check.positive("clip_norm", clip_norm), check.positive("averaged", averaged)
        zero = np.zeros(np.broadcast_shapes(G.shape, averaged.shape))
        return cls(zero + 1, zero, G**2 / averaged)

    def bracket(self, learning_rate: ArrayLike, smoothness: ArrayLike) -> FloatArray:
        r"""Return :math:`c = 1 - \frac12 D_1 L \lambda`, which must be positive."""
        bracket: FloatArray = 1 - self.slope * np.asarray(smoothness) * np.asarray(learning_rate) / 2
        return bracket


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

    As :func:`convergence_bound`, for noise of the same power in every direction and :math:`\lambda < 2 / (D_1 L)`.
    ``mean_curvature`` is :math:`\operatorname{tr}\mathbf H / d`, by default :math:`L`, which is always allowed.
    """
    flat = check.at_least("mean_curvature", smoothness if mean_curvature is None else mean_curvature, 0)
    slope = check.at_least("signal.slope", signal.slope, 1)
    parts = [check.at_least(f"signal.{name}", getattr(signal, name), 0) for name in ("heterogeneity", "sampling")]
    sizes = {"mean_curvature": flat, "signal": slope, "D2_0": parts[0], "D2_1": parts[1]}
    w, rate, gap, L = _lanes(noise_energy, learning_rate, initial_gap, smoothness, **sizes)
    if (flat > L * (1 + 1e-12)).any():  # a trace is a sum, and rounded
        raise ValueError("mean_curvature must be at most smoothness, as a mean is at most the largest")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        c, limit = signal.bracket(rate, L), np.min(2 / (slope * L))
        if not (c > 0).all():
            raise ValueError(f"learning_rate must be below {limit:.6g} for these constants, got {rate.max():.6g}")
        return _bound(
            gap / (rate * w.shape[-1]) / c,
            L * rate / 2 * parts[0] / c,
            L * rate / 2 * parts[1] / c,
            rate * flat / 4 * w.mean(axis=-1) / c,
        )


def _constants(A1: ArrayLike, A2: ArrayLike, C1: ArrayLike, C2: ArrayLike) -> tuple[FloatArray, ...]:
    """The constants of A3 and A4, checked."""
    named = {"A1": A1, "A2": A2, "C1": C1, "C2": C2}
    return tuple(check.at_least(name, value, 0) for name, value in named.items())


def _lanes(
    noise_energy: ArrayLike, learning_rate: ArrayLike, initial_gap: ArrayLike, smoothness: ArrayLike, **more: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What both bounds take, checked; all must broadcast against the lanes, ``more`` too."""
    w = check.at_least("noise_energy", noise_energy, 0)
    if w.ndim == 0 or w.shape[-1] == 0:
        raise ValueError(f"noise_energy must have a last axis of rounds, got shape {w.shape}")
    rate, L = check.positive("learning_rate", learning_rate), check.positive("smoothness", smoothness)
    gap = check.at_least("initial_gap", initial_gap, 0)
    sizes = {"learning_rate": rate, "initial_gap": gap, "smoothness": L, **more}
    check.broadcast(lanes_of_noise_energy=w.shape[:-1], **{name: value.shape for name, value in sizes.items()})
    return w, rate, gap, L


def _bound(*terms: FloatArray) -> ConvergenceBound:
    """The four terms, each of the shape of the lanes, or an error that one of them overflows."""
    check.finite("a term of this bound for these constants", *terms)
    return ConvergenceBound(*(array.copy() for array in np.broadcast_arrays(*terms)))
