"""The DP leakage of the rounds so far, updated per round."""

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


class Moments(NamedTuple):
    """Log-moments of the rounds so far, with a row per kind of device and a column per order."""

    total: NDArray[np.float64]
    rounds: int


class RunningEpsilon:
    r"""The mean over devices of :math:`\varepsilon` after each round, minimised over ``orders``.

    It equals :meth:`~adascale.problem.ReceiveScalingProblem.dp_epsilon` of the schedule so far.
    """

    def __init__(self, scenario: Scenario, delta: float = 1e-5, orders: ArrayLike = DEFAULT_ORDERS) -> None:
        leakage = RoundLeakage(scenario)
        self.delta, self.orders = check.fraction("delta", delta), np.unique(as_orders(orders))
        self._unit, self._number = leakage.unit, leakage.count
        self._offset = conversion_offset(self.orders, self.delta)
        self._terms = [[moment_terms(float(rate), float(order)) for order in self.orders] for rate in leakage.rate]

    def start(self) -> Moments:
        """Return the moments before the first round."""
        return Moments(np.zeros((self._unit.size, self.orders.size)), 0)

    def add(self, moments: Moments, noise_energy: float) -> Moments:
        """Add a round of noise energy w > 0."""
        energy = float(check.positive("noise_energy", noise_energy))
        here = [
            [total_log_moment(np.array([unit / energy]), each, 0) for each in terms]
            for unit, terms in zip(self._unit, self._terms, strict=True)
        ]
        return Moments(moments.total + np.array(here), moments.rounds + 1)

    def epsilon(self, moments: Moments) -> float:
        r"""Return the mean :math:`\varepsilon`; raise a ``ValueError`` if it overflows at every order."""
        if not moments.rounds:
            return 0.0
        least = self._best(moments).epsilon
        check.held("epsilon of these rounds, at every order", least)
        return float((self._number * least).sum() / self._number.sum())

    def at_end(self, moments: Moments) -> bool:
        """Return whether the best order of any device is the first or the last."""
        return bool(moments.rounds and at_end(self._best(moments), self.orders).any())

    def _best(self, moments: Moments) -> DpGuarantee:
        epsilon = moments.total / (self.orders - 1) + self._offset
        return DpGuarantee(np.maximum(epsilon.min(axis=-1), 0.0), self.orders[epsilon.argmin(axis=-1)])
