"""Leakage above the optimum, in hindsight and without the future."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from companion.causal.fresh import HINDSIGHT
from companion.figures.style import STYLE, label_budgets, label_of, name_curves, panels
from companion.summary import promises

_OURS = ("ConstantLevel", "AdaScale, warm", "ReSolve", "Learn", "ReSolve, hard", "Learn, hard")
_PAPERS = ("AdaScale", "EqualAlloc", "EstimFuture", "PowerControl", "LyapunovPowerControl")
_TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def without_future(tables: Mapping[str, pd.DataFrame]) -> Figure:
    r"""Mean RDP leakage above that of the optimum at :math:`\nu`, in per cent: a panel a data set.

    The vertical axis is linear up to 1 % and logarithmic above.  Dotted lines are tuned in hindsight, dashed ones never
    exceed the budget.

    Parameters
    ----------
    tables : mapping
        Data sets, each with its table as :func:`companion.causal.fresh.causal_table` makes it.  Policies that it lacks
        are not drawn.
    """
    figure, axes = panels(len(tables), 4.2, squeeze=False)
    for axis, (dataset, table) in zip(axes.flat, tables.items(), strict=True):
        found = {name: group.set_index("nu") for name, group in promises(table).groupby("policy")}
        for name in (*_PAPERS, *_OURS):
            if name not in found:
                continue
            look = STYLE[name.partition(",")[0]] | {"label": label_of(name), "linewidth": 2 if name in _OURS else 1}
            if name.endswith("hard"):
                look |= {"linestyle": "--", "markerfacecolor": "white"}
            axis.plot(100 * (found[name]["rdp"] - 1), **look)
            if name + HINDSIGHT in found:
                tuned = {"color": look["color"], "linestyle": ":", "linewidth": 1.5}
                axis.plot(100 * (found[name + HINDSIGHT]["rdp"] - 1), label=f"_{name}, in hindsight", **tuned)
        # a mean over realisations that overspend may lie below the optimum's
        axis.set(xscale="log", xlabel="noise budget $\\nu$", title=_TITLES.get(dataset, dataset))
        axis.set_ylabel("mean RDP leakage above the optimum [%]")
        axis.set_yscale("symlog", linthresh=1)
        axis.set_ylim(bottom=-1)
        axis.set_yticks([0, *10.0 ** np.arange(5)])
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_locator(NullLocator())
        label_budgets(axis, table["nu"])
        name_curves(axis)
    return figure
