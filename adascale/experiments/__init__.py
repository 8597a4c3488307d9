"""Experiments: from a scenario, policies and seeds to tidy tables, and what the paper says of them."""

from adascale.experiments.claims import compare, judge, paper_claims, verdicts
from adascale.experiments.leakage import leakage_table
from adascale.experiments.methods import POLICIES, READINGS, filled_lyapunov, kindest_lyapunov, load, method

__all__ = [
    "POLICIES",
    "READINGS",
    "compare",
    "filled_lyapunov",
    "judge",
    "kindest_lyapunov",
    "leakage_table",
    "load",
    "method",
    "paper_claims",
    "verdicts",
]
