"""Leakage against the convergence level: the paper's Figures 1 and 2, and what a policy leaks over another one."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from adascale.paper.figures.style import NOT_IN_RDP, STYLE, label_budgets, label_levels, policy_label, policy_style
from adascale.statistics import log_interval

PANELS = {
    "rdp": "RDP leakage at order {order:g} [nats]",
    "epsilon": "DP leakage $\\varepsilon$ at $\\delta$ = {delta}",
    "exact": "exact DP leakage $\\varepsilon$ at $\\delta$ = {delta}",
}
"""What is drawn of a leakage table, and what its axis says; the last where the table has it."""


def leakage(
    table: pd.DataFrame, *, points: bool = True, mean: str = "geometric", not_in_rdp: Sequence[str] = NOT_IN_RDP
) -> Figure:
    r"""The paper's Figures 1 and 2: RDP and DP leakage against :math:`\nu`, one line a policy.

    A table with a column ``exact`` (:func:`~adascale.paper.exact.with_exact`) has a third panel.

    Parameters
    ----------
    table : pandas.DataFrame
        Tidy, as :func:`adascale.comparison.leakage_table` makes it: columns ``dataset, policy, nu, seed, cost, order,
        delta, rdp, epsilon``, one row a realisation.  Rows that could not reach :math:`\nu` are not drawn; the legend
        counts them.
    points : bool
        Draw every realisation as a point (for a handful of them).
    mean : {"geometric", "arithmetic"}
        The line: the geometric mean with its 95 % t interval on the logarithm as a band, or the plain mean, without a
        band: the leakage is too heavy-tailed for one.
    not_in_rdp : sequence of str
        Policies that the RDP panel leaves out (default: those that the paper leaves out).

    Returns
    -------
    matplotlib.figure.Figure
    """
    panels = {column: label for column, label in PANELS.items() if column in table}
    figure, axes = plt.subplots(1, len(panels), figsize=(3.0 + 3.0 * len(panels), 4.2))
    labels, handles = table.attrs.get("labels", {}), {}
    for axis, (column, label) in zip(axes, panels.items(), strict=True):
        for policy, rows in table.groupby("policy", sort=False):
            if column == "rdp" and policy in not_in_rdp:
                continue
            style, name = policy_style(policy, table["policy"]), policy_label(policy, rows, labels)
            rows = rows.dropna(subset=["cost"])
            groups = rows.groupby("nu")[column]
            nu = np.array(sorted(groups.groups))
            if mean == "geometric":
                centre, low, high = np.array([log_interval(groups.get_group(value)) for value in nu]).T
                axis.fill_between(nu, low, high, color=style["color"], alpha=0.12, linewidth=0)
            else:
                centre = groups.mean().loc[nu].to_numpy()
            (handles[name],) = axis.plot(nu, centre, label=name, **style)
            if points:
                axis.plot(rows["nu"], rows[column], linestyle="none", alpha=0.45, markersize=3, **style)
        axis.set(xscale="log", yscale="log", xlabel="convergence level $\\nu$")
        axis.set_ylabel(label.format(order=table["order"].iloc[0], delta=_power_of_ten(table["delta"].iloc[0])))
        label_levels(axis)
        label_budgets(axis, table["nu"])
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(len(handles), 3))
    return figure


def gap(
    table: pd.DataFrame,
    metric: str = "rdp",
    *,
    reference: str = "Optimal",
    coverage: float = 0.9,
    not_in_rdp: Sequence[str] = NOT_IN_RDP,
) -> Figure:
    r"""Leakage over that of ``reference``, realisation by realisation: median and middle ``coverage``.

    Parameters
    ----------
    table : pandas.DataFrame
        As for :func:`leakage`; needs ``reference`` among its policies.
    metric : {"rdp", "epsilon", "exact"}
        RDP leakage, DP leakage, or the exact one.
    reference : str
        The policy to divide by.
    coverage : float
        Share of the realisations inside the bars.
    not_in_rdp : sequence of str
        Policies left out of the RDP ratio.

    Returns
    -------
    matplotlib.figure.Figure
    """
    labels = table.attrs.get("labels", {})
    values = table.pivot(index=["seed", "nu"], columns="policy", values=metric)
    ratio = values.div(values[reference], axis=0).groupby("nu")
    middle, low, high = ratio.median(), ratio.quantile((1 - coverage) / 2), ratio.quantile((1 + coverage) / 2)
    left_out = (reference, *(not_in_rdp if metric == "rdp" else ()))
    drawn = [name for name in table["policy"].unique() if name not in left_out]
    figure, axis = plt.subplots()
    for i, policy in enumerate(drawn):
        bars = [middle[policy] - low[policy], high[policy] - middle[policy]]
        apart = 1.03 ** (i - (len(drawn) - 1) / 2)  # so that bars do not hide each other
        label = policy_label(policy, table[table["policy"] == policy], labels)
        style = policy_style(policy, table["policy"])
        axis.errorbar(middle.index * apart, middle[policy], yerr=bars, label=label, capsize=3, **style)
    axis.axhline(1, color=STYLE["Optimal"]["color"], linewidth=1)
    leakage_of = {"rdp": "RDP", "epsilon": "DP", "exact": "exact DP"}[metric]
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="convergence level $\\nu$",
        ylabel=f"{leakage_of} leakage over {reference}'s [ratio]",
    )
    label_levels(axis)
    label_budgets(axis, middle.index)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _power_of_ten(value: float) -> str:
    exponent = np.log10(value)
    return f"$10^{{{exponent:.0f}}}$" if np.isclose(exponent, round(exponent)) else f"{value:g}"
