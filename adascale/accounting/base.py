"""What an accountant is: from the noise multipliers of a schedule to its epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale import registry
from adascale.accounting.orders import DEFAULT_ORDERS, as_orders
from adascale.accounting.schedules import schedule_epsilon


@runtime_checkable
class Accountant(Protocol):
    r"""Anything that turns a schedule of sampled Gaussian mechanisms into an :math:`(\varepsilon, \delta)` guarantee.

    A class of one's own needs this one method, and joins the command line by its name, ``module:Class``.
    """

    def epsilon(self, sampling_rate: float, noise_multiplier: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        r""":math:`\varepsilon \ge 0` of whole schedules.

        Parameters
        ----------
        sampling_rate : float
            :math:`q` in (0, 1], the same in every round.
        noise_multiplier : numpy.ndarray
            :math:`\sigma_t > 0`, shape (..., T): rounds last, leading axes are independent schedules.
        delta : float
            :math:`\delta` in (0, 1).

        Returns
        -------
        numpy.ndarray
            Shape (...).
        """


@dataclass(frozen=True)
class RenyiAccountant:
    r"""The accountant of the paper and of Opacus: the best Rényi order, converted (:eq:`eq:rdp-to-dp`).

    Parameters
    ----------
    orders : tuple of float
        The orders to choose from, each > 1 and at most 1e12; default Opacus'.  More of them:
        :func:`~adascale.accounting.order_grid`.
    """

    orders: tuple[float, ...] = DEFAULT_ORDERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(as_orders(self.orders).tolist()))

    def epsilon(self, sampling_rate: float, noise_multiplier: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        """See :class:`Accountant`; errors and warnings as :func:`~adascale.accounting.schedule_epsilon`."""
        return schedule_epsilon(sampling_rate, noise_multiplier, delta, self.orders).epsilon


def epsilon_by(
    accountant: Accountant, sampling_rate: float, noise_multiplier: NDArray[np.float64], delta: float
) -> NDArray[np.float64]:
    r"""What an accountant says of whole schedules, or one error that names it where that is none.

    Parameters
    ----------
    accountant : Accountant
        Any, also one of a user's own.
    sampling_rate, noise_multiplier, delta
        As :meth:`Accountant.epsilon` takes them.

    Returns
    -------
    numpy.ndarray
        :math:`\varepsilon \ge 0`, shape (...); ``inf`` where the accountant gives no guarantee.

    Raises
    ------
    ValueError
        If the result is no number for every schedule, or one of them is negative or NaN.
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
    """An accountant by its name: a registered one (``renyi``) or ``module:Class``; arguments as ``name:key=value``.

    Raises
    ------
    ValueError
        If there is no such accountant, it does not take the arguments, or it has no method ``epsilon``.
    """
    name, options = registry.parse_options(name)
    found = registry.find("accountants", name)
    try:
        made: Accountant = found.value(**options)
    except TypeError as error:
        raise ValueError(f"accountant {name!r}: {error}") from None
    return made
