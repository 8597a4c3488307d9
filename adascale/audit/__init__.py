"""Privacy audits: canaries in real trainings, and lower bounds on epsilon."""

from adascale.audit.bounds import (
    Counts,
    clopper_pearson,
    one_run_bound,
    one_run_tail,
    rates_bound,
    scaled_bound,
)
from adascale.audit.canaries import GradientCanaries
from adascale.audit.conclusions import Audit, Plan, log_likelihood_ratio, plan
from adascale.audit.training import Observed, audit_gradients, observe

__all__ = [
    "Audit",
    "Counts",
    "GradientCanaries",
    "Observed",
    "Plan",
    "audit_gradients",
    "clopper_pearson",
    "log_likelihood_ratio",
    "observe",
    "one_run_bound",
    "one_run_tail",
    "plan",
    "rates_bound",
    "scaled_bound",
]
