"""Leakage above the optimum, in hindsight and without the future."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from companion.causal.fresh import HINDSIGHT
from companion.figures.style import label_of, panels, policy_style
from companion.summary import promises

_GROUPS = {
    "know the distribution": (
        "ConstantLevel",
        "AdaScale, warm",
        "ReSolve",
        "ReSolve, hard",
    ),
    "know only $T$ and $\\nu$": ("Learn", "Learn, hard"),
    "the paper's methods": (
        "AdaScale",
        "EstimFuture",
        "EqualAlloc",
        "PowerControl",
        "LyapunovPowerControl",
    ),
}
_TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
_LEAST = 0.1
"""Per cent above the optimum: what is less is drawn there."""


def without_future(tables: Mapping[str, pd.DataFrame]) -> Figure:
    r"""Draw the mean RDP leakage above the optimum at :math:`\nu`, in per cent: a panel per data set, a row per policy.

    A row goes from its value at the smallest :math:`\nu` (filled) to that at the largest (hollow).  One below 0.1 %,
    which overspending can make negative, is drawn there.  ``tables`` are of
    :func:`~companion.causal.fresh.causal_table`; policies that they lack are not drawn.
    """
    figure, axes = panels(len(tables), 4.0, sharex=True, squeeze=False)
    for axis, (dataset, table) in zip(axes.flat, tables.items(), strict=True):
        excess = 100 * (
            promises(table).pivot(index="policy", columns="nu", values="rdp") - 1
        )
        names = []
        for group, policies in _GROUPS.items():
            drawn_names = [
                variant
                for name in policies
                for variant in (name, name + HINDSIGHT)
                if variant in excess.index
            ]
            if drawn_names:
                axis.text(
                    0.99,
                    len(names),
                    group,
                    transform=axis.get_yaxis_transform(),
                    ha="right",
                    va="center",
                    color="0.4",
                )
                axis.axhline(len(names) - 0.5, color="0.8", linewidth=0.8)
            names += drawn_names
        for row, name in enumerate(names):
            values = excess.loc[name].clip(lower=_LEAST)
            look = policy_style(name)
            rows = np.full(len(values), row)
            axis.plot(values, rows, label=label_of(name), markersize=3, **look)
            large = look | {"markersize": 7}
            axis.plot(values.iloc[0], row, label=f"_{name}, smallest", **large)
            large = large | {"markerfacecolor": "white"}
            axis.plot(values.iloc[-1], row, label=f"_{name}, largest", **large)
        axis.set_yticks(range(len(names)), [label_of(name) for name in names])
        for text, name in zip(axis.get_yticklabels(), names, strict=True):
            text.set_color(
                tuple(0.75 * part for part in to_rgb(policy_style(name)["color"]))
            )
        axis.set(
            xscale="log",
            title=_TITLES.get(dataset, dataset),
            ylim=(len(names) - 0.5, -0.5),
        )
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)
    axes[-1, 0].xaxis.set_major_formatter(
        lambda value, _: f"≤ {_LEAST:g}" if value <= _LEAST else f"{value:g}"
    )
    axes[-1, 0].set_xlabel(
        "mean RDP leakage above the optimum [%]\nfrom the smallest $\\nu$ (filled) to the largest (hollow)"
    )
    return figure
