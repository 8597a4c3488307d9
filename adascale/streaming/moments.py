"""The leakage of a stream: log-moments of its rounds at every Rényi order, which add up, and their epsilon."""

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.kernels import MomentTerms, log_moment, moment_terms
from adascale.accounting.renyi import as_orders, conversion_offset
from adascale.checks import BoolArray, FloatArray
from adascale.compiled import njit
from adascale.policies import Selection
from adascale.problem import RoundLeakage, kind_of_device, over_devices
from adascale.scenario import Scenario


class Leakage:
    """The leakage of rounds in a scenario, at the orders of a stream.

    Log-moments, which are order - 1 times the Rényi leakage, have a column per order, and a row per kind of device:
    those with equal sampling rate and ``unit_energy`` (:class:`~adascale.problem.LeakageTerms`).  If a policy
    ``selects`` who sends, a row is a device.
    """

    def __init__(
        self, scenario: Scenario, orders: ArrayLike, delta: float, selects: bool
    ) -> None:
        self.orders = np.unique(as_orders(orders))
        self._scenario = scenario
        self._conversion = conversion_offset(self.orders, delta)
        kinds = RoundLeakage(scenario)
        self._unit = kinds.unit_energy
        self._terms = [moment_terms(kinds.rate, order) for order in self.orders]
        self._kind = kind_of_device(scenario)
        self._count = kinds.multiplicity.astype(int)
        if selects:
            self._count = np.ones(scenario.num_devices, dtype=int)
        self.nothing = np.zeros((self._count.size, self.orders.size))
        """The log-moments of no round."""

    def of_round(self, eta: float, senders: BoolArray | None) -> FloatArray:
        """Compute the log-moments of a round with the scaling eta > 0, in which all devices or the ``senders`` send."""
        if senders is None:
            noise_energy = self._scenario.noise_scale / eta
            return self._of_kinds(self._unit / noise_energy)
        selection = Selection(self._scenario, np.array([eta]), senders[:, None])
        sigma = selection.noise_multiplier[senders, 0]
        inverse = np.zeros(self._unit.size)
        # the senders of a kind have the same sigma
        inverse[self._kind[senders]] = sigma**-2.0
        moments = self._of_kinds(inverse)[self._kind]
        moments[~senders] = 0.0
        return moments

    def _of_kinds(self, inverse: FloatArray) -> FloatArray:
        """Compute the log-moments of every kind from its inverse squared noise multiplier."""
        by_order = [_log_moments(inverse, *terms) for terms in self._terms]
        return np.stack(by_order, axis=-1)

    def epsilons(self, moments: FloatArray) -> tuple[float, float]:
        """Compute the largest epsilon of a device, and the mean, by :eq:`eq:rdp-to-dp` at the best order of each."""
        by_order = moments / (self.orders - 1) + self._conversion
        epsilon = np.maximum(by_order.min(axis=-1), 0.0)
        # the conversion would give a device that never sent an epsilon above 0
        epsilon = np.where(moments.any(axis=-1), epsilon, 0.0)
        check.finite("epsilon of these rounds, at every order", epsilon)
        largest, mean = over_devices(np.repeat(epsilon, self._count)).values()
        return float(largest), float(mean)


@njit(cache=True, nogil=True)
def _log_moments(
    s: FloatArray,
    order: float,
    rate: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Compute the log-moment of every kind at one order, for s = 1 / sigma^2 and the fields of :class:`MomentTerms`."""
    terms = MomentTerms(order, rate, weight)  # as one argument, it is slow
    moments = np.empty(s.size)
    for kind in range(s.size):
        moments[kind] = log_moment(s[kind], terms, kind)
    return moments
