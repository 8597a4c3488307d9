r"""The DP leakage of the rounds so far, without going through all of them again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import DEFAULT_ORDERS, DpGuarantee, at_end
from adascale.accounting.kernels import moment_terms, total_log_moment
from adascale.accounting.orders import as_orders
from adascale.accounting.renyi import conversion_offset
from adascale.problem import RoundLeakage
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class Moments(NamedTuple):
    """What the rounds so far have leaked: a row of log-moments for each kind of devices, an entry an order."""

    total: FloatArray
    rounds: int


class RunningEpsilon:
    r"""The mean over devices of :math:`\varepsilon` after each round, as
    :meth:`~adascale.problem.ReceiveScalingProblem.dp_epsilon` has it of a whole schedule.

    The log-moments of all orders are summed round by round, in :class:`Moments` that are never changed.

    Parameters
    ----------
    scenario : Scenario
        The constants.
    delta : float
        :math:`\delta` in (0, 1).
    orders : sequence of float
        The Rényi orders to choose from, each > 1.
    """

    def __init__(self, scenario: Scenario, delta: float = 1e-5, orders: ArrayLike = DEFAULT_ORDERS) -> None:
        leakage = RoundLeakage(scenario)
        self.delta, self.orders = check.fraction("delta", delta), np.unique(as_orders(orders))
        self._unit, self._number = leakage.unit, leakage.count
        self._offset = conversion_offset(self.orders, self.delta)
        self._terms = [[moment_terms(float(rate), float(order)) for order in self.orders] for rate in leakage.rate]

    def start(self) -> Moments:
        """Nothing has leaked."""
        return Moments(np.zeros((self._unit.size, self.orders.size)), 0)

    def add(self, moments: Moments, noise_energy: float) -> Moments:
        """One more round, of a noise energy w > 0."""
        energy = float(check.positive("noise_energy", noise_energy))
        here = np.empty(moments.total.shape)
        for kind, terms in enumerate(self._terms):
            s = np.array([self._unit[kind] / energy])
            here[kind] = [total_log_moment(s, each, 0) for each in terms]
        return Moments(moments.total + here, moments.rounds + 1)

    def epsilon(self, moments: Moments) -> float:
        r""":math:`\varepsilon`, mean over devices; 0 before the first round.

        Raises
        ------
        ValueError
            If it exceeds floating point at every order.
        """
        if not moments.rounds:
            return 0.0
        least = self._best(moments).epsilon
        check.held("epsilon of these rounds, at every order", least)
        return float((self._number * least).sum() / self._number.sum())

    def at_end(self, moments: Moments) -> bool:
        """Whether some device's best order is the first or the last, so that one beyond may lower its epsilon."""
        return bool(moments.rounds and at_end(self._best(moments), self.orders).any())

    def _best(self, moments: Moments) -> DpGuarantee:
        epsilon = moments.total / (self.orders - 1) + self._offset
        best = epsilon.argmin(axis=-1)
        return DpGuarantee(np.maximum(epsilon.min(axis=-1), 0.0), self.orders[best])
