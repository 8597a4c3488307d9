r"""Every bound of the paper as a function that returns its two sides, or the terms of its right side.

The guarantees of AdaScale take a schedule :math:`\eta_t`, whoever made it, so that the same function that confirms
a bound for AdaScale can be seen to fail for another policy.  With :math:`y_t = w_t - w_{\min,t}`, what round t
spends, and the virtual queue :math:`Q_0 = 0,\ Q_{t+1} = \max(Q_t + y_t - \nu, 0)`, their proofs stand in
:ref:`chap-guarantees`; that of the convergence bound in :ref:`chap-convergence`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import special
from scipy.optimize import elementwise

from adascale import _validation as check
from adascale.policies.optimal import water_level
from adascale.problem import ReceiveScalingProblem, RoundLeakage


class ConvergenceBound(NamedTuple):
    """The right side of the convergence theorem, term by term, each of the shape of the lanes."""

    initial: np.ndarray
    r""":math:`2 (f(\mathbf w_0) - f^\star) / (\lambda T)`: how far there is to go."""
    heterogeneity: np.ndarray
    r""":math:`2 k^2 L \lambda (A_1 + 1) C_2`: the devices disagree."""
    sampling: np.ndarray
    r""":math:`k^2 L \lambda A_2`: samples differ within a device."""
    noise: np.ndarray
    r""":math:`\frac{L \lambda}{2T} \sum_t w_t`: the receiver noise, the only term that the schedule changes."""

    @property
    def total(self) -> np.ndarray:
        """The whole right side."""
        return self.initial + self.heterogeneity + self.sampling + self.noise


class Sides(NamedTuple):
    """The two sides of an inequality ``left <= right``, of one shape."""

    left: np.ndarray
    right: np.ndarray


class QueueLimits(NamedTuple):
    r"""Four upper bounds of AdaScale's queue :math:`Q_R`, each of shape (..., T + 1) for R = 0 ... T."""

    full_power: np.ndarray
    r"""The paper's, from a comparison with full power (:eq:`eq:queue-full-power`)."""
    equal: np.ndarray
    r"""From a comparison with EqualAlloc (:eq:`eq:queue-equal`)."""
    threshold: np.ndarray
    r"""The queue from which on a round spends less than :math:`\nu`; independent of R (:eq:`eq:queue-threshold`)."""
    growth: np.ndarray
    r"""Of order :math:`V^{1/3} R^{2/3}` (:eq:`eq:queue-growth`)."""


def largest_learning_rate(smoothness, A1, C1, batch_second_moment=2.0) -> np.ndarray:
    r"""The largest learning rate that the convergence theorem admits (:eq:`eq:step-limit`).

    .. math:: \lambda_{\max} = \frac{1}{2 k^2 L (C_1 + 1)(A_1 + 1)}

    With :math:`k^2 = 2` this is the paper's :math:`1 / (4 L (C_1 + 1)(A_1 + 1))`.

    Parameters
    ----------
    smoothness, A1, C1, batch_second_moment : array_like
        As for :func:`convergence_bound`; they broadcast.

    Returns
    -------
    numpy.ndarray
        Of the broadcast shape.

    Raises
    ------
    ValueError
        As :func:`convergence_bound`.
    """
    smoothness = check.positive("smoothness", smoothness)
    A1, C1 = check.at_least("A1", A1, 0), check.at_least("C1", C1, 0)
    return 1 / (2 * check.at_least("batch_second_moment", batch_second_moment, 1) * smoothness * (C1 + 1) * (A1 + 1))


def convergence_bound(
    noise_energy, learning_rate, initial_gap, *, smoothness, A1, A2, C1, C2, batch_second_moment=2.0
) -> ConvergenceBound:
    r"""The right side of the convergence theorem (:prf:ref:`thm-convergence`; the paper's Theorem 1).

    .. math::
        \frac1T \sum_{t=0}^{T-1} \mathbb E\lVert\nabla f(\mathbf w_t)\rVert^2 \le
        \frac{2 (f(\mathbf w_0) - f^\star)}{\lambda T} + k^2 L \lambda \big(2 C_2 (A_1 + 1) + A_2\big)
        + \frac{L \lambda}{2T} \sum_{t=0}^{T-1} w_t, \qquad w_t = \frac{d \sigma_n^2}{\eta_t}

    Parameters
    ----------
    noise_energy : array_like
        :math:`w_t \ge 0`, shape (..., T): the leading axes are lanes.  Zero is a receiver without noise.
    learning_rate : array_like
        :math:`0 < \lambda \le` :func:`largest_learning_rate`; broadcasts against the lanes, as does all that follows.
    initial_gap : array_like
        :math:`f(\mathbf w_0) - f^\star \ge 0`.
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

    Raises
    ------
    ValueError
        If a value is out of range, the learning rate above its limit, or the shapes do not broadcast.
    """
    w = check.at_least("noise_energy", noise_energy, 0)
    if w.ndim == 0 or w.shape[-1] == 0:
        raise ValueError(f"noise_energy must have a last axis of rounds, got shape {w.shape}")
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
    terms = (
        2 * gap / (rate * w.shape[-1]),
        2 * k2 * L * rate * (A1 + 1) * C2,
        k2 * L * rate * A2,
        L * rate / 2 * w.mean(axis=-1),
    )
    return ConvergenceBound(*(array.copy() for array in np.broadcast_arrays(*terms)))


def queue(problem: ReceiveScalingProblem, eta) -> np.ndarray:
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

    Raises
    ------
    ValueError
        If ``eta`` is not positive, exceeds the power limit, or does not have T rounds.
    """
    spend = _spend(problem, eta)
    budget = np.broadcast_to(np.asarray(problem.budget), spend.shape[:-1])
    flat = _queue(spend.reshape(-1, problem.num_rounds), budget.ravel())
    return flat.reshape(spend.shape[:-1] + (problem.num_rounds + 1,))


def drift_bound(problem: ReceiveScalingProblem, eta) -> Sides:
    r"""One-slot drift of **any** schedule (:prf:ref:`lem-drift`; the paper's first lemma of its analysis).

    .. math:: \tfrac12 Q_{t+1}^2 - \tfrac12 Q_t^2 \;\le\; Q_t y_t + \tfrac12 y_t^2 + \tfrac12 \nu^2

    Parameters and errors as in :func:`queue`.

    Returns
    -------
    Sides
        Each of shape (..., T), in the unit of :math:`\nu^2`.
    """
    spend, length = _spend(problem, eta), queue(problem, eta)
    before, budget = length[..., :-1], np.asarray(problem.budget)[..., None]
    return Sides(np.diff(length**2, axis=-1) / 2, before * spend + spend**2 / 2 + budget**2 / 2)


def queue_limits(problem: ReceiveScalingProblem, penalty) -> QueueLimits:
    r"""What AdaScale's queue cannot exceed, from the floors alone (:prf:ref:`thm-queue`, :prf:ref:`thm-queue-sharp`).

    .. math::
        \text{full power:}\quad & \Big(2V \sum_{t<R} F(w_{\min,t}) + R\nu^2\Big)^{1/2} \\
        \text{equal:}\quad & \Big(2V \sum_{t<R} F(w_{\min,t} + \nu) + 2R\nu^2\Big)^{1/2} \\
        \text{threshold:}\quad & \max(V |F'(w_\nu)| - \nu,\ 0), \qquad w_\nu = \nu + \min_{t<R} w_{\min,t} \\
        \text{growth:}\quad & \Big(\tfrac94\, V\, w_\nu^2 |F'(w_\nu)|\, R^2\Big)^{1/3}

    The first two need nothing of F but F > 0; the third needs F convex, the fourth :math:`w^2 |F'(w)|` decreasing:
    proved for integer orders (:prf:ref:`lem-convex`), numerical evidence for fractional ones.

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

    Raises
    ------
    ValueError
        If a penalty is not finite and positive or does not broadcast.
    """
    penalty = _penalty(problem, penalty)[..., None]
    leakage, budget = RoundLeakage(problem.scenario), np.asarray(problem.budget)[..., None]
    rounds = np.arange(problem.num_rounds + 1)

    def from_zero(values):
        """A leading 0, for R = 0."""
        values = np.broadcast_to(values, problem.lanes + (problem.num_rounds,))
        return np.concatenate([np.zeros(problem.lanes + (1,)), values], axis=-1)

    def total(values):
        return from_zero(np.cumsum(values, axis=-1))

    full_power = np.sqrt(2 * penalty * total(leakage(problem.floor)) + rounds * budget**2)
    equal = np.sqrt(2 * penalty * total(leakage(problem.floor + budget)) + 2 * rounds * budget**2)
    least = np.minimum.accumulate(problem.floor, axis=-1) + budget
    slope, square = from_zero(-penalty * leakage.slope(least)), from_zero(least**2)
    threshold = np.maximum(slope - budget, 0)
    growth = np.cbrt(2.25 * slope * square * rounds**2.0)
    return QueueLimits(full_power, equal, threshold, growth)


def queue_bound(problem: ReceiveScalingProblem, eta, penalty, *, sharp: bool = False) -> Sides:
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
        The least of all four :func:`queue_limits` instead of the paper's (:prf:ref:`thm-queue-sharp`).

    Returns
    -------
    Sides
        Each of shape (..., T + 1).

    Raises
    ------
    ValueError
        As :func:`queue` and :func:`queue_limits`.
    """
    limits = queue_limits(problem, penalty)
    right = np.min(np.broadcast_arrays(*limits), axis=0) if sharp else limits.full_power
    left = queue(problem, eta)
    return Sides(left, np.broadcast_to(right, left.shape))


def violation_bound(problem: ReceiveScalingProblem, eta, penalty, *, sharp: bool = False) -> Sides:
    r"""Violation of the long-term constraint (:prf:ref:`thm-violation`; the paper's second theorem).

    .. math:: \frac1T \sum_{t=0}^{T-1} (w_t - w_{\min,t}) - \nu \;\le\; \frac{Q_T^{\max}}{T}

    Parameters and errors as in :func:`queue_bound`; ``sharp`` divides the least of the four limits by T.

    Returns
    -------
    Sides
        Each of the shape of the lanes, in the unit of :math:`\nu`.
    """
    right = queue_bound(problem, eta, penalty, sharp=sharp).right[..., -1] / problem.num_rounds
    return Sides(problem.cost(eta) - problem.budget, right)


def regret_bound(problem: ReceiveScalingProblem, eta, penalty, *, sharp: bool = False) -> Sides:
    r"""Dynamic regret against the offline optimum :math:`w^\star` (:prf:ref:`thm-regret`; the paper's third theorem).

    .. math::
        \frac1T \sum_{t=0}^{T-1} \big(F(w_t) - F(w^\star_t)\big)
        \;\le\; \frac{Q_T^{\max} \nu}{V} + \frac{T\nu^2}{2V} + \frac{\nu^2}{2V}

    Leakage is a **sum over devices** here, as in the paper's objective.  Parameters and errors as in
    :func:`queue_bound`; ``sharp`` takes the least queue limit and what the optimum really spends,
    :math:`y^\star_t = w^\star_t - w_{\min,t}` (:eq:`eq:regret-sharp`):

    .. math::
        \frac1V \Big( \bar Q \cdot \frac1T \sum_t \max(y^\star_t - \nu, 0)
        + \frac1{2T} \sum_t {y^\star_t}^2 + \frac{\nu^2}2 \Big) .

    Returns
    -------
    Sides
        Each of the shape of the lanes, in nats.
    """
    penalty, budget, T = _penalty(problem, penalty), problem.budget, problem.num_rounds
    leakage = RoundLeakage(problem.scenario)
    best = np.maximum(water_level(problem.floor, budget)[..., None], problem.floor)
    left = np.mean(leakage(problem.noise_energy(eta)), axis=-1) - np.mean(leakage(best), axis=-1)
    limit = queue_bound(problem, eta, penalty, sharp=sharp).right[..., -1]
    if sharp:
        spend = best - problem.floor
        above = np.mean(np.maximum(spend - np.asarray(budget)[..., None], 0), axis=-1)
        right = (limit * above + np.mean(spend**2, axis=-1) / 2 + budget**2 / 2) / penalty
    else:
        right = (limit * budget + T * budget**2 / 2 + budget**2 / 2) / penalty
    return Sides(left, np.broadcast_to(right, left.shape))


def stationary_level(scale, budget) -> np.ndarray:
    r"""The water level of the long run under Rayleigh fading: it needs path losses and no future.

    .. math:: \mathbb E\big[\max(\ell_\infty - w_{\min}, 0)\big]
        = \ell_\infty\, E_2(\omega/\ell_\infty) = \nu

    with the exponential integrals :math:`E_n(r) = \int_1^\infty u^{-n} e^{-ru}\,du`.

    Parameters
    ----------
    scale : array_like
        :math:`\omega > 0`, the scale of the floors (:eq:`eq:floor-law`).
    budget : array_like
        :math:`\nu > 0`; the two broadcast.

    Returns
    -------
    numpy.ndarray
        :math:`\ell_\infty` (:eq:`eq:stationary-level`), which lies above :math:`\nu`.

    Raises
    ------
    ValueError
        If a scale or budget is not finite and positive, or their shapes do not broadcast.
    """
    scale, budget = check.positive("scale", scale), check.positive("budget", budget)
    check.broadcast(scale=scale.shape, budget=budget.shape)
    # E max(l - w, 0) >= (l - m) / 2 at the median m of the floors, so the level is below 2 nu + m
    high = np.log(2 * budget + scale / np.log(2)) + 1e-9
    found = elementwise.find_root(
        lambda x, scale, budget: np.exp(x) * special.expn(2, scale / np.exp(x)) / budget - 1,
        (np.log(budget) - 1e-9, high),
        args=(scale, budget),
    )
    return np.exp(found.x)


def stationary_regret_bound(scale, budget, penalty) -> np.ndarray:
    r"""Expected regret under Rayleigh fading, the right side only (:prf:ref:`thm-regret-iid`).

    .. math::
        \mathbb E\Big[\frac1T \sum_{t=0}^{T-1} \big(F(w_t) - F(w_t^\star)\big)\Big]
        \;\le\; \frac{\mathbb E[{y^\circ}^2] + \nu^2}{2V}, \qquad y^\circ = \max(\ell_\infty - w_{\min}, 0)

    It holds for every T: the floors must be independent across rounds and identically distributed.

    Parameters
    ----------
    scale, budget, penalty : array_like
        :math:`\omega`, :math:`\nu` and V, all positive; they broadcast.

    Returns
    -------
    numpy.ndarray
        Nats, summed over devices.

    Raises
    ------
    ValueError
        As :func:`stationary_level`.
    """
    penalty, level = check.positive("penalty", penalty), stationary_level(scale, budget)
    check.broadcast(penalty=penalty.shape, scale_and_budget=level.shape)
    ratio = np.asarray(scale) / level
    # E[y^2] = int_0^l 2 (l - w) exp(-omega / w) dw
    square = 2 * level**2 * (special.expn(2, ratio) - special.expn(3, ratio))
    return (square + np.asarray(budget) ** 2) / (2 * penalty)


def _spend(problem, eta):
    """w_t - w_min,t >= 0 of a schedule within the power limit, shape (..., T)."""
    eta = check.positive("eta", eta)
    spend = problem.noise_energy(eta) - problem.floor
    over = eta > problem.max_eta
    if over.any():
        worst = tuple(int(i) for i in np.argwhere(over)[0])
        value, cap = (np.broadcast_to(array, over.shape)[worst] for array in (eta, problem.max_eta))
        raise ValueError(f"eta must not exceed the power limit, got {value} > {cap} in round {worst[-1]}")
    return np.broadcast_to(np.maximum(spend, 0), np.broadcast_shapes(spend.shape, problem.lanes + spend.shape[-1:]))


def _penalty(problem, penalty):
    penalty = check.positive("penalty", penalty)
    if check.broadcast(penalty=penalty.shape, lanes=problem.lanes) != problem.lanes:
        raise ValueError(f"penalty must broadcast against lanes {problem.lanes}, got shape {penalty.shape}")
    return np.broadcast_to(penalty, problem.lanes)


@njit(cache=True)
def _queue(spend, budget):
    out = np.zeros((spend.shape[0], spend.shape[1] + 1))
    for lane in range(spend.shape[0]):
        for t in range(spend.shape[1]):
            out[lane, t + 1] = max(out[lane, t] + spend[lane, t] - budget[lane], 0.0)
    return out
