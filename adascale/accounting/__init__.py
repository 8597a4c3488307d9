"""Privacy accounting of the sampled Gaussian mechanism: Rényi leakage, its slope, composition, conversion to DP."""

from adascale.accounting.base import Accountant, RenyiAccountant, find
from adascale.accounting.renyi import (
    DEFAULT_ORDERS,
    DpGuarantee,
    compose,
    rdp,
    rdp_derivative,
    schedule_epsilon,
    to_dp,
)

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "DpGuarantee",
    "RenyiAccountant",
    "compose",
    "find",
    "rdp",
    "rdp_derivative",
    "schedule_epsilon",
    "to_dp",
]
