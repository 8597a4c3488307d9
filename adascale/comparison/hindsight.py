r"""Tune policies to the cost :math:`\nu` on the realisation they are evaluated on, as the paper does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adascale import tuning
from adascale.comparison.classes import PolicyClass
from adascale.policies import Policy
from adascale.problem import ReceiveScalingProblem

FloatArray = NDArray[np.float64]


class Hindsight(PolicyClass):
    r"""The method of a policy class: its one ``tuned`` parameter is matched on the realisation itself.

    It **sees the whole future** (:func:`~adascale.tuning.match_budget`); :class:`~adascale.comparison.Foresight` does
    not.  A class that has nothing ``tuned`` is taken as it is, whatever it costs.

    Parameters
    ----------
    policy : type
        A subclass of :class:`~adascale.policies.Policy`, or any class with ``start`` and ``step``.
    **fixed
        Arguments of the constructor that keep one value.

    Raises
    ------
    ValueError
        If it is no such class, or has more than one parameter to tune.
    """

    def __init__(self, policy: type, **fixed: Any):
        super().__init__(policy, fixed)

    def __call__(self, problem: ReceiveScalingProblem, mean_gain: FloatArray | None = None) -> Policy:
        """The policy with its cost brought to the budget of every lane."""
        statistics: tuple[FloatArray, ...] = ()
        if self.policy.needs_law and not {"law", "mean_gain"} & {*self.fixed}:
            raise ValueError(f"{self.policy.__name__} needs the law of the floors: it is Foresight's, or give law=")
        if self.policy.needs_mean_gain:
            if mean_gain is None:
                raise ValueError(f"{self.policy.__name__} needs mean_gain, the mean channel gain of every device")
            statistics = (mean_gain,)
        if not self.tuned:
            return self._with(None, *statistics)
        guess = self.policy.guess(problem)
        return self._with(tuning.match_budget(self._with, problem, *statistics, guess=guess), *statistics)

    def _with(self, value: FloatArray | None, *statistics: FloatArray) -> Policy:
        return self.build(**dict.fromkeys(self.tuned, value), **dict(zip(("mean_gain",), statistics, strict=False)))
