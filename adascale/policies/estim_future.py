"""EstimFuture: a plan for the rest of the horizon in every round, from the mean channel."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.policies.base import HorizonState, OnlinePolicy
from adascale.scenario import FloatArray, Scenario


def estimated_min_gain(mean_gain: ArrayLike, estimate: str) -> FloatArray:
    r"""Return the MMSE estimate of a future bottleneck :math:`h_{\min,t}^2`, shape (...).

    Parameters
    ----------
    mean_gain : array_like, shape (..., M), > 0
        :math:`g_m = \mathbb E |h_m|^2 / k_m^2`, see :meth:`~adascale.scenario.Scenario.mean_gain`.
    estimate : {"devices", "minimum"}
        :math:`\min_m g_m`, or :math:`\mathbb E \min_m |h_m|^2 / k_m^2 = 1 / \sum_m g_m^{-1}` under Rayleigh fading.
    """
    gain = check.positive("mean_gain", mean_gain, "devices")
    check.one_of("estimate", estimate, "devices", "minimum")
    return np.asarray(
        gain.min(axis=-1) if estimate == "devices" else 1 / (1 / gain).sum(axis=-1)
    )


@dataclass(frozen=True)
class EstimFuture(OnlinePolicy):
    r"""Water-filling over this round's floor and the estimated floors of later rounds.

    .. math::
        w_t = \max(\ell, w_{\min,t}), \qquad
        \max(\ell - w_{\min,t}, 0) + (T - 1 - t) \max(\ell - \hat w_{\min}, 0) = \nu T - \sum_{i<t} (w_i - w_{\min,i})

    Parameters
    ----------
    mean_gain : array_like, shape (..., M), :math:`\mathbb E|h_m|^2 / k_m^2 > 0`
    estimate : {"minimum", "devices"}
        See :func:`estimated_min_gain`; the paper does not say which (:ref:`chap-benchmarks`).
    """

    needs_mean_gain: ClassVar[bool] = True

    mean_gain: FloatArray
    estimate: str = "minimum"

    def __post_init__(self) -> None:
        self._later_gain  # noqa: B018 (checked)

    @cached_property
    def _later_gain(self) -> FloatArray:
        return estimated_min_gain(self.mean_gain, self.estimate)

    def start(self, scenario: Scenario, budget: FloatArray) -> HorizonState:
        check.within("mean_gain", self._later_gain, *scenario.gain_limits)
        batch = np.broadcast_shapes(np.shape(budget), self._later_gain.shape)
        return HorizonState.begin(scenario, np.broadcast_to(budget, batch))

    def decide(
        self, state: HorizonState, floor: FloatArray
    ) -> tuple[HorizonState, FloatArray]:
        scenario, after = state.scenario, state.after(1)
        later_floor = scenario.noise_scale / (scenario.x_max * self._later_gain)
        # the smallest valid level, with only this floor, only the later ones, or all of them under water
        both = (state.left + floor + state.later * later_floor) / (1 + state.later)
        alone = floor + state.left
        energy = (
            np.maximum(np.where(alone <= later_floor, alone, both), floor)
            if state.later
            else alone
        )
        return replace(
            after, left=np.maximum(state.left - (energy - floor), 0.0)
        ), energy

    def skip(self, state: HorizonState) -> HorizonState:
        return state.after(1)
