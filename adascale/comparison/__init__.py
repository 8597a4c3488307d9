"""Policies compared at equal cost: methods that bring them to a budget, and tables of what they then leak."""

from adascale.comparison.hindsight import Hindsight, Method, as_method, find_method
from adascale.comparison.leakage import leakage_table

__all__ = ["Hindsight", "Method", "as_method", "find_method", "leakage_table"]
