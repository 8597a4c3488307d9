"""Every figure as a function of a tidy table; one look for the whole book."""

# what chapters say as figures.log_interval
from adascale.statistics import (
    log_interval as log_interval,
)
from companion.figures.benchmarks import planned_levels as planned_levels
from companion.figures.benchmarks import rising_aim as rising_aim
from companion.figures.causal import without_future as without_future
from companion.figures.data import described as described
from companion.figures.data import drawn_data as drawn_data
from companion.figures.guarantees import Bounded as Bounded
from companion.figures.guarantees import against_penalty as against_penalty
from companion.figures.guarantees import queue_limits as queue_limits
from companion.figures.guarantees import scaling as scaling
from companion.figures.guarantees import two_futures as two_futures
from companion.figures.learning import accuracy as accuracy
from companion.figures.learning import accuracy_ends as accuracy_ends
from companion.figures.learning import learning_curves as learning_curves
from companion.figures.markup import download_link as download_link
from companion.figures.privacy import gap as gap
from companion.figures.privacy import paper_panel as paper_panel
from companion.figures.privacy import realisations as realisations
from companion.figures.style import CONTEXT as CONTEXT
from companion.figures.style import LABELS as LABELS
from companion.figures.style import NOT_IN_RDP as NOT_IN_RDP
from companion.figures.style import PAPER as PAPER
from companion.figures.style import STYLE as STYLE
from companion.figures.style import WIDTH as WIDTH
from companion.figures.style import label_of as label_of
from companion.figures.style import name_curves as name_curves
from companion.figures.style import panels as panels
from companion.figures.style import policy_style as policy_style
from companion.figures.style import say as say
from companion.figures.style import shades as shades
from companion.figures.style import use_style as use_style
from companion.figures.system import one_round as one_round
