"""The first page's figure: what each method leaks over what the optimum does."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from adascale.statistics import log_interval
from companion.causal.fresh import HINDSIGHT
from companion.figures.style import (
    CONTEXT,
    LABELS,
    STYLE,
    WIDTH,
    Look,
    label_budgets,
    name_curves,
    say,
)

LEARNING = "Learn, hard"
"""The policy that knows nothing but the number of rounds and the noise budget, which it never exceeds."""


_GREY = {
    "LyapunovPowerControl": (3, (-8, 6), "right"),
    "EqualAlloc": (0, (-4, 8), "left"),
    "EstimFuture": (0, (8, 4), "left"),
    "PowerControl": (2, (-2, -16), "right"),
}
"""Where the name of a benchmark stands: at which budget, and how far from it."""


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    r"""Return exact epsilon over the optimum's on the same realisation: geometric means with 95 % intervals.

    ``table`` is of :func:`~companion.leakage.exact.exact_table`.  A row a policy and :math:`\nu`, in an index of these;
    columns ``centre, low, high``.
    """
    wide = table.pivot(index=["nu", "seed"], columns="policy", values="exact")
    long = (
        wide.div(wide["Optimal"], axis=0)
        .drop(columns="Optimal")
        .stack()
        .rename("ratio")
    )
    rows = {
        key: log_interval(part) for key, part in long.groupby(level=["policy", "nu"])
    }
    return pd.DataFrame(rows, ["centre", "low", "high"]).T.rename_axis(["policy", "nu"])


def headline(found: pd.DataFrame) -> Figure:
    r"""Draw the :func:`ratios` against :math:`\nu`; what others do is grey.

    The paper's methods are tuned in hindsight where they have a parameter; :data:`LEARNING` sees no future.
    """
    figure, axis = plt.subplots(figsize=(WIDTH, 4.0))
    axis.axhline(
        1,
        label="optimum, knows the future",
        color=STYLE["Optimal"]["color"],
        linewidth=1,
    )
    for name, (place, aside, side) in _GREY.items():
        rows = found.loc[name + HINDSIGHT if name + HINDSIGHT in found.index else name][
            "centre"
        ]
        axis.plot(
            rows, marker=STYLE[name]["marker"], label=f"_{LABELS[name]}", **CONTEXT
        )
        words: Look = {
            "xytext": aside,
            "textcoords": "offset points",
            "ha": side,
            "color": "0.4",
        }
        title = f"even split ({LABELS[name]})" if name == "EqualAlloc" else LABELS[name]
        axis.annotate(title, (rows.index[place], rows.iloc[place]), **words)
    axis.plot(
        found.loc["AdaScale" + HINDSIGHT]["centre"],
        label="AdaScale, tuned in hindsight",
        **STYLE["AdaScale"],
    )
    learned = found.loc[LEARNING]
    look = STYLE["Learn"]
    axis.fill_between(
        learned.index,
        learned["low"],
        learned["high"],
        color=look["color"],
        alpha=0.2,
        linewidth=0,
    )
    axis.plot(
        learned["centre"], label="Learn, does not know the future", linewidth=3, **look
    )
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="noise budget $\\nu$: accurate, leaky ← → noisy, private",
    )
    axis.set(
        ylim=(0.95, 3.8), ylabel="exact $\\varepsilon$, as a multiple of the optimum's"
    )
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_yticks([1, 1.5, 2, 3], ["1", "1.5", "2", "3"])
    label_budgets(axis, found.index.get_level_values("nu"))
    say("Not knowing the future costs Learn little; an even split costs you far more")
    name_curves(axis)
    return figure
