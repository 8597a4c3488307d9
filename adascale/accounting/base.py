"""The protocol of accountants, the Rényi accountant, and accountants by name."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from adascale import checks as check
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


def epsilon_by(
    accountant: Accountant,
    sampling_rate: float,
    noise_multiplier: FloatArray,
    delta: float,
) -> FloatArray:
    """Return the accountant's epsilon of whole schedules, validated; ``inf`` means no guarantee."""
    name = f"epsilon of the accountant {type(accountant).__name__}"
    epsilon = check.as_floats(
        name, accountant.epsilon(sampling_rate, noise_multiplier, delta)
    )
    expected = np.shape(noise_multiplier)[:-1]
    if epsilon.shape != expected:
        raise ValueError(
            f"{name} must have shape {expected}, one number per schedule, got shape {epsilon.shape}"
        )
    if not (epsilon >= 0).all():
        raise ValueError(f"{name} must be >= 0, got {epsilon[~(epsilon >= 0)][0]}")
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
