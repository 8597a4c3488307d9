"""Adaptive receive scaling for private over-the-air federated learning, imported lazily."""

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
    from adascale.problem import Problem
    from adascale.scenario import Scenario
    from adascale.streaming import Stream
    from adascale.tuning import match_budget

__version__ = "0.3.0"

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
    "Problem",
    "Rayleigh",
    "ReSolve",
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
_HOMES = (
    "errors",
    "scenario",
    "channel",
    "accounting",
    "problem",
    "policies",
    "tuning",
    "streaming",
    "comparison",
)
_MODULES = (*_HOMES, "audit", "learning", "presets", "runs")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"adascale.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'adascale' has no attribute {name!r}")
    if name == "load_preset":
        return importlib.import_module("adascale.presets").load
    # the lowest layer first
    modules = (importlib.import_module(f"adascale.{home}") for home in _HOMES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
