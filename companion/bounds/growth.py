r"""How fast AdaScale's queue must grow: a bound from below, and the constant of the long run (:ref:`chap-guarantees`).

All of it rests on :math:`\kappa(w) = w^2 |F'(w)|`, which falls from one limit to the other (:prf:ref:`lem-convex`):

.. math:: \overline\kappa = \lim_{w \to 0} \kappa(w) = \frac\alpha2 \sum_m u_m, \qquad
    \underline\kappa = \lim_{w \to \infty} \kappa(w) = \frac\alpha2 \sum_m u_m q_m^2 .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.problem import ReceiveScalingProblem, RoundLeakage
from companion.bounds.guarantees import checked_penalty

FloatArray = NDArray[np.float64]


class KappaLimits(NamedTuple):
    r"""Between which :math:`w^2 |F'(w)|` lies, in the unit of :math:`\nu` times nats (:eq:`eq:kappa-limits`)."""

    low: float
    r""":math:`\underline\kappa`, reached as :math:`w \to \infty`."""
    high: float
    r""":math:`\overline\kappa`, reached as :math:`w \to 0`."""


def kappa_limits(leakage: RoundLeakage) -> KappaLimits:
    r"""The limits of :math:`\kappa(w) = w^2 |F'(w)|` (:eq:`eq:kappa-limits`).

    Parameters
    ----------
    leakage : RoundLeakage

    Returns
    -------
    KappaLimits
        :math:`\underline\kappa = \frac\alpha2 \sum_m u_m q_m^2` and :math:`\overline\kappa = \frac\alpha2 \sum_m u_m`.
    """
    units = leakage.order / 2 * leakage.unit * leakage.count
    return KappaLimits(float(np.sum(units * leakage.rate**2)), float(np.sum(units)))


def growth_constant(leakage: RoundLeakage, c: ArrayLike) -> FloatArray:
    r"""The constant of the violation for :math:`V = c\,T^\beta` and :math:`\beta > 1` (:prf:ref:`thm-growth`).

    .. math:: \frac{\text{violation}}{T^{(\beta-1)/3}} \to C = \Big(\tfrac94\, c\, \underline\kappa\Big)^{1/3}

    Parameters
    ----------
    leakage : RoundLeakage
    c : array_like
        :math:`c > 0` of :math:`V = c\,T^\beta`.

    Returns
    -------
    numpy.ndarray
        :math:`C`, in the unit of :math:`\nu`.
    """
    return np.cbrt(2.25 * kappa_limits(leakage).low * check.positive("c", c))


def queue_from_below(problem: ReceiveScalingProblem, penalty: ArrayLike) -> FloatArray:
    r"""What AdaScale's last queue cannot stay below, from the floors alone (:eq:`eq:queue-below`).

    For every set :math:`\mathcal G` of rounds :math:`S = Q_T + \nu T` satisfies

    .. math:: \tfrac23 S^{3/2} + \Big(\hat y + \sum_{t \in \mathcal G} w_{\min,t}\Big) S^{1/2}
        \;\ge\; |\mathcal G| \sqrt{V \underline\kappa}, \qquad \hat y = \max\big(\nu, (V \kappa(\nu))^{1/3}\big) .

    The best set of each size are the rounds with the lowest floors; the best size is taken.  Arguments as of
    :func:`~companion.bounds.queue_bound`.
    """
    penalty, leakage, nu = checked_penalty(problem, penalty), RoundLeakage(problem.scenario), problem.budget
    jump = np.maximum(nu, np.cbrt(-penalty * nu**2 * leakage.slope(nu)))[..., None]
    floors = np.cumsum(np.sort(problem.min_noise_energy, axis=-1), axis=-1)
    size = np.arange(1, problem.num_rounds + 1)
    # the positive root of r^3 + 3 p r = 2 q
    p, q = (jump + floors) / 2, 0.75 * size * np.sqrt(penalty * kappa_limits(leakage).low)[..., None]
    root = 2 * np.sqrt(p) * np.sinh(np.arcsinh(q / p**1.5) / 3)
    below: FloatArray = np.maximum(np.max(root**2, axis=-1) - problem.num_rounds * nu, 0)
    return below
