r"""AdaScale: the paper's online policy (Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from adascale import checks as check
from adascale.policies.base import OnlinePolicy
from adascale.policies.optimal import water_level
from adascale.problem import ReceiveScalingProblem, RoundLeakage, leakage_slope, scaling
from adascale.scenario import Scenario


class AdaScaleState(NamedTuple):
    """The virtual queue of every lane, beside the constants."""

    scenario: Scenario
    leakage: RoundLeakage
    budget: np.ndarray
    queue: np.ndarray


@dataclass(frozen=True)
class AdaScale(OnlinePolicy):
    r"""Each round minimises leakage, queue pressure and a quadratic guard (:eq:`eq:adascale-round`).

    .. math::
        w_t = \arg\min_{w \ge w_{\min,t}} V F(w) + Q_t (w - w_{\min,t}) + \tfrac12 (w - w_{\min,t})^2, \qquad
        Q_{t+1} = \max(Q_t + w_t - w_{\min,t} - \nu, 0), \quad Q_0 = 0,

    the paper's problem (30) and queue (29) in the noise energy.  The objective is convex, so the round is the root of
    :math:`V F'(w) + Q_t + w - w_{\min,t}` above the floor, or the floor.

    Parameters
    ----------
    penalty : array_like
        :math:`V > 0`: the weight of leakage against the budget; broadcasts against the lanes.  F is a sum over
        devices, so V scales with M.  :func:`adascale.tuning.match_budget` finds the V whose cost is :math:`\nu`.

    Raises
    ------
    ValueError
        If a penalty is not finite and positive.
    """

    penalty: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "penalty", check.positive("penalty", self.penalty))

    @staticmethod
    def guess(problem: ReceiveScalingProblem) -> np.ndarray:
        r"""Where to look first for the penalty that spends the budget: :math:`5 \nu / |F'(\ell)|` at the water level.

        Measured, not proved: in both of the paper's scenarios the penalty found lies within a factor 4 of it.
        """
        level = water_level(problem.floor, problem.budget)
        return -5 * problem.budget / RoundLeakage(problem.scenario).slope(level)

    def start(self, scenario: Scenario, budget: np.ndarray) -> AdaScaleState:
        if check.broadcast(penalty=self.penalty.shape, lanes=np.shape(budget)) != np.shape(budget):
            raise ValueError(f"penalty must broadcast against lanes {np.shape(budget)}, got shape {self.penalty.shape}")
        return AdaScaleState(scenario, RoundLeakage(scenario), budget, np.zeros(np.shape(budget)))

    def step(self, state: AdaScaleState, min_gain_t: np.ndarray) -> tuple[AdaScaleState, np.ndarray]:
        max_eta = state.scenario.x_max * min_gain_t
        floor = state.scenario.noise_scale / max_eta
        energy = best_energy(floor, state.queue, self.penalty, state.leakage)
        queue = np.maximum(state.queue + (energy - floor) - state.budget, 0.0)
        return state._replace(queue=queue), scaling(energy, floor, max_eta, state.scenario.noise_scale)


def best_energy(floor, queue, penalty, leakage: RoundLeakage) -> np.ndarray:
    r"""The minimiser of one AdaScale round.

    .. math:: \arg\min_{w \ge w_{\min}} V F(w) + Q (w - w_{\min}) + \tfrac12 (w - w_{\min})^2

    Parameters
    ----------
    floor, queue, penalty : array_like
        :math:`w_{\min} > 0`, :math:`Q \ge 0` and :math:`V > 0`; they broadcast.
    leakage : RoundLeakage
        :math:`F`.

    Returns
    -------
    numpy.ndarray
        :math:`w`, of the broadcast shape, to the last few digits.
    """
    floor, queue, penalty = np.broadcast_arrays(floor, queue, penalty)
    flat = (array.ravel().astype(float) for array in (floor, queue, penalty))
    return _best_energy(*flat, *leakage.kernel_args).reshape(floor.shape)


@njit(cache=True)
def _pressure(w, floor, queue, penalty, args):
    return penalty * leakage_slope(w, *args) + queue + (w - floor)


@njit(cache=True)
def _root(floor, queue, penalty, args):
    """The zero of _pressure above the floor, or the floor, by Chandrupatla's method."""
    low = _pressure(floor, floor, queue, penalty, args)
    if low >= 0:
        return floor
    # |F'(w)| <= K / w^2 with K = (alpha / 2) sum of units, so the root is below both of these
    units = 0.0
    for i in range(args[2].size):
        units += args[2][i] * args[3][i]
    bound = penalty * 0.5 * args[0] * units
    ceiling = floor + bound ** (1 / 3)
    if queue > 0:
        ceiling = min(ceiling, math.sqrt(bound / queue))
    x1, f1 = floor, low
    x2 = ceiling * (1 + 1e-12)
    f2 = _pressure(x2, floor, queue, penalty, args)
    if f2 <= 0:
        return x2
    t = 0.5
    for _ in range(100):
        x = x1 + t * (x2 - x1)
        f = _pressure(x, floor, queue, penalty, args)
        if (f > 0) == (f1 > 0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, f
        best = x1 if abs(f1) < abs(f2) else x2
        smallest = 4e-16 * best / abs(x2 - x1)
        if smallest > 0.5 or f1 == 0:
            return best
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:  # inverse quadratic interpolation is safe
            t = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
            t = min(max(t, smallest), 1 - smallest)
        else:
            t = 0.5
    return best


@njit(cache=True)
def _best_energy(floor, queue, penalty, order, rate, unit, count, tables, ends):
    out = np.empty(floor.size)
    for i in range(floor.size):
        out[i] = _root(floor[i], queue[i], penalty[i], (order, rate, unit, count, tables, ends))
    return out
