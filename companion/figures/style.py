"""One look for every figure: colours, markers and names of methods, words at the curves, and what the axes say.

A colour is a method.  Shades of violet are values of a parameter or bounds, and grey is context.  A figure is as wide
as a phone's screen, so that its words can be read there.
"""

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, ScalarFormatter
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from adascale import policies
from companion.figures.files import in_notebook
from companion.formatting import as_html

Look = dict[str, Any]
"""Keyword arguments of matplotlib's ``plot`` and ``errorbar``."""

WIDTH = 5.3
"""Inches: words of 10 points are 9 px high where a phone shows a figure of this width."""

# Okabe and Ito's colours, and two of Tol's: distinct to colour-blind readers; the markers differ too
STYLE: dict[str, Look] = {
    "Optimal": {"color": "#000000", "marker": "o"},
    "AdaScale": {"color": "#0072B2", "marker": "s"},
    "EqualAlloc": {"color": "#D55E00", "marker": "^"},
    "EstimFuture": {"color": "#009E73", "marker": "D"},
    "PowerControl": {"color": "#CC79A7", "marker": "v"},
    "LyapunovPowerControl": {"color": "#E69F00", "marker": "P"},
    "ConstantLevel": {"color": "#999933", "marker": "X"},
    "ReSolve": {"color": "#56B4E9", "marker": "<"},
    "Learn": {"color": "#882255", "marker": ">"},
}
"""Colour and marker of each policy; a variant, such as ``Learn, hard``, has those of its policy."""

CONTEXT: Look = {"color": "0.6", "linewidth": 1.0}
"""What is drawn only for comparison."""
NOISE_FREE: Look = {"color": "0.45", "linestyle": "--", "linewidth": 1.2}
"""The level line of a receiver without noise."""
PAPER: Look = {"color": "0.4", "linestyle": "--", "marker": "*", "markersize": 8}
"""What the paper states: a value, or a bound."""
_VIOLET = LinearSegmentedColormap.from_list("violet", ["#8E66D0", "#5E2FB0", "#1A0B4B"])

LABELS = {
    policy.__name__: policy.label or policy.__name__
    for policy in (getattr(policies, name) for name in policies.__all__)
    if isinstance(policy, type) and issubclass(policy, policies.Policy)
}
"""What a figure calls the package's policies; others, what a leakage table carries."""

NOT_IN_RDP = ("PowerControl", "LyapunovPowerControl")
"""The policies that the paper leaves out of its RDP panel."""

SPARE: list[Look] = [
    {"color": color, "marker": marker}
    for color, marker in zip(
        ["#AA4499", "#332288", "#DDCC77", "#44AA99", "#661100"], "hHp*d", strict=True
    )
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
            "figure.figsize": (WIDTH, 3.2),
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10,
            "legend.frameon": False,
            "lines.markersize": 5,
            "svg.hashsalt": "adascale",
        }
    )


def policy_style(policy: str, among: Iterable[str] = ()) -> Look:
    """Colour and marker of ``policy``; one that the book does not know takes its own spare ``among`` those drawn."""
    strangers = [
        name for name in dict.fromkeys(among) if name.partition(",")[0] not in STYLE
    ]
    base = policy.partition(",")[0]
    return STYLE[base] if base in STYLE else SPARE[strangers.index(policy) % len(SPARE)]


def shades(number: int) -> list[Look]:
    """Looks for up to six values of a parameter in their order, from light to dark."""
    colors = [to_hex(_VIOLET(place)) for place in np.linspace(0, 1, number)]
    return [
        {"color": color, "marker": marker}
        for color, marker in zip(colors, "o^sDvP", strict=False)
    ]


def panels(
    rows: int, height: float = 2.3, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """Panels under each other, of one width."""
    return plt.subplots(rows, 1, figsize=(WIDTH, rows * height + 0.3), **options)


def bars(axis: Axes, found: pd.DataFrame, look: Look) -> None:
    """Draw means with their intervals (:func:`~companion.summary.intervals`); no intervals where one is infinite."""
    centre, low, high = found.to_numpy().T
    apart = [centre - low, high - centre] if np.isfinite(low).all() else None
    capped: Look = {"capsize": 3} | look
    axis.errorbar(found.index, centre, yerr=apart, **capped)


def say(finding: str) -> None:
    """Write the finding over the current figure."""
    title = {
        "x": 0.01,
        "ha": "left",
        "fontsize": 11,
        "fontweight": "bold",
        "linespacing": 1.25,
    }
    lines = -(-len(finding) // 54)
    plt.gcf().suptitle(
        fill(finding, min(54, len(finding) // lines + 6), break_on_hyphens=False),
        **title,
    )


def name_curves(
    *axes: Axes, width: int = 16, names: Mapping[str, str] | None = None
) -> None:
    """Write the name of each curve at its right end, in its colour; names that would touch are moved apart.

    Call it last, as the places depend on the limits of the axes.  A line has ``width`` letters; ``names`` has other
    words for some labels, and an empty one leaves the name out.
    """
    figure: Any = axes[0].figure
    if not figure.get_suptitle():
        figure.suptitle("\n", fontsize=11)  # the room of a finding
    for axis in axes:
        figure.set_layout_engine("constrained")
        figure.get_layout_engine().execute(figure)  # this gives the axes their height
        row = 1.2 * plt.rcParams["font.size"] * figure.dpi / 72 / axis.bbox.height
        ends = []
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            line: Any = handle[0] if isinstance(handle, tuple) else handle
            name = (names or {}).get(label, label)
            text = name if "$" in name else fill(name, width)
            if text:
                ends.append((_right_end(axis, line), text, line.get_color()))
        ends.sort(key=lambda end: end[0])
        heights = np.array([row * (1 + text.count("\n")) for _, text, _ in ends])
        places = _moved_apart(np.array([height for height, _, _ in ends]), heights)
        for place, (_, text, color) in zip(places, ends, strict=True):
            dark = tuple(0.75 * part for part in to_rgb(color))
            where: Look = {"transform": axis.transAxes, "va": "center"}
            axis.text(1.02, place, text, color=dark, linespacing=1, **where)


def _right_end(axis, line):
    """Return the height of a curve's last point, as a share of the axes."""
    data = np.column_stack(line.get_data()).astype(float)
    points = axis.transData.transform(data)
    points = points[np.isfinite(points).all(axis=1)]
    end = points[points[:, 0].argmax(), 1] if len(points) else 0.0
    return float(axis.transAxes.inverted().transform((0, end))[1])


def _moved_apart(middles, heights):
    """Middles of boxes in rising order that touch none, near given middles, within 0 and 1."""
    stacked = np.cumsum(heights) - heights / 2
    rising = isotonic_regression(middles - stacked).x
    return stacked + np.clip(rising, 0, max(1 - heights.sum(), 0))


def label_of(method: str) -> str:
    """Return a method's name for people, such as "Liu & Simeone, r = 0.99" for ``PowerControl, r = 0.99``."""
    policy, comma, variant = method.partition(",")
    return LABELS.get(policy, policy) + comma + variant


def label_budgets(axis: Axes, nu: Iterable[float]) -> None:
    """Take the budgets as the ticks of the horizontal axis."""
    axis.set_xticks(sorted(set(nu)))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())


def label_levels(axis: Axes) -> None:
    """Plain numbers on a logarithmic axis of few decades; powers of ten would be sparse there."""
    low, high = axis.get_ylim()
    if high / low < 300:
        axis.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if high / low > 4 else (1, 1.2, 1.5, 2, 3, 5))
        )
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
