"""Adaptive receive scaling for private over-the-air federated learning.

Names are imported when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adascale import accounting, channel, comparison, policies, presets, tuning
    from adascale.problem import ReceiveScalingProblem
    from adascale.scenario import Scenario

__version__ = "0.2.0"

_PLACES = {
    "ReceiveScalingProblem": "adascale.problem",
    "Scenario": "adascale.scenario",
    **{room: f"adascale.{room}" for room in ("accounting", "channel", "comparison", "policies", "presets", "tuning")},
}

__all__ = [
    "ReceiveScalingProblem",
    "Scenario",
    "__version__",
    "accounting",
    "channel",
    "comparison",
    "policies",
    "presets",
    "tuning",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'adascale' has no attribute {name!r}")
    module = importlib.import_module(_PLACES[name])
    return module if module.__name__ == f"adascale.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
