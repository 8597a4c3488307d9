"""Every figure as a function of a tidy table; one look for the whole book."""

from adascale.paper.figures.learning import accuracy, accuracy_and_gap, learning_curves, readings
from adascale.paper.figures.markup import download_link, embedded
from adascale.paper.figures.privacy import PANELS, gap, leakage
from adascale.paper.figures.style import LABELS, NOT_IN_RDP, STYLE, policy_label, policy_style, use_style
from adascale.statistics import log_interval as log_interval  # what chapters say as figures.log_interval

__all__ = [
    "LABELS",
    "NOT_IN_RDP",
    "PANELS",
    "STYLE",
    "accuracy",
    "accuracy_and_gap",
    "download_link",
    "embedded",
    "gap",
    "leakage",
    "learning_curves",
    "policy_label",
    "policy_style",
    "readings",
    "use_style",
]
