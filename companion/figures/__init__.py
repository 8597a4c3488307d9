"""Every figure as a function of a tidy table; one look for the whole book."""

from adascale.statistics import log_interval as log_interval  # what chapters say as figures.log_interval
from companion.figures.benchmarks import planned_levels, rising_aim
from companion.figures.causal import without_future
from companion.figures.data import check_sum, described, drawn_data
from companion.figures.guarantees import Bounded, against_penalty, queue_limits, scaling, two_futures
from companion.figures.learning import accuracy, accuracy_ends, learning_curves
from companion.figures.markup import download_link, embedded
from companion.figures.privacy import PANELS, gap, leakage, paper_panel
from companion.figures.style import (
    CONTEXT,
    LABELS,
    NOT_IN_RDP,
    PAPER,
    STYLE,
    WIDTH,
    label_of,
    name_curves,
    panels,
    policy_label,
    policy_style,
    say,
    shades,
    use_style,
)
from companion.figures.system import one_round

__all__ = [
    "CONTEXT",
    "LABELS",
    "NOT_IN_RDP",
    "PANELS",
    "PAPER",
    "STYLE",
    "WIDTH",
    "Bounded",
    "accuracy",
    "accuracy_ends",
    "against_penalty",
    "check_sum",
    "described",
    "download_link",
    "drawn_data",
    "embedded",
    "gap",
    "label_of",
    "leakage",
    "learning_curves",
    "name_curves",
    "one_round",
    "panels",
    "paper_panel",
    "planned_levels",
    "policy_label",
    "policy_style",
    "queue_limits",
    "rising_aim",
    "say",
    "scaling",
    "shades",
    "two_futures",
    "use_style",
    "without_future",
]
