"""Every bound of the paper as a function that returns its two sides, or the terms of its right side."""

from adascale.bounds.convergence import ConvergenceBound, convergence_bound, largest_learning_rate
from adascale.bounds.guarantees import (
    QueueLimits,
    Sides,
    drift_bound,
    queue,
    queue_bound,
    queue_limits,
    regret_bound,
    violation_bound,
)
from adascale.bounds.stationary import stationary_level, stationary_regret_bound

__all__ = [
    "ConvergenceBound",
    "QueueLimits",
    "Sides",
    "convergence_bound",
    "drift_bound",
    "largest_learning_rate",
    "queue",
    "queue_bound",
    "queue_limits",
    "regret_bound",
    "stationary_level",
    "stationary_regret_bound",
    "violation_bound",
]
