"""Accountants of schedules: their protocol, the Rényi and the exact one, and accountants by name."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.events import events_of_schedule
from adascale.accounting.exact import certify
from adascale.accounting.interval import CertifiedInterval
from adascale.accounting.kernels import FloatArray
from adascale.accounting.renyi import DEFAULT_ORDERS, as_orders
from adascale.accounting.schedules import schedule_epsilon


@runtime_checkable
class Accountant(Protocol):
    """The interface of accountants for schedules of sampled Gaussian mechanisms; it has one method."""

    def epsilon(
        self, sampling_rate: float, noise_multiplier: FloatArray, delta: float
    ) -> FloatArray:
        r"""Return :math:`\varepsilon \ge 0` of each schedule, shape (...); ``inf`` means no guarantee.

        Parameters
        ----------
        sampling_rate : float, in (0, 1]
        noise_multiplier : numpy.ndarray, shape (..., T) with rounds last, > 0
        delta : float, in (0, 1)
        """


@dataclass(frozen=True)
class RenyiAccountant:
    """The accountant of the paper and of Opacus: the conversion at the best Rényi order (:eq:`eq:rdp-to-dp`).

    Parameters
    ----------
    orders : tuple of float, > 1, <= 1e12
    """

    orders: tuple[float, ...] = DEFAULT_ORDERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(as_orders(self.orders).tolist()))

    def epsilon(
        self, sampling_rate: float, noise_multiplier: FloatArray, delta: float
    ) -> FloatArray:
        """Compute epsilon as :class:`Accountant` says; warn as :func:`~adascale.accounting.schedule_epsilon` does."""
        return schedule_epsilon(
            sampling_rate, noise_multiplier, delta, self.orders
        ).epsilon


@dataclass(frozen=True)
class ExactAccountant:
    """The accountant of :func:`exact_epsilon`, whose epsilon is the proven upper bound."""

    def epsilon(
        self, sampling_rate: float, noise_multiplier: FloatArray, delta: float
    ) -> FloatArray:
        """Compute epsilon (:class:`~adascale.accounting.Accountant`), with the errors of :func:`exact_epsilon`."""
        sigma = check.positive("noise_multiplier", noise_multiplier)
        epsilons = [
            exact_epsilon(sampling_rate, row, delta).upper
            for row in sigma.reshape(-1, sigma.shape[-1])
        ]
        return np.reshape(epsilons, sigma.shape[:-1])


def exact_epsilon(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, delta: float = 1e-5
) -> CertifiedInterval:
    r"""Compute the smallest :math:`\varepsilon` with :math:`\delta(\varepsilon) \le \delta`, with proven bounds.

    It is for Poisson sampling and add/remove adjacency, in the larger direction (:eq:`eq:inversion`, :ref:`app-exact`).

    Parameters
    ----------
    sampling_rate : array_like, shape () or (T,), in [0, 1]
    noise_multiplier : array_like, shape (T,), > 0
    delta : float, in (0, 1)

    Raises
    ------
    ValueError
        If the bounds differ by more than one per cent of epsilon, and epsilon may exceed 1e-6.
    """
    events = events_of_schedule(sampling_rate, noise_multiplier)
    interval = certify.epsilon(events, delta)
    return _narrow(interval, "epsilon", events, f"delta {delta:g}")


def exact_delta(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, epsilon: float
) -> CertifiedInterval:
    r"""Compute :math:`\delta` at :math:`\varepsilon \ge 0`, with proven bounds; see :func:`exact_epsilon`."""
    events = events_of_schedule(sampling_rate, noise_multiplier)
    interval = certify.delta(events, epsilon)
    return _narrow(interval, "delta", events, f"epsilon {epsilon:g}")


def _narrow(
    interval: CertifiedInterval, quantity: str, events: FloatArray, place: str
) -> CertifiedInterval:
    """Return the interval; raise an error that names the schedule if it is wide."""
    if interval.certified:
        return interval
    rate, sigma = (f"{min(column):.4g} ... {max(column):.4g}" for column in events.T)
    schedule = f"{len(events)} rounds with rates {rate} and noise multipliers {sigma}"
    raise ValueError(
        f"the exact {quantity} of {schedule} at {place} cannot be certified within one per cent:"
        f" {quantity} of adascale.accounting returns the interval {interval}"
    )


def epsilon_by(
    accountant: Accountant,
    sampling_rate: float,
    noise_multiplier: FloatArray,
    delta: float,
) -> FloatArray:
    """Return the accountant's epsilon of whole schedules, validated; ``inf`` means no guarantee."""
    name = f"epsilon of the accountant {type(accountant).__name__}"
    epsilon = accountant.epsilon(sampling_rate, noise_multiplier, delta)
    epsilon = check.between(name, epsilon, 0.0, math.inf)
    expected = np.shape(noise_multiplier)[:-1]
    if epsilon.shape != expected:
        raise ValueError(
            f"{name} must have shape {expected}, one number per schedule, got shape {epsilon.shape}"
        )
    return epsilon


def find(name: str) -> Accountant:
    """Make an accountant from a registered name or ``module:Class``, with arguments as in ``name:key=value``."""
    from adascale import registry  # slow to import

    name, options = registry.parse_options(name)
    make = registry.find("accountants", name).value
    try:
        accountant: Accountant = make(**options)
    except TypeError as error:
        raise ValueError(f"accountant {name!r}: {error}") from None
    return accountant
