"""Experiments: from a scenario, policies and seeds to tidy tables."""

from adascale.experiments.leakage import POLICIES, leakage_table

__all__ = ["POLICIES", "leakage_table"]
