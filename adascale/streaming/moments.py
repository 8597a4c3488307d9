"""The leakage of a stream: log-moments of its rounds at every Rényi order, which add up, and their epsilon."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting.kernels import MomentTerms, log_moment, moment_terms
from adascale.accounting.renyi import as_orders, conversion_offset
from adascale.compiled import njit
from adascale.policies import Selection
from adascale.problem import RoundLeakage, over_devices
from adascale.scenario import FloatArray, Scenario


class Leakage:
    """The leakage of rounds in a scenario, at the orders that a stream looks at.

    Log-moments have a row per kind of device, or per device if a policy chooses who sends, and a column per order.
    """

    def __init__(
        self, scenario: Scenario, orders: ArrayLike, delta: float, selects: bool
    ) -> None:
        self.orders = np.unique(as_orders(orders))
        self._scenario, self._selects = scenario, selects
        self._conversion = conversion_offset(self.orders, delta)
        devices = RoundLeakage(scenario)
        self._unit, rate, count = devices.unit, devices.rate, devices.count
        if selects:
            rate = np.broadcast_to(scenario.sampling_rate, scenario.num_devices)
            count = np.ones(rate.size)
        self._count = count.astype(int)
        self._terms = _joined_terms(rate, self.orders)
        self.nothing = np.zeros((rate.size, self.orders.size))
        """The log-moments of no round."""

    def of_round(self, eta: float, senders: NDArray[np.bool_] | None) -> FloatArray:
        """Compute the log-moments of a round in which the server scales by eta > 0."""
        if senders is None:
            inverse = self._unit / (self._scenario.noise_scale / eta)
        else:
            selection = Selection(self._scenario, np.array([eta]), senders[:, None])
            inverse = selection.noise_multiplier[:, 0] ** -2.0
        return _log_moments(inverse, *self._terms)

    def epsilons(self, moments: FloatArray) -> tuple[float, float]:
        """Compute the largest epsilon of a device, and the mean, by :eq:`eq:rdp-to-dp` at the best order of each."""
        by_order = moments / (self.orders - 1) + self._conversion
        epsilon = np.maximum(by_order.min(axis=-1), 0.0)
        epsilon = np.where(moments.any(axis=-1), epsilon, 0.0)
        check.finite("epsilon of these rounds, at every order", epsilon)
        largest, mean = over_devices(np.repeat(epsilon, self._count)).values()
        return float(largest), float(mean)


def _joined_terms(rate: FloatArray, orders: FloatArray) -> tuple[Any, ...]:
    """Return the rates, the orders, and the :class:`MomentTerms` of all orders in one row, with their ends."""
    terms = [moment_terms(rate, float(order)) for order in orders]
    ends = np.cumsum([0, *(term.weight.size for term in terms)])
    weight = np.concatenate([term.weight.ravel() for term in terms])
    log_weight = np.concatenate([term.log_weight.ravel() for term in terms])
    return np.array(rate), orders, weight, log_weight, ends


@njit(cache=True, nogil=True)
def _log_moments(
    s: FloatArray,
    rate: FloatArray,
    orders: FloatArray,
    weight: FloatArray,
    log_weight: FloatArray,
    ends: Any,
) -> FloatArray:
    """Compute the log-moment of every kind of device, with its inverse squared noise multiplier, at every order."""
    moments = np.zeros((s.size, orders.size))
    for j in range(orders.size):
        shape = (rate.size, (ends[j + 1] - ends[j]) // rate.size)
        row, log_row = weight[ends[j] : ends[j + 1]], log_weight[ends[j] : ends[j + 1]]
        terms = MomentTerms(orders[j], rate, row.reshape(shape), log_row.reshape(shape))
        last = -1  # the kind before that sends
        for kind in range(s.size):
            if s[kind] > 0:
                if last >= 0 and s[kind] == s[last] and rate[kind] == rate[last]:
                    moments[kind, j] = moments[last, j]
                else:
                    moments[kind, j] = log_moment(s[kind], terms, kind)
                last = kind
    return moments
