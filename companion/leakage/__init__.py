"""Leakage of the paper's methods: exact, published, and under other interpretations."""
