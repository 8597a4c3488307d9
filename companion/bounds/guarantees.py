r"""The guarantees of AdaScale: queue, violation and regret, for every sequence of channels (:ref:`chap-guarantees`).

They take a schedule :math:`\eta_t`, whoever made it, so that the same function that confirms a bound for AdaScale can
be seen to fail for another policy.  With :math:`y_t = w_t - w_{\min,t}`, what round t spends, the virtual queue is
:math:`Q_0 = 0,\ Q_{t+1} = \max(Q_t + y_t - \nu, 0)`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.compiled import njit
from adascale.policies.optimal import water_level
from adascale.problem import ReceiveScalingProblem, RoundLeakage

FloatArray = NDArray[np.float64]


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


def queue(problem: ReceiveScalingProblem, eta: ArrayLike) -> FloatArray:
    r"""The virtual queue of any schedule (:eq:`eq:queue`; paper, eq. (29)).

    .. math:: Q_0 = 0, \qquad Q_{t+1} = \max(Q_t + w_t - w_{\min,t} - \nu, 0)

    Parameters
    ----------
    problem : ReceiveScalingProblem
        Floors :math:`w_{\min,t}` and budget :math:`\nu`.
    eta : array_like
        A schedule :math:`\eta_t > 0` in watts, shape (..., T), broadcast with the lanes.

    Returns
    -------
    numpy.ndarray
        :math:`Q_0, \dots, Q_T`, shape (..., T + 1).
    """
    spend = problem.spend(eta)
    budget = np.broadcast_to(np.asarray(problem.budget), spend.shape[:-1])
    flat = _queue(spend.reshape(-1, problem.num_rounds), budget.ravel())
    return np.reshape(flat, spend.shape[:-1] + (problem.num_rounds + 1,))


def drift_bound(problem: ReceiveScalingProblem, eta: ArrayLike) -> Sides:
    r"""One-slot drift of **any** schedule (:prf:ref:`lem-drift`; the paper's first lemma of its analysis).

    .. math:: \tfrac12 Q_{t+1}^2 - \tfrac12 Q_t^2 \;\le\; Q_t y_t + \tfrac12 y_t^2 + \tfrac12 \nu^2

    Parameters and errors as in :func:`~companion.bounds.queue`.

    Returns
    -------
    Sides
        Each of shape (..., T), in the unit of :math:`\nu^2`.
    """
    spend, length = problem.spend(eta), queue(problem, eta)
    before, budget = length[..., :-1], np.asarray(problem.budget)[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        return _held(Sides(np.diff(length**2, axis=-1) / 2, before * spend + spend**2 / 2 + budget**2 / 2))


def queue_limits(problem: ReceiveScalingProblem, penalty: ArrayLike) -> QueueLimits:
    r"""What AdaScale's queue cannot exceed, from the floors alone (:prf:ref:`thm-queue`, :prf:ref:`thm-queue-sharp`).

    .. math::
        \text{full power:}\quad & \Big(2V \sum_{t<R} F(w_{\min,t}) + R\nu^2\Big)^{1/2} \\
        \text{equal:}\quad & \Big(\nu^2 + 2V \sum_{t<R} F(w_{\min,t} + \nu)\Big)^{1/2} - \nu \\
        \text{threshold:}\quad & \max(V |F'(w_\nu)| - \nu,\ 0), \qquad w_\nu = \nu + \min_{t<R} w_{\min,t} \\
        \text{growth:}\quad & \Big(\tfrac94\, V\, w_\nu^2 |F'(w_\nu)|\, R^2\Big)^{1/3}

    The first two need nothing of F but F > 0; the third needs F convex, the fourth :math:`w^2 |F'(w)|` decreasing:
    both are proved for every real order :math:`\alpha > 1` (:prf:ref:`lem-convex`).

    Parameters
    ----------
    problem : ReceiveScalingProblem
        Floors and budget of every lane.
    penalty : array_like
        AdaScale's :math:`V > 0`, broadcasting against the lanes.

    Returns
    -------
    QueueLimits
        In the unit of :math:`\nu`; the last entry of ``full_power`` is the paper's :math:`Q_T^{\max}`.
    """
    penalty = checked_penalty(problem, penalty)[..., None]
    leakage, budget = RoundLeakage(problem.scenario), np.asarray(problem.budget)[..., None]
    rounds = np.arange(problem.num_rounds + 1)

    def from_zero(values: FloatArray) -> FloatArray:
        """A leading 0, for R = 0."""
        values = np.broadcast_to(values, problem.lanes + (problem.num_rounds,))
        return np.concatenate([np.zeros(problem.lanes + (1,)), values], axis=-1)

    def total(values: FloatArray) -> FloatArray:
        return from_zero(np.cumsum(values, axis=-1))

    with np.errstate(over="ignore", invalid="ignore"):
        full_power = np.sqrt(2 * penalty * total(leakage(problem.min_noise_energy)) + rounds * budget**2)
        leaked = 2 * penalty * total(leakage(problem.min_noise_energy + budget))
        equal = leaked / (np.sqrt(budget**2 + leaked) + budget)  # the root minus nu, without the difference
        least = np.minimum.accumulate(problem.min_noise_energy, axis=-1) + budget
        slope, square = from_zero(-penalty * leakage.slope(least)), from_zero(least**2)
        threshold = np.maximum(slope - budget, 0)
        growth = np.cbrt(2.25 * slope * square * rounds**2.0)
    return _held(QueueLimits(full_power, equal, threshold, growth))


def queue_bound(problem: ReceiveScalingProblem, eta: ArrayLike, penalty: ArrayLike, *, sharp: bool = False) -> Sides:
    r"""AdaScale's virtual queue against its bound (:prf:ref:`thm-queue`; the paper's lemma on the virtual queue).

    .. math:: Q_R \;\le\; \Big(2V \sum_{t<R} F(w_{\min,t}) + R\nu^2\Big)^{1/2}, \qquad R = 0, \dots, T

    Parameters
    ----------
    problem : ReceiveScalingProblem
        Floors and budget.
    eta : array_like
        The schedule, :math:`\eta_t > 0` in watts, shape (..., T).
    penalty : array_like
        The :math:`V > 0` it was made with, broadcasting against the lanes.
    sharp : bool
        The least of all four :func:`~companion.bounds.queue_limits`, not the paper's (:prf:ref:`thm-queue-sharp`).

    Returns
    -------
    Sides
        Each of shape (..., T + 1).
    """
    limits = queue_limits(problem, penalty)
    right = np.min(np.broadcast_arrays(*limits), axis=0) if sharp else limits.full_power
    left = queue(problem, eta)
    return Sides(left, np.broadcast_to(right, left.shape))


def violation_bound(
    problem: ReceiveScalingProblem, eta: ArrayLike, penalty: ArrayLike, *, sharp: bool = False
) -> Sides:
    r"""Violation of the long-term constraint (:prf:ref:`thm-violation`; the paper's second theorem).

    .. math:: \frac1T \sum_{t=0}^{T-1} (w_t - w_{\min,t}) - \nu \;\le\; \frac{Q_T^{\max}}{T}

    Parameters and errors as in :func:`~companion.bounds.queue_bound`; ``sharp`` divides the least of the four limits
    by T.

    Returns
    -------
    Sides
        Each of the shape of the lanes, in the unit of :math:`\nu`.
    """
    right = queue_bound(problem, eta, penalty, sharp=sharp).right[..., -1] / problem.num_rounds
    return Sides(problem.cost(eta) - problem.budget, right)


def regret_bound(problem: ReceiveScalingProblem, eta: ArrayLike, penalty: ArrayLike, *, sharp: bool = False) -> Sides:
    r"""Dynamic regret against the offline optimum :math:`w^\star` (:prf:ref:`thm-regret`; the paper's third theorem).

    .. math::
        \frac1T \sum_{t=0}^{T-1} \big(F(w_t) - F(w^\star_t)\big)
        \;\le\; \frac{Q_T^{\max} \nu}{V} + \frac{T\nu^2}{2V} + \frac{\nu^2}{2V}

    Leakage is a **sum over devices** here, as in the paper's objective.  Parameters and errors as in
    :func:`~companion.bounds.queue_bound`; ``sharp`` takes the least queue limit and what the optimum spends beyond
    :math:`\nu`, with :math:`y^\star_t = w^\star_t - w_{\min,t}` (:eq:`eq:regret-sharp`; F convex):

    .. math::
        \frac1V \Big( \bar Q \cdot \frac1T \sum_t (y^\star_t - \nu)_+
        + \frac1{2T} \sum_t (y^\star_t - \nu)_+^2 + \frac{\nu^2}2 \Big) .

    Returns
    -------
    Sides
        Each of the shape of the lanes, in nats.
    """
    penalty, budget, T = checked_penalty(problem, penalty), problem.budget, problem.num_rounds
    leakage = RoundLeakage(problem.scenario)
    best = np.maximum(water_level(problem.min_noise_energy, budget)[..., None], problem.min_noise_energy)
    left = np.mean(leakage(problem.noise_energy(eta)), axis=-1) - np.mean(leakage(best), axis=-1)
    limit = queue_bound(problem, eta, penalty, sharp=sharp).right[..., -1]
    with np.errstate(over="ignore", invalid="ignore"):
        if sharp:
            above = np.maximum(best - problem.min_noise_energy - np.asarray(budget)[..., None], 0)
            right = (limit * np.mean(above, axis=-1) + np.mean(above**2, axis=-1) / 2 + budget**2 / 2) / penalty
        else:
            right = (limit * budget + T * budget**2 / 2 + budget**2 / 2) / penalty
    return _held(Sides(left, np.broadcast_to(right, left.shape)))


def regret_at_cost(problem: ReceiveScalingProblem, eta: ArrayLike, penalty: ArrayLike) -> Sides:
    r"""The excess, regret against the optimum **at the cost that was paid**, and its price (:prf:ref:`prop-at-cost`).

    .. math::
        0 \;\le\; \frac1T \sum_t \big(F(w_t) - F(w^\bullet_t)\big) \;\le\; \frac1{VT} \sum_t P_t\,(y^\bullet_t - y_t),
        \qquad P_t = Q_t + y_t,

    with :math:`w^\bullet` the offline optimum whose budget is the cost of the schedule and
    :math:`y^\bullet_t = w^\bullet_t - w_{\min,t}`.  The left inequality holds whoever made the schedule, the right
    one for AdaScale.

    Parameters and errors as in :func:`~companion.bounds.queue_bound`; a schedule must spend something.

    Returns
    -------
    Sides
        Each of the shape of the lanes, in nats.
    """
    penalty, spend, leakage = checked_penalty(problem, penalty), problem.spend(eta), RoundLeakage(problem.scenario)
    best = np.maximum(
        water_level(problem.min_noise_energy, np.mean(spend, axis=-1))[..., None], problem.min_noise_energy
    )
    left = np.mean(leakage(problem.noise_energy(eta)) - leakage(best), axis=-1)
    pressure = queue(problem, eta)[..., :-1] + spend
    right = np.mean(pressure * (best - problem.min_noise_energy - spend), axis=-1) / penalty
    return _held(Sides(np.broadcast_to(left, right.shape), right))


_Values = TypeVar("_Values", bound=tuple[FloatArray, ...])


def _held(values: _Values) -> _Values:
    """These values, or a ``ValueError`` that one of them is beyond floating point."""
    check.finite("a side of this bound, for such floors, budgets and penalties", *values)
    return values


def checked_penalty(problem: ReceiveScalingProblem, penalty: ArrayLike) -> FloatArray:
    """The penalty of every lane, finite and positive, or a ``ValueError``."""
    penalty = check.positive("penalty", penalty)
    if check.broadcast(penalty=penalty.shape, lanes=problem.lanes) != problem.lanes:
        raise ValueError(f"penalty must broadcast against lanes {problem.lanes}, got shape {penalty.shape}")
    return np.broadcast_to(penalty, problem.lanes)


@njit(cache=True, nogil=True)
def _queue(spend: FloatArray, budget: FloatArray) -> FloatArray:
    out = np.zeros((spend.shape[0], spend.shape[1] + 1))
    for lane in range(spend.shape[0]):
        for t in range(spend.shape[1]):
            out[lane, t + 1] = max(out[lane, t] + spend[lane, t] - budget[lane], 0.0)
    return out
