"""EstimFuture: a plan for the rest of the horizon in every round, from the mean channel."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.checks import FloatArray
from adascale.policies.base import HorizonState, OnlinePolicy
from adascale.scenario import Scenario


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
    if estimate == "devices":
        return gain.min(axis=-1)
    return 1 / (1 / gain).sum(axis=-1)


@dataclass(frozen=True)
class EstimFutureState(HorizonState):
    """The estimated floor of each later round."""

    later_floor: FloatArray


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
    budget_mode = "hard"

    mean_gain: FloatArray
    estimate: str = "minimum"

    def start(self, scenario: Scenario, budget: FloatArray) -> EstimFutureState:
        later_gain = estimated_min_gain(self.mean_gain, self.estimate)
        check.between("mean_gain", later_gain, *scenario.gain_limits)
        later_floor = scenario.floor(later_gain)
        instances = np.broadcast_shapes(np.shape(budget), later_floor.shape)
        return EstimFutureState.begin(
            scenario, np.broadcast_to(budget, instances), later_floor
        )

    def decide(
        self, state: EstimFutureState, floor: FloatArray
    ) -> tuple[EstimFutureState, FloatArray]:
        after = state.after(1)
        later = state.later
        later_floor = state.later_floor
        # under water is this floor alone, or together with the later ones; if they are alone, `together` is below this
        # floor, at which this round then stays
        alone = floor + state.remaining
        together = (alone + later * later_floor) / (1 + later)
        level = np.where(alone <= later_floor, alone, together)
        energy = np.maximum(level, floor) if later else alone
        remaining = np.maximum(state.remaining - (energy - floor), 0.0)
        return replace(after, remaining=remaining), energy
