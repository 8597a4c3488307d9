"""Privacy accounting of the sampled Gaussian mechanism: Rényi leakage, its slope, composition, conversion to DP."""

from adascale.accounting.base import Accountant, RenyiAccountant, epsilon_by, find
from adascale.accounting.orders import DEFAULT_ORDERS, OrdersTooFew, order_grid
from adascale.accounting.renyi import DpGuarantee, at_end, compose, rdp, rdp_derivative, to_dp
from adascale.accounting.schedules import schedule_epsilon

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "DpGuarantee",
    "OrdersTooFew",
    "RenyiAccountant",
    "at_end",
    "compose",
    "epsilon_by",
    "find",
    "order_grid",
    "rdp",
    "rdp_derivative",
    "schedule_epsilon",
    "to_dp",
]
