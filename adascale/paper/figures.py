"""Every figure as a function of a tidy table; one look for the whole book."""

from __future__ import annotations

import base64
import html
import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from adascale.statistics import interval, log_interval

# Okabe and Ito's colours: distinct to colour-blind readers; the markers differ too
STYLE = {
    "Optimal": {"color": "#000000", "marker": "o"},
    "AdaScale": {"color": "#0072B2", "marker": "s"},
    "EqualAlloc": {"color": "#D55E00", "marker": "^"},
    "EstimFuture": {"color": "#009E73", "marker": "D"},
    "PowerControl": {"color": "#CC79A7", "marker": "v"},
    "LyapunovPowerControl": {"color": "#E69F00", "marker": "P"},
}
"""Colour and marker of each policy."""

_NOISE_FREE = {"color": "0.45", "linestyle": "--", "linewidth": 1.2}

LABELS = {"PowerControl": "PowerControl [19]", "LyapunovPowerControl": "LyapunovPowerControl [28]"}
"""What a legend says, where it is more than the policy's name; the numbers are the paper's."""

NOT_IN_RDP = ("PowerControl", "LyapunovPowerControl")
"""The policies that the paper leaves out of its RDP panel."""

_SPARE = [{"color": color, "marker": marker} for color, marker in zip(
    ["#56B4E9", "#F0E442", "#999999", "#332288", "#882255"], "X*<>h", strict=True
)]  # fmt: skip

PANELS = {
    "rdp": "RDP leakage at order {order:g} [nats]",
    "epsilon": "DP leakage $\\varepsilon$ at $\\delta$ = {delta}",
}


def use_style() -> None:
    """Set the look of every figure; call it once at the top of a notebook."""
    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.figsize": (7.0, 3.6),
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "lines.markersize": 5,
            "svg.hashsalt": "adascale",
        }
    )


def policy_style(policy: str, policies) -> dict:
    """Colour and marker of ``policy``; one that the book does not know takes a spare of its own."""
    strangers = [name for name in dict.fromkeys(policies) if name not in STYLE]
    return STYLE[policy] if policy in STYLE else _SPARE[strangers.index(policy) % len(_SPARE)]


def policy_label(policy: str, rows: pd.DataFrame) -> str:
    r"""The policy's name for a legend, with what must be said of its cost: leakages compare at equal cost only.

    ``rows`` are the policy's rows of a leakage table.  A budget counts as unreached where the cost is NaN, and the cost
    as another one where it is off by more than 1e-6 of :math:`\nu`.
    """
    label = LABELS.get(policy, policy)
    unreached = int(rows["cost"].isna().sum())
    if unreached:
        label += f" ({unreached} of {len(rows)} cannot reach $\\nu$)"
    if (abs(rows["cost"] / rows["nu"] - 1) > 1e-6).any():
        label += " (cost is not $\\nu$)"
    return label


def leakage(table: pd.DataFrame, *, points: bool = True, mean: str = "geometric", not_in_rdp=NOT_IN_RDP) -> plt.Figure:
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
        The line: the geometric mean with its 95 % t interval on the logarithm as a band, or the plain mean, without a
        band: the leakage is too heavy-tailed for one.
    not_in_rdp : sequence of str
        Policies that the RDP panel leaves out (default: those that the paper leaves out).

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.2))
    handles = {}
    for axis, (column, label) in zip(axes, PANELS.items(), strict=True):
        for policy, rows in table.groupby("policy", sort=False):
            if column == "rdp" and policy in not_in_rdp:
                continue
            style, name = policy_style(policy, table["policy"]), policy_label(policy, rows)
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
        _label_levels(axis)
        _label_budgets(axis, table["nu"])
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(len(handles), 3))
    return figure


def download_link(table: pd.DataFrame, filename: str):
    """The table as a CSV of six significant digits behind a link that needs no file and no network."""
    from IPython.display import HTML

    data = base64.b64encode(table.to_csv(index=False, float_format="%.6g").encode()).decode()
    return HTML(f'<a download="{filename}" href="data:text/csv;base64,{data}">Download the data ({filename})</a>')


def embedded(figure: plt.Figure, alt: str):
    """The figure as HTML that carries its picture and says in words what it shows: for pasting into another page."""
    from IPython.display import HTML

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode()
    return HTML(f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{picture}">')


def _label_budgets(axis, nu) -> None:
    axis.set_xticks(sorted(set(nu)))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(plt.NullLocator())


def _label_levels(axis) -> None:
    """Plain numbers on a logarithmic axis of few decades; powers of ten would be sparse there."""
    low, high = axis.get_ylim()
    if high / low < 300:
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low > 4 else (1, 1.2, 1.5, 2, 3, 5)))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())


def _power_of_ten(value: float) -> str:
    exponent = np.log10(value)
    return f"$10^{{{exponent:.0f}}}$" if np.isclose(exponent, round(exponent)) else f"{value:g}"


def gap(
    table: pd.DataFrame,
    metric: str = "rdp",
    *,
    reference: str = "Optimal",
    coverage: float = 0.9,
    not_in_rdp=NOT_IN_RDP,
) -> plt.Figure:
    r"""Leakage over that of ``reference``, realisation by realisation: median and middle ``coverage``.

    Parameters
    ----------
    table : pandas.DataFrame
        As for :func:`leakage`; needs ``reference`` among its policies.
    metric : {"rdp", "epsilon"}
        RDP or DP leakage.
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
    values = table.pivot(index=["seed", "nu"], columns="policy", values=metric)
    ratio = values.div(values[reference], axis=0).groupby("nu")
    middle, low, high = ratio.median(), ratio.quantile((1 - coverage) / 2), ratio.quantile((1 + coverage) / 2)
    left_out = (reference, *(not_in_rdp if metric == "rdp" else ()))
    policies = [name for name in table["policy"].unique() if name not in left_out]
    figure, axis = plt.subplots()
    for i, policy in enumerate(policies):
        bars = [middle[policy] - low[policy], high[policy] - middle[policy]]
        apart = 1.03 ** (i - (len(policies) - 1) / 2)  # so that bars do not hide each other
        label = policy_label(policy, table[table["policy"] == policy])
        style = policy_style(policy, table["policy"])
        axis.errorbar(middle.index * apart, middle[policy], yerr=bars, label=label, capsize=3, **style)
    axis.axhline(1, color=STYLE["Optimal"]["color"], linewidth=1)
    leakage_of = {"rdp": "RDP", "epsilon": "DP"}[metric]
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="convergence level $\\nu$",
        ylabel=f"{leakage_of} leakage over {reference}'s [ratio]",
    )
    _label_levels(axis)
    _label_budgets(axis, middle.index)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def accuracy(table: pd.DataFrame, quoted: tuple[float, float]) -> plt.Figure:
    r"""Test accuracy against :math:`\nu`: mean and 95 % t interval of every policy, and what the paper quotes.

    A single realisation has no interval.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of :func:`adascale.runs.specification.perform`: ``policy, nu, seed, test_accuracy``.  Those of
        ``NoiseFree`` become a level line.
    quoted : tuple of float
        The accuracies (0 ... 1) that the paper quotes for the ends of its range of :math:`\nu`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axis = plt.subplots()
    percent = table.assign(points=100 * table["test_accuracy"])
    levels = percent[percent["policy"] != "NoiseFree"]
    policies = list(levels["policy"].unique())
    for i, policy in enumerate(policies):
        groups = levels[levels["policy"] == policy].groupby("nu")["points"]
        centre, low, high = np.array([interval(values) for _, values in groups]).T
        apart = 1.04 ** (i - (len(policies) - 1) / 2)  # so that bars do not hide each other
        count = groups.size().iloc[0]
        label = f"{policy}, {count} realisations" if count > 1 else f"{policy}, one realisation"
        style = policy_style(policy, policies)
        nu = np.array([nu for nu, _ in groups])
        bars = [centre - low, high - centre] if count > 1 else None
        axis.errorbar(nu * apart, centre, yerr=bars, label=label, capsize=3, **style)
    quiet = percent[percent["policy"] == "NoiseFree"]["points"]
    if len(quiet):
        axis.axhline(quiet.mean(), label="no receiver noise", **_NOISE_FREE)
    ends = [levels["nu"].min(), levels["nu"].max()]
    axis.plot(ends, 100 * np.array(quoted), color="#CC79A7", linestyle=":", marker="_", markersize=12, linewidth=2,
              label="the ends that the paper quotes")  # fmt: skip
    axis.set(xscale="log", xlabel="convergence level $\\nu$", ylabel="test accuracy [%]")
    _label_budgets(axis, levels["nu"])
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def readings(tables: dict[str, pd.DataFrame], quoted: tuple[float, float]) -> plt.Figure:
    r"""Test accuracy of AdaScale against :math:`\nu` under several readings: mean and 95 % t interval.

    Parameters
    ----------
    tables : dict
        Names with rows as for :func:`accuracy`.
    quoted : tuple of float
        The accuracies (0 ... 1) that the paper quotes for the ends, drawn as two dots.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axis = plt.subplots()
    looks = [STYLE["AdaScale"], STYLE["EqualAlloc"], STYLE["EstimFuture"], *_SPARE]
    for i, (name, table) in enumerate(tables.items()):
        groups = table[table["policy"] == "AdaScale"].groupby("nu")["test_accuracy"]
        centre, low, high = 100 * np.array([interval(values) for _, values in groups]).T
        nu = np.array([nu for nu, _ in groups]) * 1.04 ** (i - (len(tables) - 1) / 2)
        axis.errorbar(nu, centre, yerr=[centre - low, high - centre], label=name, capsize=3, **looks[i])
    levels = pd.concat(tables.values())["nu"]
    axis.plot([levels.min(), levels.max()], 100 * np.array(quoted), "*", color="#CC79A7", markersize=12,
              label="quoted by the paper")  # fmt: skip
    axis.set(xscale="log", xlabel="convergence level $\\nu$", ylabel="test accuracy [%]")
    _label_budgets(axis, levels)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def learning_curves(table: pd.DataFrame, curves: pd.DataFrame, nus) -> plt.Figure:
    r"""Accuracy, and epsilon so far, against the round: means over the realisations that all of the lines share.

    Parameters
    ----------
    table, curves : pandas.DataFrame
        As :func:`adascale.runs.sweep.tables` gives them.
    nus : sequence of float
        The levels to draw.

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = table[table["nu"].isin(nus)]
    seeds = set.intersection(*(set(rows["seed"]) for _, rows in chosen.groupby(["policy", "nu"])))
    joined = curves.merge(chosen[chosen["seed"].isin(seeds)][["run", "policy", "nu", "seed"]], on="run")
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.0))
    policies = [name for name in table["policy"].unique() if name != "NoiseFree"]
    lines = dict(zip(sorted(nus), ("-", "--", ":"), strict=False))
    for (policy, nu), rows in joined.groupby(["policy", "nu"], sort=False):
        means = rows.groupby("round")[["accuracy", "epsilon"]].mean()
        if policy == "NoiseFree":
            axes[0].plot(means.index + 1, 100 * means["accuracy"], label="no receiver noise", **_NOISE_FREE)
            continue
        look = policy_style(policy, policies) | {"linestyle": lines[nu], "label": f"{policy}, $\\nu$ = {nu:g}"}
        axes[0].plot(means.index + 1, 100 * means["accuracy"], markevery=4, **look)
        axes[1].plot(means.index + 1, means["epsilon"], markevery=4, **look)
    axes[0].set(xlabel="rounds done", ylabel="test accuracy [%]")
    axes[1].set(xlabel="rounds done", ylabel="$\\varepsilon$ so far", yscale="log")
    _label_levels(axes[1])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def accuracy_and_gap(readings: pd.DataFrame, marks: dict[str, float], reference: float) -> plt.Figure:
    r"""Two panels over one budget: what it costs in accuracy, and what there is to gain in leakage.

    Parameters
    ----------
    readings : pandas.DataFrame
        Rows of :func:`adascale.paper.accuracy.reading_table` whose readings differ in the budget alone.
    marks : dict
        Names of readings with their factors: each spans the paper's range of :math:`\nu` times that factor.
    reference : float
        Accuracy without noise, in per cent.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = readings.sort_values("budget")
    figure, axes = plt.subplots(2, 1, figsize=(7.0, 6.0), sharex=True)
    for axis, column, style in zip(axes, ("accuracy", "gap"), ("AdaScale", "EqualAlloc"), strict=True):
        bars = [rows[column] - rows[f"{column}_low"], rows[f"{column}_high"] - rows[column]]
        axis.errorbar(rows["budget"], rows[column], yerr=bars, capsize=3, **STYLE[style])
    axes[0].axhline(reference, **_NOISE_FREE)
    axes[0].annotate("no receiver noise", (rows["budget"].max(), reference), (0, 4), textcoords="offset points",
                     ha="right", fontsize=9)  # fmt: skip
    axes[0].set(ylabel="test accuracy, AdaScale [%]")
    axes[1].axhline(1, color=STYLE["Optimal"]["color"], linewidth=1)
    axes[1].set(xscale="log", yscale="log", xlabel="budget: mean noise energy above the floors",
                ylabel="RDP leakage, EqualAlloc\nover Optimal [ratio]")  # fmt: skip
    axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    low, high = readings["nu"].min(), readings["nu"].max()
    for i, (name, factor) in enumerate(marks.items()):
        height = 0.05 + 0.09 * i
        axes[0].axvspan(low * factor, high * factor, ymin=height, ymax=height + 0.012, color="#CC79A7")
        axes[0].annotate(name, (high * factor, height), (4, -2), xycoords=("data", "axes fraction"),
                         textcoords="offset points", fontsize=9)  # fmt: skip
    return figure
