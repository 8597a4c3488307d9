"""Exact epsilon, delta and trade-off curve of a schedule of sampled Gaussian mechanisms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import certified
from adascale.accounting.events import schedule
from adascale.accounting.interval import CertifiedInterval
from adascale.accounting.kernels import FloatArray


class ExactEpsilon(NamedTuple):
    r"""Proven bounds of :math:`\varepsilon`, an estimate between them, and the ``direction`` (add or remove)."""

    estimate: float
    lower: float
    upper: float
    direction: str

    @property
    def epsilon(self) -> float:
        r"""The proven :math:`\varepsilon`, ``upper``."""
        return self.upper


class ExactDelta(NamedTuple):
    r"""Proven bounds of :math:`\delta`, an estimate between them, and the ``direction`` (add or remove)."""

    estimate: float
    lower: float
    upper: float
    direction: str

    @property
    def delta(self) -> float:
        r"""The proven :math:`\delta`, ``upper``."""
        return self.upper


def exact_epsilon(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, delta: float = 1e-5
) -> ExactEpsilon:
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
    return ExactEpsilon(
        *_narrow(certified.epsilon, sampling_rate, noise_multiplier, "delta", delta)
    )


def exact_delta(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, epsilon: float
) -> ExactDelta:
    r"""Compute :math:`\delta` at :math:`\varepsilon \ge 0`, with proven bounds; see :func:`exact_epsilon`."""
    return ExactDelta(
        *_narrow(certified.delta, sampling_rate, noise_multiplier, "epsilon", epsilon)
    )


def _narrow(
    of: Callable[..., CertifiedInterval],
    rates: ArrayLike,
    sigmas: ArrayLike,
    given: str,
    at: float,
) -> tuple[float, float, float, str]:
    events = schedule(rates, sigmas)
    found = of(events, at)
    if not found.certified:
        rate, sigma = (
            f"{least:.4g} ... {most:.4g}"
            for least, most in zip(events.min(0), events.max(0), strict=True)
        )
        what = f"{of.__name__} of {len(events)} rounds with rates {rate} and noise multipliers {sigma}"
        error = f"the exact {what} at {given} {at:g} cannot be certified within one per cent"
        raise ValueError(
            f"{error}: {of.__name__} of adascale.accounting returns the interval {found}"
        )
    return found.estimate, found.lower, found.upper, found.direction


@dataclass(frozen=True)
class ExactAccountant:
    """The accountant of :func:`exact_epsilon`, whose epsilon is the proven upper bound."""

    def epsilon(
        self, sampling_rate: float, noise_multiplier: FloatArray, delta: float
    ) -> FloatArray:
        """Compute epsilon (:class:`~adascale.accounting.Accountant`), with the errors of :func:`exact_epsilon`."""
        sigma = check.positive("noise_multiplier", noise_multiplier)
        found = [
            exact_epsilon(sampling_rate, each, delta).upper
            for each in sigma.reshape(-1, sigma.shape[-1])
        ]
        return np.reshape(found, sigma.shape[:-1])
