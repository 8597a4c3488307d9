"""Adaptive receive scaling for private over-the-air federated learning, imported lazily."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adascale.accounting import ExactAccountant, RenyiAccountant, exact_epsilon
    from adascale.channel import ChannelModel, Rayleigh, draw, read_gains
    from adascale.comparison import leakage_table
    from adascale.errors import AdaScaleError, InvalidInput
    from adascale.policies import (
        AdaScale,
        ConstantLevel,
        EqualAlloc,
        EstimFuture,
        Learn,
        LyapunovPowerControl,
        OnlinePolicy,
        Optimal,
        Policy,
        PowerControl,
        ReSolve,
    )
    from adascale.presets import load as load_preset
    from adascale.problem import ReceiveScalingProblem
    from adascale.scenario import Scenario
    from adascale.streaming import Stream
    from adascale.tuning import match_budget

__version__ = "0.2.0"

__all__ = [
    "AdaScale",
    "AdaScaleError",
    "ChannelModel",
    "ConstantLevel",
    "EqualAlloc",
    "EstimFuture",
    "ExactAccountant",
    "InvalidInput",
    "Learn",
    "LyapunovPowerControl",
    "OnlinePolicy",
    "Optimal",
    "Policy",
    "PowerControl",
    "Rayleigh",
    "ReSolve",
    "ReceiveScalingProblem",
    "RenyiAccountant",
    "Scenario",
    "Stream",
    "__version__",
    "draw",
    "exact_epsilon",
    "leakage_table",
    "load_preset",
    "match_budget",
    "read_gains",
]
_PACKAGES = ("accounting", "audit", "channel", "comparison", "learning", "policies", "presets", "runs", "streaming")
_HOMES = {  # of names that are not in adascale.policies
    **dict.fromkeys(("ExactAccountant", "RenyiAccountant", "exact_epsilon"), "accounting"),
    **dict.fromkeys(("ChannelModel", "Rayleigh", "draw", "read_gains"), "channel"),
    **dict.fromkeys(("AdaScaleError", "InvalidInput"), "errors"),
    "ReceiveScalingProblem": "problem",
    "Scenario": "scenario",
    "Stream": "streaming",
    "leakage_table": "comparison",
    "load_preset": "presets",
    "match_budget": "tuning",
}


def __getattr__(name: str) -> Any:
    if name in (*_PACKAGES, "tuning"):
        return importlib.import_module(f"adascale.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'adascale' has no attribute {name!r}")
    module = importlib.import_module(f"adascale.{_HOMES.get(name, 'policies')}")
    return getattr(module, "load" if name == "load_preset" else name)


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES, "tuning"]
