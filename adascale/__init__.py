"""Adaptive receive scaling for private over-the-air federated learning: the companion package of the book."""

from adascale import accounting, bounds, channel, policies, tuning
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

__all__ = ["ReceiveScalingProblem", "Scenario", "accounting", "bounds", "channel", "policies", "tuning"]
