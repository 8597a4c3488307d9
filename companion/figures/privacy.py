"""Leakage against the convergence level: the paper's Figures 1 and 2, and what a policy leaks over another one."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from adascale.statistics import log_interval
from companion.figures.style import (
    CONTEXT,
    NOT_IN_RDP,
    PAPER,
    STYLE,
    bars,
    label_budgets,
    label_levels,
    label_of,
    name_curves,
    panels,
    policy_style,
)
from companion.summary import intervals

_METRICS = {"rdp": "RDP leakage", "epsilon": "DP leakage"}


def realisations(table: pd.DataFrame) -> Figure:
    r"""Draw what a handful of realisations say: AdaScale's RDP in each, and every method's relative to Optimal's.

    ``table`` is of :func:`adascale.comparison.leakage_table`, with Optimal and AdaScale.  Points are realisations,
    lines geometric means, and the band is the 95 % t interval of AdaScale's, on the logarithm.
    """
    figure, (above, below) = panels(2, 2.3, sharex=True)
    look = policy_style("AdaScale")
    leaked = table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    by_seed = leaked["AdaScale"].unstack("seed")
    band = intervals(by_seed.iterrows(), log_interval)
    shading = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
    above.fill_between(band.index, band["low"], band["high"], **shading)
    for seed, values in by_seed.items():
        above.plot(values, label=f"realisation {seed + 1}", **look | {"linewidth": 1})
    above.set_ylabel(
        f"AdaScale: RDP leakage\nat order {table['order'].iloc[0]:g} [nats]"
    )
    for policy in table["policy"].unique():
        if policy not in NOT_IN_RDP:
            ratio = (leaked[policy] / leaked["Optimal"]).dropna()
            look = policy_style(policy, table["policy"])
            means = np.exp(np.log(ratio).groupby("nu").mean())
            below.plot(means, label=label_of(policy), color=look["color"], linewidth=1)
            points = look | {
                "linestyle": "none",
                "markersize": 3.5,
                "label": f"_{policy}, realisations",
            }
            below.plot(ratio.index.get_level_values("nu"), ratio, **points)
    below.set(xlabel="noise budget $\\nu$", ylabel="RDP leakage\nrelative to Optimal")
    for axis in (above, below):
        axis.set(xscale="log", yscale="log")
        label_levels(axis)
        label_budgets(axis, table["nu"])
        name_curves(axis)
    return figure


def paper_panel(
    protocols: Mapping[str, pd.DataFrame], metric: str, quoted: tuple[float, float]
) -> Figure:
    r"""Draw one panel of the paper's Figures 1 and 2 with its own marks, and what another protocol changes in it.

    ``protocols`` are two tables as for ``leakage``, by name, on the same realisations.  Above are means of the first,
    and below what the second changes in each leakage, if anything: geometric means of ratios with 95 % intervals.
    The ``metric`` is ``"rdp"`` or ``"epsilon"``; ``quoted`` accuracies (0 ... 1) are above the panel.
    """
    (first, table), (second, second_table) = protocols.items()
    kind = {"rdp": "RDP leakage [nats]", "epsilon": "DP leakage $\\varepsilon$"}[metric]
    figure, (above, below) = panels(2, 2.7, sharex=True, height_ratios=(3, 2))
    own, opposite = (
        leaked.pivot(index=["nu", "seed"], columns="policy", values=metric)
        for leaked in (table, second_table)
    )
    omitted = NOT_IN_RDP if metric == "rdp" else ()
    for policy in (name for name in STYLE if name in own and name not in omitted):
        look = policy_style(policy) | {"label": label_of(policy)}
        above.plot(own[policy].groupby("nu").mean(), **look)
        ratio = (opposite[policy] / own[policy]).dropna()
        if (ratio != 1).any():
            change = 100 * intervals(ratio.groupby("nu"), log_interval) - 100
            bars(below, change, look | {"linewidth": 1})
    above.set(xscale="log", yscale="log", ylabel=f"mean {kind}\n{first}")
    below.axhline(0, color=CONTEXT["color"], linewidth=1, zorder=1)
    below.set(xlabel="noise budget $\\nu$", ylabel=f"change\n{second} [%]")
    low, high = below.get_ylim()
    # a change of nothing is not to fill the panel
    below.set_ylim(min(low, -5), max(high, 12))
    label_levels(above)
    nus = own.index.unique("nu")
    for nu, accuracy, side in zip(
        (nus[0], nus[-1]), quoted, ("left", "right"), strict=True
    ):
        words = f"the paper:\n{100 * accuracy:.0f} % accuracy"
        where = {"transform": above.get_xaxis_transform(), "va": "bottom", "ha": side}
        above.text(nu, 1.02, words, color=PAPER["color"], **where)
    label_budgets(above, nus)
    name_curves(above, below)
    return figure


def gap(table: pd.DataFrame, *metrics: str) -> Figure:
    r"""Draw leakage over the optimum's, realisation by realisation: median and middle 90 %.

    A panel for each of ``metrics``: ``"rdp"`` or ``"epsilon"``.
    """
    figure, axes = panels(len(metrics), 3.1, sharex=True, squeeze=False)
    for axis, name in zip(axes.flat, metrics, strict=True):
        _gap(axis, table, name)
    axes[-1, 0].set_xlabel("noise budget $\\nu$")
    return figure


def _gap(axis, table, metric):
    """One panel of :func:`gap`: methods next to each other at each budget."""
    labels = table.attrs.get("labels", {})
    labels = {name: label for name, label in labels.items() if name != label}
    values = table.pivot(index=["seed", "nu"], columns="policy", values=metric)
    ratio = values.div(values["Optimal"], axis=0).groupby("nu")
    middle = ratio.median()
    low, high = (ratio.quantile(share) for share in (0.05, 0.95))
    omitted = ("Optimal", *(NOT_IN_RDP if metric == "rdp" else ()))
    methods = [name for name in table["policy"].unique() if name not in omitted]
    for i, policy in enumerate(methods):
        look = policy_style(policy, table["policy"]) | {
            "linewidth": 0.6,
            "elinewidth": 1.6,
            "label": labels.get(policy, label_of(policy)),
        }
        bars = [middle[policy] - low[policy], high[policy] - middle[policy]]
        # so that bars do not hide each other
        aside = 1.1 ** (i - (len(methods) - 1) / 2)
        axis.errorbar(middle.index * aside, middle[policy], yerr=bars, **look)
    axis.axhline(1, color=STYLE["Optimal"]["color"], linewidth=1)
    axis.set(
        xscale="log", yscale="log", ylabel=f"{_METRICS[metric]} relative to Optimal"
    )
    label_levels(axis)
    label_budgets(axis, middle.index)
    name_curves(axis)
