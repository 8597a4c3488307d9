"""Comparison of policies: methods that tune them to a budget, and leakage tables."""

from adascale.comparison.costs import measure
from adascale.comparison.leakage import PAPER, leakage_table
from adascale.comparison.methods import (
    Known,
    Method,
    PolicyBuilder,
    TunedOnModel,
    TunedOnRealisation,
    as_method,
    reported_parameters,
)
from adascale.comparison.names import find_method
from adascale.comparison.past import with_past

__all__ = [
    "PAPER",
    "Known",
    "Method",
    "PolicyBuilder",
    "TunedOnModel",
    "TunedOnRealisation",
    "as_method",
    "find_method",
    "leakage_table",
    "measure",
    "reported_parameters",
    "with_past",
]
