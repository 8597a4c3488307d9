"""Policies compared: methods that bring them to a budget, with or without the future, and tables of what they leak."""

from adascale.comparison.classes import PolicyClass
from adascale.comparison.foresight import Foresight
from adascale.comparison.hindsight import Hindsight
from adascale.comparison.leakage import leakage_table
from adascale.comparison.methods import Method, as_method, find_method, keeps_its_own_promise
from adascale.comparison.promises import promises

__all__ = [
    "Foresight",
    "Hindsight",
    "Method",
    "PolicyClass",
    "as_method",
    "find_method",
    "keeps_its_own_promise",
    "leakage_table",
    "promises",
]
