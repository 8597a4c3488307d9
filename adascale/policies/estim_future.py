r"""EstimFuture: plan the rest of the horizon from the mean channel, apply the first step, plan again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.policies.base import OnlinePolicy, rounds_left
from adascale.problem import scaling
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]

ESTIMATES = ("devices", "minimum")
"""The two estimates of a future bottleneck, see :func:`estimated_min_gain`."""


def estimated_min_gain(mean_gain: ArrayLike, estimate: str) -> FloatArray:
    r"""The MMSE estimate of a future bottleneck :math:`h_{\min,t}^2`, in one of two senses.

    Parameters
    ----------
    mean_gain : array_like
        :math:`g_m = \mathbb E |h_m|^2 / k_m^2 > 0`, shape (..., M): :meth:`~adascale.scenario.Scenario.mean_gain`.
    estimate : {"devices", "minimum"}
        ``"devices"``: the smallest of the devices' estimates, :math:`\min_m g_m`.  ``"minimum"``: the estimate of the
        minimum itself, :math:`\mathbb E \min_m |h_m|^2 / k_m^2 = 1 / \sum_m g_m^{-1}` under Rayleigh fading.

    Returns
    -------
    numpy.ndarray
        Shape (...).
    """
    gain = check.positive("mean_gain", mean_gain)
    if gain.ndim == 0:
        raise ValueError(f"mean_gain must have a last axis of devices, got {gain}")
    if estimate not in ESTIMATES:
        raise ValueError(f"estimate must be one of {ESTIMATES}, got {estimate!r}")
    least: FloatArray = gain.min(axis=-1) if estimate == "devices" else 1 / (1 / gain).sum(axis=-1)
    return least


class EstimFutureState(NamedTuple):
    """What is left of the budget, in noise energy, and of the horizon."""

    scenario: Scenario
    later: int
    left: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.left.shape


@dataclass(frozen=True)
class EstimFuture(OnlinePolicy):
    r"""Water-filling over this round's floor and the estimated floors of the rounds to come.

    .. math::
        w_t = \max(\ell, w_{\min,t}), \qquad
        \max(\ell - w_{\min,t}, 0) + (T - 1 - t) \max(\ell - \hat w_{\min}, 0) = \nu T - \sum_{i<t} (w_i - w_{\min,i})

    The last round spends what is left, so the budget is spent by construction.

    Parameters
    ----------
    mean_gain : array_like
        :math:`\mathbb E|h_m|^2 / k_m^2`, shape (..., M); its leading axes broadcast against the lanes.
    estimate : {"minimum", "devices"}
        See :func:`estimated_min_gain`.  The paper does not say which.  ``"minimum"`` leaks less RDP at every
        :math:`\nu` of the paper but the smallest of CIFAR-10 (:ref:`chap-benchmarks`).
    """

    needs_mean_gain: ClassVar[bool] = True

    mean_gain: FloatArray
    estimate: str = "minimum"

    def __post_init__(self) -> None:
        estimated_min_gain(self.mean_gain, self.estimate)

    def start(self, scenario: Scenario, budget: FloatArray) -> EstimFutureState:
        check.within("mean_gain", estimated_min_gain(self.mean_gain, self.estimate), *scenario.gain_limits)
        lanes = check.broadcast(lanes_of_mean_gain=np.shape(self.mean_gain)[:-1], lanes=np.shape(budget))
        left = np.broadcast_to(np.asarray(budget, dtype=float) * scenario.num_rounds, lanes)
        check.held(f"the budget of all {scenario.num_rounds} rounds", left)
        return EstimFutureState(scenario, scenario.num_rounds - 1, left)

    def step(self, state: EstimFutureState, min_gain_t: FloatArray) -> tuple[EstimFutureState, FloatArray]:
        scenario = state.scenario
        rounds_left(self, scenario, state.later + 1)
        max_eta = scenario.x_max * min_gain_t
        floor = scenario.noise_scale / max_eta
        later_floor = scenario.noise_scale / (scenario.x_max * estimated_min_gain(self.mean_gain, self.estimate))
        # the level if only this floor, only the later ones, or all are under water: the lowest that is right
        both = (state.left + floor + state.later * later_floor) / (1 + state.later)
        alone = floor + state.left
        level = np.where(alone <= later_floor, alone, both)
        energy = np.maximum(level, floor) if state.later else alone
        left = np.maximum(state.left - (energy - floor), 0.0)
        eta = scaling(energy, floor, max_eta, scenario.noise_scale)
        return state._replace(later=state.later - 1, left=left), eta

    def skip(self, state: EstimFutureState) -> EstimFutureState:
        """A round that spends nothing: its share of the budget is for the rounds that are left."""
        rounds_left(self, state.scenario, state.later + 1)
        return state._replace(later=state.later - 1)
