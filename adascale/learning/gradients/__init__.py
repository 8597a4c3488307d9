"""Sums of clipped sample gradients, and the rules that make them cheap."""

from adascale.learning.gradients.api import ClippedSum, NotFinite, clipped_sum
from adascale.learning.gradients.paths import GeneralPath
from adascale.learning.gradients.rules import Outer, Rows, SampleGradients, register

__all__ = ["ClippedSum", "GeneralPath", "NotFinite", "Outer", "Rows", "SampleGradients", "clipped_sum", "register"]
