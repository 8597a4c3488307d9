"""Sums of clipped sample gradients."""

from adascale.learning.gradients.api import ClippedSum, clipped_sum

__all__ = ["ClippedSum", "clipped_sum"]
