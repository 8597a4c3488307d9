"""Privacy accounting of the sampled Gaussian mechanism: Rényi and exact."""

from warnings import warn as _warn

from adascale.accounting.base import Accountant, RenyiAccountant, epsilon_by, find
from adascale.accounting.exact import (
    ExactAccountant,
    ExactDelta,
    ExactEpsilon,
    exact_delta,
    exact_epsilon,
    trade_off,
)
from adascale.accounting.exact.sharp import sharp_epsilon as _sharp_epsilon
from adascale.accounting.orders import DEFAULT_ORDERS, OrdersTooFew, order_grid
from adascale.accounting.renyi import DpGuarantee, at_end, compose, rdp, rdp_derivative, to_dp
from adascale.accounting.schedules import schedule_epsilon

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "DpGuarantee",
    "ExactAccountant",
    "ExactDelta",
    "ExactEpsilon",
    "OrdersTooFew",
    "RenyiAccountant",
    "at_end",
    "compose",
    "epsilon_by",
    "exact_delta",
    "exact_epsilon",
    "find",
    "order_grid",
    "rdp",
    "rdp_derivative",
    "schedule_epsilon",
    "to_dp",
    "trade_off",
]


def __getattr__(name: str) -> object:
    if name != "sharp_epsilon":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    said = "sharp_epsilon is deprecated, as it is wrong on rare samples; use exact_epsilon, which has proven bounds"
    _warn(said, DeprecationWarning, stacklevel=2)
    return _sharp_epsilon
