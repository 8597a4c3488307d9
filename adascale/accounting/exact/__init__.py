"""The exact accountant: no orders, no grid of losses but for rare samples, and a bracket that is proven."""

from adascale.accounting.exact.accountant import ExactAccountant
from adascale.accounting.exact.epsilon import (
    ExactDelta,
    ExactEpsilon,
    exact_delta,
    exact_epsilon,
    trade_off,
)

__all__ = [
    "ExactAccountant",
    "ExactDelta",
    "ExactEpsilon",
    "exact_delta",
    "exact_epsilon",
    "trade_off",
]
