r"""The guarantees of AdaScale: queue, violation and regret, for every sequence of channels (:ref:`chap-guarantees`).

They take any schedule :math:`w_t`, so that a function that confirms a bound for AdaScale can show that it fails for
another policy.  With :math:`y_t = w_t - w_{\min,t}`, what round t spends, the virtual queue is
:math:`Q_0 = 0,\ Q_{t+1} = \max(Q_t + y_t - \nu, 0)`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale.policies.optimal import water_level
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray
from companion.bounds.convergence import Real


class Sides(NamedTuple):
    """The two sides of an inequality ``left <= right``, of one shape."""

    left: FloatArray
    right: FloatArray


class QueueLimits(NamedTuple):
    r"""Four upper bounds of AdaScale's queue :math:`Q_R`, each of shape (..., T + 1) for R = 0 ... T."""

    full_power: FloatArray
    r"""The paper's, from a comparison with full power (:eq:`eq:queue-full-power`)."""
    equal: FloatArray
    r"""From a comparison with EqualAlloc since the queue was last empty (:eq:`eq:queue-equal`)."""
    threshold: FloatArray
    r"""The queue from which on a round spends less than :math:`\nu`; independent of R (:eq:`eq:queue-threshold`)."""
    growth: FloatArray
    r"""Of order :math:`V^{1/3} R^{2/3}` (:eq:`eq:queue-growth`)."""


def optimum(floor: FloatArray, budget: ArrayLike) -> FloatArray:
    r"""Compute the offline optimum of floors, shape (..., T), at mean noise energies above them, shape (...)."""
    return np.maximum(water_level(floor, budget)[..., None], floor)


def queue(problem: Problem, w: ArrayLike) -> FloatArray:
    r"""Return :math:`Q_0, \dots, Q_T` of any schedule, shape (..., T + 1) (:eq:`eq:queue`; paper, eq. (29))."""
    change = problem.spend(w) - np.asarray(problem.budget)[..., None]
    length = [np.zeros(change.shape[:-1])]
    for t in range(problem.num_rounds):
        length.append(np.maximum(length[-1] + change[..., t], 0))
    return np.stack(length, axis=-1)


def queue_limits(problem: Problem, penalty: Real) -> QueueLimits:
    """Bound AdaScale's queue from the floors alone (:prf:ref:`thm-queue`, :prf:ref:`thm-queue-sharp`)."""
    penalty = np.broadcast_to(penalty, problem.batch_shape)[..., None]
    leakage = RoundLeakage(problem.scenario)
    floor = problem.min_noise_energy
    budget = np.asarray(problem.budget)[..., None]
    rounds = np.arange(problem.num_rounds + 1)

    def from_zero(values):
        """Return a leading 0, for R = 0."""
        return np.insert(penalty * values, 0, 0, axis=-1)

    full_power = from_zero(2 * leakage(floor).cumsum(axis=-1))
    leaked = from_zero(2 * leakage(floor + budget).cumsum(axis=-1))
    least = np.minimum.accumulate(floor, axis=-1) + budget
    slope = -leakage.slope(least)
    return QueueLimits(
        np.sqrt(full_power + rounds * budget**2),
        # the root minus nu, without the difference
        leaked / (np.sqrt(budget**2 + leaked) + budget),
        np.maximum(from_zero(slope) - budget, 0),
        np.cbrt(2.25 * from_zero(slope * least**2) * rounds**2.0),
    )


def queue_bound(
    problem: Problem,
    w: ArrayLike,
    penalty: Real,
    *,
    sharp: bool = False,
) -> Sides:
    """AdaScale's queue of a schedule made with V against its bound, each side of shape (..., T + 1).

    The paper's (:prf:ref:`thm-queue`), or ``sharp`` the least of all four limits (:prf:ref:`thm-queue-sharp`).
    """
    limits = queue_limits(problem, penalty)
    right = np.min(np.broadcast_arrays(*limits), axis=0) if sharp else limits.full_power
    left = queue(problem, w)
    return Sides(left, np.broadcast_to(right, left.shape))


def violation_bound(
    problem: Problem,
    w: ArrayLike,
    penalty: Real,
    *,
    sharp: bool = False,
) -> Sides:
    """Violation of the long-term constraint, a side a lane (:prf:ref:`thm-violation`; the paper's second theorem)."""
    right = (
        queue_bound(problem, w, penalty, sharp=sharp).right[..., -1]
        / problem.num_rounds
    )
    return Sides(problem.cost(w) - problem.budget, right)


def regret_bound(
    problem: Problem,
    w: ArrayLike,
    penalty: Real,
    *,
    sharp: bool = False,
) -> Sides:
    r"""Dynamic regret against the offline optimum, in nats (:prf:ref:`thm-regret`; the paper's third theorem).

    Leakage is a **sum over devices** here, as in the paper's objective.  ``sharp`` takes the least queue limit and what
    the optimum spends beyond :math:`\nu` (:eq:`eq:regret-sharp`).
    """
    budget = problem.budget
    leakage = RoundLeakage(problem.scenario)
    best = optimum(problem.min_noise_energy, budget)
    left = np.mean(leakage(w) - leakage(best), axis=-1)
    limit = queue_bound(problem, w, penalty, sharp=sharp).right[..., -1]
    if sharp:
        spend = best - problem.min_noise_energy
        above = np.maximum(spend - np.asarray(budget)[..., None], 0)
        right = limit * np.mean(above, axis=-1) + np.mean(above**2, axis=-1) / 2
    else:
        right = limit * budget + problem.num_rounds * budget**2 / 2
    right = (right + budget**2 / 2) / penalty
    return Sides(left, np.broadcast_to(right, left.shape))


def regret_at_cost(problem: Problem, w: ArrayLike, penalty: Real) -> Sides:
    """Return the regret against the optimum **at the cost that was paid**, and its price (:prf:ref:`prop-at-cost`).

    The left side is at least 0 for any schedule that spends something, and at most the right side for AdaScale.
    """
    spend = problem.spend(w)
    leakage = RoundLeakage(problem.scenario)
    best = optimum(problem.min_noise_energy, np.mean(spend, axis=-1))
    left = np.mean(leakage(w) - leakage(best), axis=-1)
    pressure = queue(problem, w)[..., :-1] + spend
    right = (
        np.mean(pressure * (best - problem.min_noise_energy - spend), axis=-1) / penalty
    )
    return Sides(np.broadcast_to(left, right.shape), right)


class KappaLimits(NamedTuple):
    """Between which :math:`w^2 |F'(w)|` lies: its limits for large and for small w (:eq:`eq:kappa-limits`)."""

    low: float
    high: float


def kappa_limits(leakage: RoundLeakage) -> KappaLimits:
    r"""Return :math:`\frac\alpha2 \sum_m u_m q_m^2` and :math:`\frac\alpha2 \sum_m u_m`."""
    units = leakage.order / 2 * leakage.unit_energy * leakage.multiplicity
    return KappaLimits(float(np.sum(units * leakage.rate**2)), float(np.sum(units)))


def growth_constant(leakage: RoundLeakage, c: Real) -> FloatArray:
    r"""Return C, the limit of the violation over :math:`T^{(\beta-1)/3}` for :math:`V = c\,T^\beta`, :math:`\beta > 1`.

    It is :math:`(\frac94 c \underline\kappa)^{1/3}` (:prf:ref:`thm-growth`).
    """
    return np.cbrt(2.25 * kappa_limits(leakage).low * c)


def queue_from_below(problem: Problem, penalty: Real) -> FloatArray:
    """Compute what AdaScale's last queue cannot stay below, from the floors alone (:eq:`eq:queue-below`).

    The best set of each size are the rounds with the lowest floors; the best size is taken.
    """
    leakage = RoundLeakage(problem.scenario)
    nu = problem.budget
    jump = np.maximum(nu, np.cbrt(-penalty * nu**2 * leakage.slope(nu)))[..., None]
    floors = np.cumsum(np.sort(problem.min_noise_energy, axis=-1), axis=-1)
    size = np.arange(1, problem.num_rounds + 1)
    # the positive root of r^3 + 3 p r = 2 q
    p = (jump + floors) / 2
    q = 0.75 * size * np.sqrt(penalty * kappa_limits(leakage).low)[..., None]
    root = 2 * np.sqrt(p) * np.sinh(np.arcsinh(q / p**1.5) / 3)
    return np.maximum(np.max(root**2, axis=-1) - problem.num_rounds * nu, 0)
