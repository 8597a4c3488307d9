"""Every bound of the paper, and sharper ones, as functions: two sides of an inequality, or the right one's terms."""

from companion.bounds.causal import LevelValue, empty_queue_regret, level_value
from companion.bounds.certificate import CertifiedRegret, certify_regret
from companion.bounds.convergence import ConvergenceBound, convergence_bound, largest_learning_rate
from companion.bounds.correlated import correlated_regret_bound
from companion.bounds.growth import KappaLimits, growth_constant, kappa_limits, queue_from_below
from companion.bounds.guarantees import (
    QueueLimits,
    Sides,
    drift_bound,
    queue,
    queue_bound,
    queue_limits,
    regret_at_cost,
    regret_bound,
    violation_bound,
)
from companion.bounds.nearly_exact import SignalMoment, nearly_exact_bound
from companion.bounds.stationary import (
    stationary_level,
    stationary_queue_bound,
    stationary_regret_bound,
    stationary_spread,
    stationary_square,
)

__all__ = [
    "CertifiedRegret",
    "ConvergenceBound",
    "KappaLimits",
    "LevelValue",
    "QueueLimits",
    "Sides",
    "SignalMoment",
    "certify_regret",
    "convergence_bound",
    "correlated_regret_bound",
    "drift_bound",
    "empty_queue_regret",
    "growth_constant",
    "kappa_limits",
    "largest_learning_rate",
    "level_value",
    "nearly_exact_bound",
    "queue",
    "queue_bound",
    "queue_from_below",
    "queue_limits",
    "regret_at_cost",
    "regret_bound",
    "stationary_level",
    "stationary_queue_bound",
    "stationary_regret_bound",
    "stationary_spread",
    "stationary_square",
    "violation_bound",
]
