"""Policies compared: methods that bring them to a budget, with or without the future, and tables of what they leak."""

from adascale.comparison.leakage import leakage_table
from adascale.comparison.methods import (
    Method,
    PolicyClass,
    TunedOnModel,
    TunedOnRealisation,
    as_method,
    find_method,
    keeps_its_own_promise,
)
from adascale.comparison.promises import promises

__all__ = [
    "Method",
    "PolicyClass",
    "TunedOnModel",
    "TunedOnRealisation",
    "as_method",
    "find_method",
    "keeps_its_own_promise",
    "leakage_table",
    "promises",
]
