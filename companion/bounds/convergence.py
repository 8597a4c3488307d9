r"""The two convergence bounds of the training, and the learning rates that they admit (:ref:`chap-convergence`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale.scenario import FloatArray

Real = float | FloatArray


class Constants(NamedTuple):
    """What the convergence theorem asks for."""

    smoothness: Real
    """:math:`L` of A1."""
    A1: Real
    r""":math:`A_1` of A3: the part of the sample noise that grows with the gradient."""
    A2: Real
    r""":math:`A_2` of A3: the part that stays."""
    C1: Real
    r""":math:`C_1` of A4: the part of the disagreement that grows with the gradient."""
    C2: Real
    r""":math:`C_2` of A4: the part that stays."""
    f_star: float = 0.0
    r""":math:`f^\star` of A2; bounds take it as part of the gap."""


class ConvergenceBound(NamedTuple):
    """The right side of a convergence theorem, term by term, in squared gradients; the terms broadcast."""

    initial: Real
    """How far there is to go."""
    heterogeneity: Real
    """The devices disagree."""
    sampling: Real
    """Samples differ within a device."""
    noise: Real
    """The receiver noise, the only term that the schedule changes."""

    @property
    def total(self) -> Real:
        """The whole right side."""
        return self.initial + self.heterogeneity + self.sampling + self.noise


def largest_learning_rate(constants: Constants) -> FloatArray:
    r"""Return :math:`1 / (4 L (C_1 + 1)(A_1 + 1))`, the largest rate of :func:`convergence_bound`.

    See :eq:`eq:step-limit` at the paper's :math:`k^2 = 2`.
    """
    L, A1, _, C1, _, _ = constants
    return np.asarray(1 / (4 * L * (C1 + 1) * (A1 + 1)))


def convergence_bound(
    noise_energy: ArrayLike,
    learning_rate: Real,
    initial_gap: Real,
    constants: Constants,
) -> ConvergenceBound:
    r"""Return the right side of the convergence theorem (:prf:ref:`thm-convergence`; the paper's Theorem 1).

    ``noise_energy`` is :math:`w_t`, shape (..., T).  All else broadcasts against its leading axes: the learning rate
    up to :func:`largest_learning_rate`, the gap :math:`f(\boldsymbol\theta_0) - f^\star`, and the constants.
    :math:`k^2` is the paper's 2, which covers every :math:`B_m \ge 1 - q_m`.
    """
    w = np.asarray(noise_energy, dtype=float)
    L, A1, A2, _, C2, _ = constants
    limit = largest_learning_rate(constants)
    # the limit itself is admitted, however it was rounded
    if np.any(learning_rate > limit * (1 + 1e-12)):
        raise ValueError(
            f"learning_rate must be at most {np.min(limit):.6g} for these constants, got {np.max(learning_rate):.6g}"
        )
    return ConvergenceBound(
        2 * initial_gap / (learning_rate * w.shape[-1]),
        4 * L * learning_rate * (A1 + 1) * C2,
        2 * L * learning_rate * A2,
        L * learning_rate / 2 * w.mean(axis=-1),
    )


class SignalMoment(NamedTuple):
    r"""A bound on the second moment of the aggregate, :math:`D_1 \lVert\nabla f\rVert^2 + D_2`.

    See :eq:`eq:signal-moment`.  The constructors are rows of the table in the chapter; for data that are held fixed,
    pass :math:`M \min_m B_m / (1 - \min_m q_m)` as ``averaged``.
    """

    slope: Real
    r""":math:`D_1 \ge 1`."""
    heterogeneity: Real
    r"""The part of :math:`D_2` with :math:`C_2`."""
    sampling: Real
    r"""The rest of :math:`D_2`."""

    @classmethod
    def uncorrelated(cls, constants: Constants, averaged: Real) -> "SignalMoment":
        r"""Uncorrelated samples, of which a round averages :math:`1 / \psi = M \min_m B_m`."""
        scaled = cls.any_samples(constants, 1 / averaged)
        return scaled._replace(slope=1 + scaled.slope)

    @classmethod
    def any_samples(
        cls, constants: Constants, batch_second_moment: Real
    ) -> "SignalMoment":
        r"""Any samples, by :math:`k^2 \ge 1`."""
        _, A1, A2, C1, C2, _ = constants
        k2 = batch_second_moment
        return cls(k2 * (A1 + 1) * (C1 + 1), k2 * C2 * (A1 + 1), k2 * A2)

    def bracket(self, learning_rate: Real, smoothness: Real) -> FloatArray:
        r"""Return :math:`c = 1 - \frac12 D_1 L \lambda`, which must be positive."""
        return np.asarray(1 - self.slope * smoothness * learning_rate / 2)


def nearly_exact_bound(
    noise_energy: ArrayLike,
    learning_rate: Real,
    initial_gap: Real,
    *,
    smoothness: Real,
    signal: SignalMoment,
    mean_curvature: Real,
) -> ConvergenceBound:
    r"""Return the right side of the nearly exact theorem (:prf:ref:`thm-nearly-exact`).

    As :func:`convergence_bound`, for noise of the same power in every direction and :math:`\lambda < 2 / (D_1 L)`.
    ``mean_curvature`` is :math:`\operatorname{tr}\mathbf H / d`; :math:`L` is always allowed.
    """
    w = np.asarray(noise_energy, dtype=float)
    rate = learning_rate
    c = signal.bracket(rate, smoothness)
    if not (c > 0).all():
        limit = np.min(2 / (signal.slope * smoothness))
        raise ValueError(
            f"learning_rate must be below {limit:.6g} for these constants, got {np.max(rate):.6g}"
        )
    return ConvergenceBound(
        initial_gap / (rate * w.shape[-1]) / c,
        smoothness * rate / 2 * signal.heterogeneity / c,
        smoothness * rate / 2 * signal.sampling / c,
        rate * mean_curvature / 4 * w.mean(axis=-1) / c,
    )
