"""Adaptive receive scaling for private over-the-air federated learning: the companion package of the book."""

from adascale import channel, policies, privacy, tuning
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

__all__ = ["ReceiveScalingProblem", "Scenario", "channel", "policies", "privacy", "tuning"]
