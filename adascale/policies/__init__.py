"""Policies that choose the receive scaling."""

from adascale.policies.adascale import AdaScale, adascale_energies
from adascale.policies.base import OnlinePolicy, Policy
from adascale.policies.constant_level import ConstantLevel
from adascale.policies.dynamic_programme import DynamicProgramme
from adascale.policies.equal_alloc import EqualAlloc
from adascale.policies.estim_future import EstimFuture, estimated_min_gain
from adascale.policies.joint import Joint
from adascale.policies.learn import Learn
from adascale.policies.lyapunov_power_control import LyapunovPowerControl
from adascale.policies.optimal import Optimal, water_level
from adascale.policies.power_control import PowerControl
from adascale.policies.privacy_budget import PrivacyBudget
from adascale.policies.resolve import BUDGET_MODES, ReSolve, seen_coherence
from adascale.policies.selection import Best, Selecting, Selection, Truncated

__all__ = [
    "BUDGET_MODES",
    "AdaScale",
    "Best",
    "ConstantLevel",
    "DynamicProgramme",
    "EqualAlloc",
    "EstimFuture",
    "Joint",
    "Learn",
    "LyapunovPowerControl",
    "OnlinePolicy",
    "Optimal",
    "Policy",
    "PowerControl",
    "PrivacyBudget",
    "ReSolve",
    "Selecting",
    "Selection",
    "Truncated",
    "adascale_energies",
    "estimated_min_gain",
    "seen_coherence",
    "water_level",
]
