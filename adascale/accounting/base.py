"""The protocol of accountants, the Rényi accountant, and accountants by name."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from adascale import checks as check
from adascale import registry
from adascale.accounting.kernels import FloatArray
from adascale.accounting.orders import DEFAULT_ORDERS, as_orders
from adascale.accounting.schedules import schedule_epsilon


@runtime_checkable
class Accountant(Protocol):
    """The protocol of accountants of schedules of sampled Gaussian mechanisms, with one method."""

    def epsilon(self, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
        r"""Return :math:`\varepsilon \ge 0` of each schedule, shape (...).

        Parameters
        ----------
        sampling_rate : float, in (0, 1]
        noise_multiplier : numpy.ndarray, shape (..., T), > 0
        delta : float, in (0, 1)
        """


@dataclass(frozen=True)
class RenyiAccountant:
    """The accountant of the paper and of Opacus: the best Rényi order, converted (:eq:`eq:rdp-to-dp`).

    Parameters
    ----------
    orders : tuple of float, > 1, <= 1e12
    """

    orders: tuple[float, ...] = DEFAULT_ORDERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(as_orders(self.orders).tolist()))

    def epsilon(self, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
        """See :class:`Accountant`; warnings as :func:`~adascale.accounting.schedule_epsilon`."""
        return schedule_epsilon(sampling_rate, noise_multiplier, delta, self.orders).epsilon


def epsilon_by(accountant: Accountant, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
    """Return the accountant's epsilon of whole schedules, validated; ``inf`` is no guarantee."""
    name = f"epsilon of the accountant {type(accountant).__name__}"
    epsilon = check.as_floats(name, accountant.epsilon(sampling_rate, noise_multiplier, delta))
    expected = np.shape(noise_multiplier)[:-1]
    if epsilon.shape != expected:
        raise ValueError(f"{name} must have shape {expected}, one number a schedule, got shape {epsilon.shape}")
    if not (epsilon >= 0).all():
        raise ValueError(f"{name} must be >= 0, got {epsilon[~(epsilon >= 0)][0]}")
    return epsilon


def find(name: str) -> Accountant:
    """Find an accountant: a registered name or ``module:Class``, with arguments as ``name:key=value``."""
    name, options = registry.parse_options(name)
    found = registry.find("accountants", name)
    try:
        made: Accountant = found.value(**options)
    except TypeError as error:
        raise ValueError(f"accountant {name!r}: {error}") from None
    return made
