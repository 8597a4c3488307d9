"""Exact epsilon, delta and trade-off curve of a schedule of sampled Gaussian mechanisms."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.events import LEAST_NOISE, MOST_NOISE
from adascale.accounting.exact.certify import delta_interval, epsilon_interval
from adascale.accounting.exact.rounds import Rounds, rounds_of
from adascale.accounting.interval import CertifiedInterval
from adascale.accounting.kernels import FloatArray

_ADVICE = "epsilon and delta of adascale.accounting return this interval"


class ExactEpsilon(NamedTuple):
    r"""Exact :math:`\varepsilon`, its proven bounds, and the ``direction`` (add or remove) that determines it."""

    epsilon: float
    lower: float
    upper: float
    direction: str


class ExactDelta(NamedTuple):
    r"""Exact :math:`\delta`, its proven bounds, and the ``direction`` (add or remove) that determines it."""

    delta: float
    lower: float
    upper: float
    direction: str


def exact_epsilon(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, delta: float = 1e-5) -> ExactEpsilon:
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
    rounds, shown = checked(sampling_rate, noise_multiplier)
    delta = check.fraction("delta", delta)
    return ExactEpsilon(*_narrow(epsilon_interval(rounds, delta), f"epsilon of {shown} at delta {delta:g}"))


def exact_delta(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, epsilon: float) -> ExactDelta:
    r"""Compute :math:`\delta` at :math:`\varepsilon \ge 0`, with proven bounds; see :func:`exact_epsilon`."""
    rounds, shown = checked(sampling_rate, noise_multiplier)
    epsilon = check.number("epsilon", epsilon, 0.0)
    return ExactDelta(*_narrow(delta_interval(rounds, epsilon), f"delta of {shown} at epsilon {epsilon:g}"))


def _narrow(found: CertifiedInterval, what: str) -> tuple[float, float, float, str]:
    if not found.certified:
        between = f"it lies between {found.lower:.6g} and {found.upper:.6g}"
        raise ValueError(f"the exact {what} cannot be certified within one per cent: {between}; {_ADVICE}")
    return found.value, found.lower, found.upper, found.direction


@dataclass(frozen=True)
class ExactAccountant:
    """The accountant of :func:`exact_epsilon`."""

    def epsilon(self, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
        """Compute epsilon (:class:`~adascale.accounting.Accountant`), with the errors of :func:`exact_epsilon`."""
        sigma = check.positive("noise_multiplier", noise_multiplier)
        out = np.empty(sigma.shape[:-1])
        for lane in np.ndindex(out.shape):
            out[lane] = exact_epsilon(sampling_rate, sigma[lane], delta).upper
        return out


def checked(sampling_rate: ArrayLike, noise_multiplier: ArrayLike) -> tuple[Rounds, str]:
    """Validate one schedule; return it and its description for error messages."""
    rate = check.between("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = check.between("noise_multiplier", noise_multiplier, LEAST_NOISE, MOST_NOISE)
    if sigma.ndim != 1 or sigma.size == 0:
        raise ValueError(f"noise_multiplier must have shape (T,), one or more rounds, got shape {sigma.shape}")
    if rate.shape not in ((), (1,), sigma.shape):
        shapes = f"got shape {rate.shape} with noise_multiplier of shape {sigma.shape}"
        raise ValueError(f"sampling_rate must be one number or one per round, {shapes}")
    shown = f"{sigma.size} rounds with rates {rate.min():g} ... {rate.max():g} and noise multipliers "
    return rounds_of(np.broadcast_to(rate, sigma.shape), sigma), f"{shown}{sigma.min():.4g} ... {sigma.max():.4g}"
