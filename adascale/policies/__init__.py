"""Policies that choose the receive scaling, one file a method."""

from adascale.policies.adascale import AdaScale
from adascale.policies.base import OnlinePolicy, run, schedule
from adascale.policies.equal_alloc import EqualAlloc
from adascale.policies.estim_future import EstimFuture, estimated_min_gain
from adascale.policies.optimal import Optimal, OptimalCvxpy
from adascale.policies.power_control import (
    LyapunovPowerControl,
    OfflinePowerControl,
    PowerControl,
    scaling_budget,
    spent_epsilon,
)

__all__ = [
    "AdaScale",
    "EqualAlloc",
    "EstimFuture",
    "LyapunovPowerControl",
    "OfflinePowerControl",
    "OnlinePolicy",
    "Optimal",
    "OptimalCvxpy",
    "PowerControl",
    "estimated_min_gain",
    "run",
    "scaling_budget",
    "schedule",
    "spent_epsilon",
]
