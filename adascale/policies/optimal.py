"""The offline optimum in closed form: water-filling."""

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.checks import FloatArray
from adascale.policies.base import Policy
from adascale.problem import Problem


def water_level(min_noise_energy: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""Return the :math:`\ell` with :math:`\frac1T \sum_t \max(\ell - w_{\min,t}, 0) = \nu` (:eq:`eq:water-level`).

    Parameters
    ----------
    min_noise_energy : array_like, shape (..., T), :math:`w_{\min,t} > 0`
    budget : array_like, :math:`\nu > 0`; it broadcasts against the leading axes
    """
    floor = check.positive("min_noise_energy", min_noise_energy, "rounds")
    budget = check.positive("budget", budget)
    batch = check.broadcast(min_noise_energy=floor.shape[:-1], budget=budget.shape)
    T = floor.shape[-1]
    outer = (1,) * (len(batch) + 1 - floor.ndim)  # axes that the budgets alone have
    floor = np.sort(floor, axis=-1).reshape(outer + floor.shape)
    with np.errstate(over="ignore"):
        total = budget[..., None] * T
        below = np.cumsum(floor, axis=-1)
        highest = total + below[..., -1:]
    check.finite("the floors and budgets of all rounds together", highest)
    # with the k lowest floors under water, the level is (T nu + their sum) / k.  A floor is under water if filling up
    # to it (its depth) takes less than T nu; a sum of differences keeps the digits of small floors
    steps = np.diff(floor, axis=-1, prepend=floor[..., :1])
    depth = np.cumsum(steps * np.arange(T), axis=-1)
    wet = np.sum(depth < total, axis=-1, keepdims=True)
    highest_wet = np.take_along_axis(floor, wet - 1, axis=-1)
    lowest_dry = np.take_along_axis(floor, np.minimum(wet, T - 1), axis=-1)
    lowest_dry = np.where(wet < T, lowest_dry, np.inf)
    wet_floors = np.take_along_axis(below, wet - 1, axis=-1)
    # rounding must not put the level on the wrong side of a floor
    level = np.clip((total + wet_floors) / wet, highest_wet, lowest_dry)
    return level[..., 0]


class Optimal(Policy):
    r"""The offline optimum :math:`w^\star_t = \max(\ell, w_{\min,t})` of all rounds (:prf:ref:`thm-water-filling`)."""

    kind = "optimum"
    budget_mode = "hindsight"

    def schedule(self, problem: Problem) -> FloatArray:
        floor = problem.min_noise_energy
        return np.maximum(water_level(floor, problem.budget)[..., None], floor)
