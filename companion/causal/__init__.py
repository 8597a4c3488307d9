"""Policies without the future on every channel, drawn or measured."""
