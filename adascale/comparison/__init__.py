"""Comparison of policies: methods that tune them to a budget, and leakage tables."""

from adascale.comparison.leakage import keeps_its_own_promise, knowledge, leakage_table
from adascale.comparison.methods import (
    Method,
    PolicyClass,
    TunedOnModel,
    TunedOnRealisation,
    as_method,
    find_method,
)

__all__ = [
    "Method",
    "PolicyClass",
    "TunedOnModel",
    "TunedOnRealisation",
    "as_method",
    "find_method",
    "keeps_its_own_promise",
    "knowledge",
    "leakage_table",
]
