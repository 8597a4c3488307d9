"""Exact epsilon and delta of a schedule of sampled Gaussian mechanisms."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.events import events_of_schedule
from adascale.accounting.exact import certify
from adascale.accounting.interval import CertifiedInterval
from adascale.checks import FloatArray


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
