"""Observers, adversaries and audits."""
