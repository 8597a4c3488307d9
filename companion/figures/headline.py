"""The first page's figure: what each method leaks over what the optimum does."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from adascale.statistics import log_interval
from companion.causal.fresh import HINDSIGHT
from companion.figures.style import (
    STYLE,
    WIDTH,
    label_budgets,
    name_curves,
    policy_style,
    say,
)
from companion.summary import intervals

LEARNING = "Learn, hard"
"""The policy that knows nothing but the number of rounds and the noise budget, which it never exceeds."""


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    r"""Return exact epsilon over the optimum's on the same realisation: geometric means with 95 % intervals.

    ``table`` is of :func:`~companion.leakage.exact.exact_table`.  A row per policy and :math:`\nu`, its index;
    columns ``centre, low, high``.
    """
    wide = table.pivot(index=["nu", "seed"], columns="policy", values="exact")
    ratio = wide.drop(columns="Optimal").div(wide["Optimal"], axis=0).stack()
    found = intervals(ratio.groupby(level=["policy", "nu"]), log_interval)
    return found.rename_axis(["policy", "nu"])


def headline(ratios: pd.DataFrame) -> Figure:
    r"""Draw the :func:`ratios` of three methods against :math:`\nu`: :data:`LEARNING`, AdaScale and an even split."""
    figure, axis = plt.subplots(figsize=(WIDTH, 4.0))
    axis.axhline(
        1,
        label="optimum, knows the future",
        color=STYLE["Optimal"]["color"],
        linewidth=1,
    )
    lines = {
        "EqualAlloc": "even split",
        "AdaScale" + HINDSIGHT: "AdaScale, tuned in hindsight",
        LEARNING: "Learn, does not know the future",
    }
    for name, label in lines.items():
        rows = ratios.loc[name]
        look = policy_style(name)
        color = look["color"]
        axis.fill_between(
            rows.index, rows["low"], rows["high"], color=color, alpha=0.2, linewidth=0
        )
        width = 3 if name == LEARNING else 1.5
        axis.plot(rows["centre"], label=label, linewidth=width, **look)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="noise budget $\\nu$: accurate, leaky ← → noisy, private",
        ylim=(0.95, 2.5),
        ylabel="exact $\\varepsilon$, as a multiple of the optimum's",
    )
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_yticks([1, 1.5, 2], ["1", "1.5", "2"])
    label_budgets(axis, ratios.index.get_level_values("nu"))
    say("Not knowing the future costs Learn little; an even split costs you far more")
    name_curves(axis)
    return figure
