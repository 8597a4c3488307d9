"""Leakage above the optimum, in hindsight and without the future."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from companion.causal.fresh import HINDSIGHT
from companion.figures.style import LABELS, STYLE, label_budgets
from companion.summary import promises

_OURS: dict[str, dict[str, Any]] = {
    "AdaScale, warm": STYLE["AdaScale"] | {"label": "AdaScale, warm start", "marker": "*", "markersize": 8},
    "ConstantLevel": {"label": "constant level", "color": "#000000", "marker": "X"},
    "ReSolve": {"label": "re-solving", "color": "#56B4E9", "marker": "<"},
    "Learn": {"label": "learning", "color": "#882255", "marker": ">"},
    "ReSolve, hard": {"label": "re-solving, hard", "color": "#56B4E9", "marker": "<"},
    "Learn, hard": {"label": "learning, hard", "color": "#882255", "marker": ">"},
}
_PAPERS = ("AdaScale", "EqualAlloc", "EstimFuture", "PowerControl", "LyapunovPowerControl")
_TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def without_future(tables: Mapping[str, pd.DataFrame], metric: str = "rdp") -> Figure:
    r"""Mean leakage above that of the optimum at :math:`\nu`, in per cent: a row a data set, a column a protocol.

    The vertical axis is linear up to 1 % and logarithmic above.

    Parameters
    ----------
    tables : mapping
        Data sets, each with its table as :func:`companion.causal.fresh.causal_table` makes it.  Policies that it lacks
        are not drawn.
    metric : {"rdp", "epsilon"}
        RDP or DP leakage.
    """
    if metric not in ("rdp", "epsilon"):
        raise ValueError(f"metric must be 'rdp' or 'epsilon', got {metric!r}")
    figure, axes = plt.subplots(len(tables), 2, figsize=(9.5, 0.9 + 3.3 * len(tables)), sharey="row", squeeze=False)
    handles: dict[str, Any] = {}
    for row, (dataset, table) in zip(axes, tables.items(), strict=True):
        found = {name: group.set_index("nu") for name, group in promises(table).groupby("policy")}
        for axis, tuned in zip(row, (True, False), strict=True):
            drawn = {name: STYLE[name] | {"label": LABELS[name], "linewidth": 1} for name in _PAPERS}
            for name, look in (drawn if tuned else drawn | _OURS).items():
                key = name + HINDSIGHT if tuned and name + HINDSIGHT in found else name
                if key not in found:
                    continue
                style = look | ({"linestyle": "--", "markerfacecolor": "white"} if name.endswith("hard") else {})
                (handles[style["label"]],) = axis.plot(100 * (found[key][metric] - 1), **style)
            title = "tuned in hindsight" if tuned else "without the future"
            title = f"{_TITLES.get(dataset, dataset)}, {title}"
            axis.set(xscale="log", xlabel="noise budget $\\nu$", title=title)
            # a mean over realisations that overspend may lie below the optimum's
            axis.set_yscale("symlog", linthresh=1)
            axis.set_yticks([0, *10.0 ** np.arange(5)])
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.yaxis.set_minor_locator(NullLocator())
            label_budgets(axis, table["nu"])
        row[0].set_ylabel(f"{'RDP' if metric == 'rdp' else 'DP'} leakage above the optimum [%]")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure
