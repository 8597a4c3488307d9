r"""The offline optimum in closed form: water-filling."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.policies.base import Policy
from adascale.problem import ReceiveScalingProblem, scaling


def water_level(floor: ArrayLike, budget: ArrayLike) -> NDArray[np.float64]:
    r"""The level :math:`\ell` with :math:`\frac1T \sum_t \max(\ell - w_{\min,t}, 0) = \nu`, exactly.

    Parameters
    ----------
    floor : array_like
        :math:`w_{\min,t} > 0`, shape (..., T).
    budget : array_like
        :math:`\nu > 0`, broadcasting against the leading axes.

    Returns
    -------
    numpy.ndarray
        :math:`\ell`, of the shape of the lanes (:eq:`eq:water-level`).
    """
    floor = np.sort(floor, axis=-1)
    rounds = np.arange(1, floor.shape[-1] + 1)
    # with the k lowest floors under water, the level is (T nu + their sum) / k; the right k is the last with
    # its own floor still under water
    levels = (np.asarray(budget)[..., None] * rounds[-1] + np.cumsum(floor, axis=-1)) / rounds
    wet = np.sum(levels > floor, axis=-1, keepdims=True)
    return np.take_along_axis(levels, wet - 1, axis=-1)[..., 0]


class Optimal(Policy):
    r"""The offline optimum by water-filling: :math:`w^\star_t = \max(\ell, w_{\min,t})` (:prf:ref:`thm-water-filling`).

    One schedule is optimal for every convex decreasing leakage at once: every integer order, any :math:`q_m`, any
    :math:`B_m`.  It sees the whole future, so it is a bound and no policy.
    """

    def schedule(self, problem: ReceiveScalingProblem) -> NDArray[np.float64]:
        r""":math:`\eta^\star_t`, shape (..., T)."""
        level = water_level(problem.floor, problem.budget)[..., None]
        return scaling(np.maximum(level, problem.floor), problem.floor, problem.max_eta, problem.scenario.noise_scale)
