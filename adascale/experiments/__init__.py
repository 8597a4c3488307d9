"""Experiments: from a scenario, policies and seeds to tidy tables, and what the paper says of them."""

from adascale.experiments.claims import compare, paper_claims, verdicts
from adascale.experiments.leakage import leakage_table
from adascale.experiments.methods import POLICIES, kindest_lyapunov, load, method

__all__ = ["POLICIES", "compare", "kindest_lyapunov", "leakage_table", "load", "method", "paper_claims", "verdicts"]
