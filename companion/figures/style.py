"""One look for every figure: colours, markers, names in a legend, and what the axes say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, ScalarFormatter

from adascale import policies
from companion.figures.files import in_notebook
from companion.formatting import as_html

Look = dict[str, Any]
"""Keyword arguments of matplotlib's ``plot`` and ``errorbar``."""

# Okabe and Ito's colours: distinct to colour-blind readers; the markers differ too
STYLE: dict[str, Look] = {
    "Optimal": {"color": "#000000", "marker": "o"},
    "AdaScale": {"color": "#0072B2", "marker": "s"},
    "EqualAlloc": {"color": "#D55E00", "marker": "^"},
    "EstimFuture": {"color": "#009E73", "marker": "D"},
    "PowerControl": {"color": "#CC79A7", "marker": "v"},
    "LyapunovPowerControl": {"color": "#E69F00", "marker": "P"},
}
"""Colour and marker of each policy."""

NOISE_FREE: Look = {"color": "0.45", "linestyle": "--", "linewidth": 1.2}
"""The level line of a receiver without noise."""

LABELS = {
    each.__name__: each.label or each.__name__
    for each in (getattr(policies, name) for name in policies.__all__)
    if isinstance(each, type) and issubclass(each, policies.Policy)
}
"""What a legend says of the package's policies; of others, what a leakage table carries."""

NOT_IN_RDP = ("PowerControl", "LyapunovPowerControl")
"""The policies that the paper leaves out of its RDP panel."""

SPARE: list[Look] = [
    {"color": color, "marker": marker}
    for color, marker in zip(["#56B4E9", "#F0E442", "#999999", "#332288", "#882255"], "X*<>h", strict=True)
]
"""For policies that the book does not know."""


def use_style() -> None:
    """Set the look of figures and tables, and what a notebook stores of them; call it once at the top of a notebook."""
    from IPython import get_ipython

    if shell := get_ipython():
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, as_html)
    # on the class: what is registered with IPython for figures goes when matplotlib's backend sets itself up
    Figure._repr_mimebundle_ = in_notebook  # type: ignore[attr-defined]
    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.figsize": (7.0, 3.6),
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "lines.markersize": 5,
            "svg.hashsalt": "adascale",
        }
    )


def policy_style(policy: str, among: Iterable[str]) -> Look:
    """Colour and marker of ``policy``; one that the book does not know takes its own spare ``among`` those drawn."""
    strangers = [name for name in dict.fromkeys(among) if name not in STYLE]
    return STYLE[policy] if policy in STYLE else SPARE[strangers.index(policy) % len(SPARE)]


def label_of(method: str) -> str:
    """A method's name for people, such as "Liu & Simeone, r = 0.99" for the column ``PowerControl, r = 0.99``.

    Parameters
    ----------
    method : str
        The name of a policy, and after a comma what is different.  One that :data:`LABELS` lacks stays as it is.
    """
    policy, comma, rest = method.partition(",")
    return LABELS.get(policy, policy) + comma + rest


def policy_label(policy: str, rows: pd.DataFrame, labels: Mapping[str, str] | None = None) -> str:
    r"""The policy's name for a legend, with what must be said of its cost: leakages compare at equal cost only.

    ``rows`` are the policy's rows of a leakage table.  A budget counts as unreached where the cost is NaN, and the cost
    as another one where it is off by more than 1e-6 of :math:`\nu`.  ``labels`` are the table's ``attrs["labels"]``; a
    policy that is not among them is called as in :data:`LABELS`.
    """
    label = (labels or {}).get(policy) or label_of(policy)
    unreached = int(rows["cost"].isna().sum())
    if unreached:
        label += f" ({unreached} of {len(rows)} cannot reach $\\nu$)"
    if (abs(rows["cost"] / rows["nu"] - 1) > 1e-6).any():
        label += " (cost is not $\\nu$)"
    return label


def label_budgets(axis: Axes, nu: Iterable[float]) -> None:
    """The budgets themselves as the ticks of the horizontal axis."""
    axis.set_xticks(sorted(set(nu)))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())


def label_levels(axis: Axes) -> None:
    """Plain numbers on a logarithmic axis of few decades; powers of ten would be sparse there."""
    low, high = axis.get_ylim()
    if high / low < 300:
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low > 4 else (1, 1.2, 1.5, 2, 3, 5)))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
