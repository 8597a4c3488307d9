"""Policies that choose the receive scaling, one file a method."""

from adascale.policies.adaptive import AdaScale
from adascale.policies.equal_alloc import EqualAlloc
from adascale.policies.online import OnlinePolicy, run
from adascale.policies.optimal import Optimal, OptimalCvxpy

__all__ = ["AdaScale", "EqualAlloc", "OnlinePolicy", "Optimal", "OptimalCvxpy", "run"]
