"""What an accountant is: from the noise multipliers of a schedule to its epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adascale import registry
from adascale.accounting.renyi import DEFAULT_ORDERS, schedule_epsilon


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
        The orders to choose from, each finite and > 1; default Opacus'.
    """

    orders: tuple[float, ...] = DEFAULT_ORDERS

    def epsilon(self, sampling_rate: float, noise_multiplier: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        """See :class:`Accountant`; errors as :func:`~adascale.accounting.schedule_epsilon`."""
        return schedule_epsilon(sampling_rate, noise_multiplier, delta, self.orders).epsilon


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
        made = found.value(**options)
    except TypeError as error:
        raise ValueError(f"accountant {name!r}: {error}") from None
    if not isinstance(made, Accountant):
        raise ValueError(f"accountant {name!r} must have a method epsilon, see adascale.accounting.Accountant")
    return made
