"""The protocol of accountants, the accountant of the paper, and accountants by name."""

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
    r"""Anything that turns schedules of sampled Gaussian mechanisms into :math:`(\varepsilon, \delta)` guarantees.

    Your own class needs this one method; the command line takes it by its name, ``module:Class``.
    """

    def epsilon(self, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
        r"""Return :math:`\varepsilon \ge 0` of each schedule, shape (...).

        Parameters
        ----------
        sampling_rate : float, in (0, 1]
            The same in every round.
        noise_multiplier : numpy.ndarray, shape (..., T), > 0
            Rounds last; leading axes are independent schedules.
        delta : float, in (0, 1)
        """


@dataclass(frozen=True)
class RenyiAccountant:
    r"""The accountant of the paper and of Opacus: the best Rényi order, converted (:eq:`eq:rdp-to-dp`).

    Parameters
    ----------
    orders : tuple of float, > 1, <= 1e12
        The orders to choose from; default Opacus'.  More of them: :func:`~adascale.accounting.order_grid`.
    """

    orders: tuple[float, ...] = DEFAULT_ORDERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(as_orders(self.orders).tolist()))

    def epsilon(self, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
        """See :class:`Accountant`; warnings as :func:`~adascale.accounting.schedule_epsilon`."""
        return schedule_epsilon(sampling_rate, noise_multiplier, delta, self.orders).epsilon


def epsilon_by(accountant: Accountant, sampling_rate: float, noise_multiplier: FloatArray, delta: float) -> FloatArray:
    """Return the accountant's epsilon of whole schedules, validated; the arguments are those of its method.

    It is ``inf`` where the accountant gives no guarantee.  An error names the accountant.
    """
    name = f"epsilon of the accountant {type(accountant).__name__}"
    epsilon = check.as_floats(name, accountant.epsilon(sampling_rate, noise_multiplier, delta))
    expected = np.shape(noise_multiplier)[:-1]
    if epsilon.shape != expected:
        raise ValueError(f"{name} must have shape {expected}, one number a schedule, got shape {epsilon.shape}")
    if not (epsilon >= 0).all():
        raise ValueError(f"{name} must be >= 0, got {epsilon[~(epsilon >= 0)][0]}")
    return epsilon


def find(name: str) -> Accountant:
    """Find an accountant: a registered one (``renyi``) or ``module:Class``; arguments as ``name:key=value``."""
    name, options = registry.parse_options(name)
    found = registry.find("accountants", name)
    try:
        made: Accountant = found.value(**options)
    except TypeError as error:
        raise ValueError(f"accountant {name!r}: {error}") from None
    return made
