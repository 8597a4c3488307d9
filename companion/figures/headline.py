"""The first page's figure: what each method leaks over what the optimum does."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from adascale.statistics import log_interval
from companion.causal.fresh import HINDSIGHT
from companion.figures.style import LABELS, STYLE, label_budgets

LEARNING = "Learn, hard"
"""The policy that knows nothing but the number of rounds and the noise budget, which it never exceeds."""


def ratios(table: pd.DataFrame, metric: str = "exact") -> pd.DataFrame:
    r"""Leakage over that of the optimum on the same realisation: geometric means with 95 % intervals.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns ``policy, nu, seed`` and the metric, one row a realisation, as
        :func:`companion.leakage.exact.exact_table` makes it.
    metric : str
        The column that is compared.

    Returns
    -------
    pandas.DataFrame
        One row a policy and :math:`\nu`, in an index of these; columns ``centre, low, high``.
    """
    wide = table.pivot(index=["nu", "seed"], columns="policy", values=metric)
    long = wide.div(wide["Optimal"], axis=0).drop(columns="Optimal").stack().rename("ratio")
    rows = {key: log_interval(part) for key, part in long.groupby(level=["policy", "nu"])}
    found = pd.DataFrame(
        [(each.centre, each.low, each.high) for each in rows.values()], columns=["centre", "low", "high"]
    )
    return found.set_axis(pd.MultiIndex.from_tuples(rows, names=["policy", "nu"]))


def headline(found: pd.DataFrame) -> Figure:
    r"""The ratios of :func:`ratios` against :math:`\nu`, each line with its name beside it.

    The paper's methods are tuned in hindsight where they have a parameter; :data:`LEARNING` sees no future.

    Parameters
    ----------
    found : pandas.DataFrame
        What :func:`ratios` returns.
    """
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    axis.axhline(1, color=STYLE["Optimal"]["color"], linewidth=1.2)
    last = found.index.get_level_values("nu").max()
    looks = {
        name: STYLE[name] | {"label": LABELS[name], "linewidth": 1.2}
        for name in ("LyapunovPowerControl", "EqualAlloc", "EstimFuture", "PowerControl", "AdaScale")
    }
    looks[LEARNING] = {"color": "#882255", "marker": ">", "linewidth": 2.6, "label": "learning, without the future"}
    for name, look in looks.items():
        tuned = name + HINDSIGHT in found.index
        rows = found.loc[name + HINDSIGHT if tuned else name]
        axis.plot(rows["centre"], **look | ({"label": f"{look['label']}, in hindsight"} if tuned else {}))
        axis.fill_between(rows.index, rows["low"], rows["high"], color=look["color"], alpha=0.2, linewidth=0)
    axis.set(xscale="log", yscale="log", xlabel="noise budget $\\nu$: accurate and leaky ← → private and noisy")
    axis.set_ylabel("exact $\\varepsilon$ over the optimum's")
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_yticks([1, 1.5, 2, 3, 4], ["1", "1.5", "2", "3", "4"])
    label_budgets(axis, found.index.get_level_values("nu"))
    axis.legend(loc="upper left", ncols=2)
    axis.annotate(
        "the optimum, which knows every channel to come",
        (last, 1),
        (0, -9),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9,
    )
    axis.set_ylim(0.88, 5.2)
    return figure
