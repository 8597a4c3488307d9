"""Privacy accounting of the sampled Gaussian mechanism: Rényi and exact."""

from adascale.accounting.accountants import (
    Accountant,
    ExactAccountant,
    RenyiAccountant,
    epsilon_by,
    exact_delta,
    exact_epsilon,
    find,
)
from adascale.accounting.batches import fixed_batches, truncated_batches
from adascale.accounting.calibration import (
    Calibrated,
    LargestCount,
    calibrate,
    largest_count,
)
from adascale.accounting.curve import beta, gaussian_mu
from adascale.accounting.events import read_events
from adascale.accounting.exact.certify import advantage, delta, epsilon
from adascale.accounting.interval import CertifiedInterval
from adascale.accounting.losses import DiscreteLoss, from_pmf
from adascale.accounting.renyi import (
    DEFAULT_ORDERS,
    DpGuarantee,
    OrdersTooFew,
    best_of_trials,
    compose,
    rdp,
    rdp_derivative,
    to_dp,
)
from adascale.accounting.reports import Report, report, setting
from adascale.accounting.schedules import order_grid, schedule_epsilon

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "Calibrated",
    "CertifiedInterval",
    "DiscreteLoss",
    "DpGuarantee",
    "ExactAccountant",
    "LargestCount",
    "OrdersTooFew",
    "RenyiAccountant",
    "Report",
    "advantage",
    "best_of_trials",
    "beta",
    "calibrate",
    "compose",
    "delta",
    "epsilon",
    "epsilon_by",
    "exact_delta",
    "exact_epsilon",
    "find",
    "fixed_batches",
    "from_pmf",
    "gaussian_mu",
    "largest_count",
    "order_grid",
    "rdp",
    "rdp_derivative",
    "read_events",
    "report",
    "schedule_epsilon",
    "setting",
    "to_dp",
    "truncated_batches",
]
