"""Every bound of the paper, and sharper ones, as functions: two sides of an inequality, or the right one's terms."""

from companion.bounds.causal import LevelValue as LevelValue
from companion.bounds.causal import empty_queue_regret as empty_queue_regret
from companion.bounds.causal import level_value as level_value
from companion.bounds.certificate import CertifiedRegret as CertifiedRegret
from companion.bounds.certificate import certify_regret as certify_regret
from companion.bounds.convergence import Constants as Constants
from companion.bounds.convergence import ConvergenceBound as ConvergenceBound
from companion.bounds.convergence import SignalMoment as SignalMoment
from companion.bounds.convergence import convergence_bound as convergence_bound
from companion.bounds.convergence import largest_learning_rate as largest_learning_rate
from companion.bounds.convergence import nearly_exact_bound as nearly_exact_bound
from companion.bounds.guarantees import KappaLimits as KappaLimits
from companion.bounds.guarantees import QueueLimits as QueueLimits
from companion.bounds.guarantees import Sides as Sides
from companion.bounds.guarantees import growth_constant as growth_constant
from companion.bounds.guarantees import kappa_limits as kappa_limits
from companion.bounds.guarantees import queue as queue
from companion.bounds.guarantees import queue_bound as queue_bound
from companion.bounds.guarantees import queue_from_below as queue_from_below
from companion.bounds.guarantees import queue_limits as queue_limits
from companion.bounds.guarantees import regret_at_cost as regret_at_cost
from companion.bounds.guarantees import regret_bound as regret_bound
from companion.bounds.guarantees import violation_bound as violation_bound
from companion.bounds.stationary import (
    correlated_regret_bound as correlated_regret_bound,
)
from companion.bounds.stationary import stationary_level as stationary_level
from companion.bounds.stationary import stationary_queue_bound as stationary_queue_bound
from companion.bounds.stationary import (
    stationary_regret_bound as stationary_regret_bound,
)
from companion.bounds.stationary import stationary_spread as stationary_spread
from companion.bounds.stationary import stationary_square as stationary_square
