r"""The power controls of [19] and [28]: accuracy first, under a budget of privacy.

Both spend :math:`\eta`: a round of scaling :math:`\eta_t` costs privacy in proportion to :math:`\eta_t` (composition
without subsampling), and leaves noise in proportion to :math:`1/\eta_t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw

from adascale import checks as check
from adascale.policies.base import OnlinePolicy
from adascale.policies.estim_future import estimated_min_gain
from adascale.policies.optimal import Optimal
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario


class PowerControlState(NamedTuple):
    """What is left of the privacy budget, in units of eta, and of the horizon."""

    scenario: Scenario
    round: int
    left: np.ndarray


@dataclass(frozen=True)
class PowerControl(OnlinePolicy):
    r"""The method of Liu and Simeone [19]: plan the rest of the horizon from mean channels, apply the first step.

    .. math::
        \min_\eta \sum_{j \ge t} r^{-j} \frac{d \sigma_n^2}{\eta_j} \quad \text{s.t.} \quad
        \sum_{j \ge t} \eta_j \le S_t, \quad 0 < \eta_j \le \mathrm{cap}_j
        \qquad\Rightarrow\qquad \eta_j = \min(\tau r^{-j/2}, \mathrm{cap}_j)

    with this round's cap known and the later ones estimated, and :math:`S_{t+1} = S_t - \eta_t`.

    Parameters
    ----------
    mean_gain : array_like
        :math:`\mathbb E|h_m|^2 / k_m^2`, shape (..., M).
    privacy_budget : array_like
        :math:`S > 0`, the largest sum of :math:`\eta_t`; broadcasts against the lanes.
    contraction : float
        :math:`r \in (0, 1]`, the factor by which the loss gap shrinks in a round; 1 is neutral.
    reading : {"devices", "minimum"}
        See :func:`adascale.policies.estimated_min_gain`.
    subtract : bool
        Whether what a round spent is taken off the budget, as sound accounting must.
    """

    mean_gain: np.ndarray
    privacy_budget: np.ndarray
    contraction: float = 1.0
    reading: str = "devices"
    subtract: bool = True

    def __post_init__(self):
        object.__setattr__(self, "privacy_budget", check.positive("privacy_budget", self.privacy_budget))
        _contraction(self.contraction)
        estimated_min_gain(self.mean_gain, self.reading)

    @staticmethod
    def guess(problem: ReceiveScalingProblem) -> np.ndarray:
        r"""Where to look first for the budget that costs :math:`\nu`: the optimum's, the least possible one."""
        return Optimal().schedule(problem).sum(axis=-1)

    def start(self, scenario: Scenario, budget: np.ndarray) -> PowerControlState:
        _contraction(self.contraction, scenario.num_rounds)
        shape = check.broadcast(
            privacy_budget=self.privacy_budget.shape,
            lanes_of_mean_gain=np.shape(self.mean_gain)[:-1],
            lanes=np.shape(budget),
        )
        return PowerControlState(scenario, 0, np.broadcast_to(self.privacy_budget, shape))

    def step(self, state: PowerControlState, min_gain_t: np.ndarray) -> tuple[PowerControlState, np.ndarray]:
        scenario = state.scenario
        cap = scenario.x_max * min_gain_t
        later_cap = scenario.x_max * estimated_min_gain(self.mean_gain, self.reading)
        later = scenario.num_rounds - 1 - state.round
        eta = np.minimum(_first_scaling(cap, later_cap, later, state.left, self.contraction**-0.5), cap)
        left = state.left - eta if self.subtract else state.left
        return state._replace(round=state.round + 1, left=left), eta


def _first_scaling(cap, later_cap, later, left, growth):
    r"""What the plan gives this round: the :math:`\tau` at which it spends all that is left, or its cap.

    .. math:: \min(\tau, \mathrm{cap}) + \sum_{j=1}^n \min(\tau g^j, \mathrm{cap}') = S

    With u of the later rounds below their cap the sum is linear in tau; u is found by bisection.
    """

    def geometric(u):  # g + g^2 + ... + g^u
        return u * 1.0 if growth == 1 else growth * (growth**u - 1) / (growth - 1)

    def spent(u):  # at tau = cap' / g^u, where exactly u later rounds are below (or at) their cap
        tau = later_cap / growth**u
        return np.minimum(tau, cap) + tau * geometric(u) + (later - u) * later_cap

    low = np.zeros(np.broadcast_shapes(np.shape(cap), np.shape(later_cap), np.shape(left)), dtype=int)
    high = np.full(low.shape, later)
    if growth > 1:
        while (low < high).any():  # the largest u that still spends all that is left
            middle = (low + high + 1) // 2
            enough = spent(middle) >= left
            low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
        below = low
    else:
        below = np.where(spent(low) >= left, later, 0)
    rest = left - (later - below) * later_cap
    alone = rest / (1 + geometric(below))
    with np.errstate(divide="ignore", invalid="ignore"):
        capped = (rest - cap) / geometric(below)
    tau = np.where((alone > cap) & (geometric(below) > 0), capped, alone)
    return np.where(cap + later * later_cap <= left, cap, tau)


@dataclass(frozen=True)
class OfflinePowerControl:
    r"""[19] with the channels of all rounds known: :math:`\eta_t = \min(\tau r^{-t/2}, \mathrm{cap}_t)`.

    With r = 1 and the sum of Optimal's scalings as the budget this is Optimal.

    Parameters
    ----------
    privacy_budget : array_like
        :math:`S > 0`, the largest sum of :math:`\eta_t`; broadcasts to the lanes.
    contraction : float
        :math:`r \in (0, 1]`; 1 is neutral.
    """

    privacy_budget: np.ndarray
    contraction: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "privacy_budget", check.positive("privacy_budget", self.privacy_budget))
        _contraction(self.contraction)

    def schedule(self, problem: ReceiveScalingProblem) -> np.ndarray:
        r""":math:`\eta_t`, shape (..., T).

        Raises
        ------
        ValueError
            If the budget does not broadcast to the lanes, or the contraction is too small for so many rounds.
        """
        _contraction(self.contraction, problem.num_rounds)
        if check.broadcast(privacy_budget=self.privacy_budget.shape, lanes=problem.lanes) != problem.lanes:
            shape = self.privacy_budget.shape
            raise ValueError(f"privacy_budget must broadcast to lanes {problem.lanes}, got shape {shape}")
        weight = self.contraction ** (-0.5 * np.arange(problem.num_rounds))
        cap = problem.max_eta
        full_at = cap / weight  # round t is at its cap from this tau on
        order = np.argsort(full_at, axis=-1)
        capped = np.cumsum(np.take_along_axis(cap, order, -1), axis=-1)
        weights = weight[order]
        free = np.flip(np.cumsum(np.flip(weights, -1), axis=-1), -1) - weights
        spent = capped + np.sort(full_at, axis=-1) * free  # at tau = the k-th breakpoint
        shape = (*problem.lanes, problem.num_rounds)
        budget = np.broadcast_to(self.privacy_budget, problem.lanes)[..., None]
        spent, capped, free, weights = (np.broadcast_to(a, shape) for a in (spent, capped, free, weights))
        k = np.sum(spent < budget, axis=-1, keepdims=True)  # rounds at their cap
        at = np.minimum(np.maximum(k - 1, 0), problem.num_rounds - 1)
        fixed = np.where(k > 0, np.take_along_axis(capped, at, -1), 0.0)
        slope = np.where(k > 0, np.take_along_axis(free, at, -1), weights.sum(axis=-1, keepdims=True))
        with np.errstate(divide="ignore"):
            tau = np.where(k < problem.num_rounds, (budget - fixed) / slope, np.inf)
        return np.minimum(tau * weight, cap)


class LyapunovPowerControlState(NamedTuple):
    """The virtual queue of privacy spent beyond its rate."""

    scenario: Scenario
    round: int
    queue: np.ndarray


@dataclass(frozen=True)
class LyapunovPowerControl(OnlinePolicy):
    r"""The standard Lyapunov construction of Shi et al. [28], without a reconfigurable surface.

    .. math::
        \eta_t = \min\Big(\mathrm{cap}_t, \sqrt{V r^{-t} / Q_t}\Big), \qquad
        Q_{t+1} = \max(Q_t + \eta_t - \bar\eta, 0)

    with full power while the queue is empty.  Units are those of eta: :math:`\bar\eta` is the privacy budget a round,
    and the constants of its accounting are inside :math:`V`.

    Parameters
    ----------
    penalty : array_like
        :math:`V > 0`, in units of eta cubed; broadcasts against the lanes.
    rate : array_like
        :math:`\bar\eta > 0`, the privacy budget of a round in units of eta; broadcasts against the lanes.
    contraction : float
        :math:`r \in (0, 1]`; 1 is neutral.
    initial_queue : array_like
        :math:`Q_0 \ge 0`, in units of eta; broadcasts against the lanes.  Zero, the customary start, puts the first
        round at full power.
    """

    penalty: np.ndarray
    rate: np.ndarray
    contraction: float = 1.0
    initial_queue: np.ndarray = 0.0

    def __post_init__(self):
        for name in ("penalty", "rate"):
            object.__setattr__(self, name, check.positive(name, getattr(self, name)))
        object.__setattr__(self, "initial_queue", check.at_least("initial_queue", self.initial_queue, 0))
        _contraction(self.contraction)

    def start(self, scenario: Scenario, budget: np.ndarray) -> LyapunovPowerControlState:
        _contraction(self.contraction, scenario.num_rounds)
        shapes = {name: getattr(self, name).shape for name in ("penalty", "rate", "initial_queue")}
        shape = check.broadcast(**shapes, lanes=np.shape(budget))
        return LyapunovPowerControlState(scenario, 0, np.broadcast_to(self.initial_queue, shape))

    def step(self, state, min_gain_t):
        cap = state.scenario.x_max * min_gain_t
        with np.errstate(divide="ignore"):
            eta = np.sqrt(self.penalty * self.contraction ** -float(state.round) / state.queue)
        eta = np.minimum(eta, cap)
        queue = np.maximum(state.queue + eta - self.rate, 0.0)
        return LyapunovPowerControlState(state.scenario, state.round + 1, queue), eta


def scaling_budget(scenario: Scenario, epsilon, delta: float = 1e-5) -> np.ndarray:
    r"""The sum of scalings that [19] and [28] allow under an :math:`(\varepsilon, \delta)` budget.

    .. math::
        S = \frac{M^2 B^2 \sigma_n^2}{G^2} \big(\sqrt{\varepsilon + c^2} - c\big)^2, \qquad
        c^2 = \tfrac12 W_0\Big(\frac{2}{\pi \delta^2}\Big),

    with Lambert's W, the smallest batch :math:`B = \min_m B_m` and neighbours that differ by one sample
    (:eq:`eq:scaling-budget`).  It counts no amplification by sampling.  :math:`\bar\eta = S / T` is the rate of [28].

    Parameters
    ----------
    scenario : Scenario
        Gives M, B, G and the noise power.
    epsilon : array_like
        :math:`\varepsilon > 0`, any shape.
    delta : float
        :math:`\delta` in (0, 1).

    Returns
    -------
    numpy.ndarray
        :math:`S` in the unit of eta (W), of the shape of ``epsilon``.

    Raises
    ------
    ValueError
        If epsilon or delta is out of range.
    """
    c = _tail(delta)
    return _unit(scenario) * (np.sqrt(check.positive("epsilon", epsilon) + c**2) - c) ** 2


def spent_epsilon(scenario: Scenario, total_eta, delta: float = 1e-5) -> np.ndarray:
    r"""The :math:`\varepsilon` that [19] and [28] ascribe to a sum of scalings: the inverse of :func:`scaling_budget`.

    .. math:: \varepsilon = R + 2 c \sqrt R, \qquad R = \frac{G^2}{M^2 B^2 \sigma_n^2} \sum_t \eta_t

    Parameters, units and errors are those of :func:`scaling_budget`, with ``total_eta`` > 0 in the place of epsilon.
    """
    spent = check.positive("total_eta", total_eta) / _unit(scenario)
    return spent + 2 * _tail(delta) * np.sqrt(spent)


def _tail(delta) -> float:
    """c with exp(-c^2) / (c sqrt(pi)) = delta."""
    return float(np.sqrt(lambertw(2 / np.pi / check.fraction("delta", delta) ** 2).real / 2))


def _unit(scenario) -> float:
    return scenario.noise_power * (scenario.num_devices * np.min(scenario.batch_size) / scenario.clip_norm) ** 2


def _contraction(value, rounds: int = 1) -> None:
    """In (0, 1], and large enough that its weights over all rounds stay within floating point."""
    if not 0 < check.positive("contraction", value) <= 1:
        raise ValueError(f"contraction must be in (0, 1], got {value}")
    if -rounds * np.log(value) > 600:
        raise ValueError(f"contraction must be at least {np.exp(-600 / rounds):.3g} over {rounds} rounds, got {value}")
