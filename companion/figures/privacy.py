"""Leakage against the convergence level: the paper's Figures 1 and 2, and what a policy leaks over another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adascale.statistics import log_interval
from companion.figures.style import (
    NOT_IN_RDP,
    PAPER,
    STYLE,
    Look,
    label_budgets,
    label_levels,
    label_of,
    name_curves,
    panels,
    policy_label,
    policy_style,
)

PANELS = {
    "rdp": "RDP leakage at order {order:g} [nats]",
    "epsilon": "DP leakage $\\varepsilon$ at $\\delta$ = {delta}",
}
"""What is drawn of a leakage table, and what its axis says."""


def leakage(table: pd.DataFrame, *, points: bool = True, mean: str = "geometric") -> Figure:
    r"""The paper's Figures 1 and 2: RDP and DP leakage against :math:`\nu`, one line a policy.

    Parameters
    ----------
    table : pandas.DataFrame
        Tidy, as :func:`adascale.comparison.leakage_table` makes it: columns ``dataset, policy, nu, seed, cost, order,
        delta, rdp, epsilon``, one row a realisation.  Rows that could not reach :math:`\nu` are not drawn; the legend
        counts them.
    points : bool
        Draw every realisation as a point (for a handful of them).
    mean : {"geometric", "arithmetic"}
        The line: the geometric mean with its 95 % t interval on the logarithm as a bar, or the plain mean, without a
        bar: the leakage is too heavy-tailed for one.
    """
    figure, axes = panels(len(PANELS), 3.1, sharex=True)
    labels = table.attrs.get("labels", {})
    drawn = list(table["policy"].unique())
    for axis, (column, label) in zip(axes, PANELS.items(), strict=True):
        for policy, rows in table.groupby("policy", sort=False):
            if column == "rdp" and policy in NOT_IN_RDP:
                continue
            style, name = policy_style(policy, drawn), policy_label(policy, rows, labels)
            rows = rows.dropna(subset=["cost"])
            groups = rows.groupby("nu")[column]
            nu = np.array(sorted(groups.groups))
            apart = _apart(drawn.index(policy), len(drawn)) if mean == "geometric" else 1.0
            if mean == "geometric":
                centre, low, high = np.array([log_interval(groups.get_group(value)) for value in nu]).T
                axis.vlines(nu * apart, low, high, color=style["color"], linewidth=1.2)
            else:
                centre = groups.mean().loc[nu].to_numpy()
            axis.plot(nu * apart, centre, label=name, linewidth=1, **style)
            if points:
                spots = style | {"markersize": 3, "markerfacecolor": "white", "label": f"_{policy}, realisations"}
                axis.plot(rows["nu"] * apart, rows[column], linestyle="none", **spots)
        axis.set(xscale="log", yscale="log")
        axis.set_ylabel(label.format(order=table["order"].iloc[0], delta=_power_of_ten(table["delta"].iloc[0])))
        label_levels(axis)
        label_budgets(axis, table["nu"])
        name_curves(axis)
    axes[-1].set_xlabel("noise budget $\\nu$")
    return figure


def paper_panel(protocols: Mapping[str, pd.DataFrame], metric: str, quoted: tuple[float, float]) -> Figure:
    r"""One panel of the paper's Figures 1 and 2, a panel for each protocol: mean leakages with the paper's own marks.

    Parameters
    ----------
    protocols : mapping
        Tables as for ``leakage``, by name.
    metric : {"rdp", "epsilon"}
        Which leakage.
    quoted : tuple of float
        The accuracies (0 ... 1) that the paper states for the ends of its range of :math:`\nu`: above each panel.
    """
    figure, axes = panels(len(protocols), 2.9, sharex=True, sharey=True, squeeze=False)
    for axis, (protocol, table) in zip(axes.flat, protocols.items(), strict=True):
        means = table.pivot_table(metric, "nu", "policy")
        for policy in (name for name in STYLE if name in means and not (metric == "rdp" and name in NOT_IN_RDP)):
            axis.plot(means[policy], label=label_of(policy), **STYLE[policy])
        kind = {"rdp": "RDP leakage [nats]", "epsilon": "DP leakage $\\varepsilon$"}[metric]
        axis.set(xscale="log", yscale="log", title=protocol, ylabel=f"mean {kind}")
        label_levels(axis)
        for nu, accuracy, side in zip((means.index[0], means.index[-1]), quoted, ("left", "right"), strict=True):
            where = {"xycoords": ("data", "axes fraction"), "va": "bottom", "ha": side, "color": PAPER["color"]}
            axis.annotate(f"{accuracy:.0%} accuracy", (nu, 1.02), **where)
        label_budgets(axis, means.index)
        name_curves(axis)
    axes[-1, 0].set_xlabel("noise budget $\\nu$")
    return figure


def gap(table: pd.DataFrame, metric: str | Sequence[str] = "rdp") -> Figure:
    r"""Leakage over the optimum's, realisation by realisation: median and middle 90 %.

    Parameters
    ----------
    table : pandas.DataFrame
        As for ``leakage``; needs Optimal among its policies.
    metric : {"rdp", "epsilon", "exact"}, or several
        RDP leakage, DP leakage, or the exact one; a panel each.
    """
    metrics = [metric] if isinstance(metric, str) else list(metric)
    figure, axes = panels(len(metrics), 3.1, sharex=True, squeeze=False)
    for axis, each in zip(axes.flat, metrics, strict=True):
        _gap(axis, table, each)
    axes[-1, 0].set_xlabel("noise budget $\\nu$")
    return figure


def _gap(axis: Axes, table: pd.DataFrame, metric: str) -> None:
    """One panel of :func:`gap`: methods next to each other at each budget."""
    labels = table.attrs.get("labels", {})
    values = table.pivot(index=["seed", "nu"], columns="policy", values=metric)
    ratio = values.div(values["Optimal"], axis=0).groupby("nu")
    middle, low, high = ratio.median(), ratio.quantile((1 - 0.9) / 2), ratio.quantile((1 + 0.9) / 2)
    omitted = ("Optimal", *(NOT_IN_RDP if metric == "rdp" else ()))
    drawn = [name for name in table["policy"].unique() if name not in omitted]
    for i, policy in enumerate(drawn):
        label = policy_label(policy, table[table["policy"] == policy], labels)
        look: Look = policy_style(policy, table["policy"]) | {"linewidth": 0.6, "elinewidth": 1.6, "label": label}
        bars = [middle[policy] - low[policy], high[policy] - middle[policy]]
        axis.errorbar(middle.index * _apart(i, len(drawn)), middle[policy], yerr=bars, **look)
    axis.axhline(1, color=STYLE["Optimal"]["color"], linewidth=1)
    leakage_of = {"rdp": "RDP leakage", "epsilon": "DP leakage", "exact": "exact $\\varepsilon$"}[metric]
    axis.set(xscale="log", yscale="log", ylabel=f"{leakage_of} relative to Optimal")
    label_levels(axis)
    label_budgets(axis, middle.index)
    name_curves(axis)


def _apart(place: int, count: int) -> float:
    """By what factor a policy is moved aside, so that bars do not hide each other."""
    return float(1.1 ** (place - (count - 1) / 2))


def _power_of_ten(value: float) -> str:
    exponent = np.log10(value)
    return f"$10^{{{exponent:.0f}}}$" if np.isclose(exponent, round(exponent)) else f"{value:g}"
