"""Methods brought to a budget, and what they then leak."""

from adascale.comparison.hindsight import POLICIES, READINGS, filled_lyapunov, kindest_lyapunov, load, method
from adascale.comparison.leakage import leakage_table

__all__ = ["POLICIES", "READINGS", "filled_lyapunov", "kindest_lyapunov", "leakage_table", "load", "method"]
