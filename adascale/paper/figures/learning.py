"""What trainings reach: test accuracy against the convergence level and the round, and beside what there is to gain."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from adascale.paper.figures.style import NOISE_FREE, SPARE, STYLE, label_budgets, label_levels, policy_style
from adascale.statistics import interval


def accuracy(table: pd.DataFrame, quoted: tuple[float, float]) -> Figure:
    r"""Test accuracy against :math:`\nu`: mean and 95 % t interval of every policy, and what the paper quotes.

    A single realisation has no interval.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of :func:`adascale.runs.execution.perform`: ``policy, nu, seed, test_accuracy``.  Those of
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
    drawn = list(levels["policy"].unique())
    for i, policy in enumerate(drawn):
        groups = levels[levels["policy"] == policy].groupby("nu")["points"]
        centre, low, high = np.array([interval(values) for _, values in groups]).T
        apart = 1.04 ** (i - (len(drawn) - 1) / 2)  # so that bars do not hide each other
        count = groups.size().iloc[0]
        label = f"{policy}, {count} realisations" if count > 1 else f"{policy}, one realisation"
        style = policy_style(policy, drawn)
        nu = np.array([nu for nu, _ in groups])
        bars = [centre - low, high - centre] if count > 1 else None
        axis.errorbar(nu * apart, centre, yerr=bars, label=label, capsize=3, **style)
    quiet = percent[percent["policy"] == "NoiseFree"]["points"]
    if len(quiet):
        axis.axhline(quiet.mean(), label="no receiver noise", **NOISE_FREE)
    ends = [levels["nu"].min(), levels["nu"].max()]
    axis.plot(ends, 100 * np.array(quoted), color="#CC79A7", linestyle=":", marker="_", markersize=12, linewidth=2,
              label="the ends that the paper quotes")  # fmt: skip
    axis.set(xscale="log", xlabel="convergence level $\\nu$", ylabel="test accuracy [%]")
    label_budgets(axis, levels["nu"])
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def readings(tables: dict[str, pd.DataFrame], quoted: tuple[float, float]) -> Figure:
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
    looks = [STYLE["AdaScale"], STYLE["EqualAlloc"], STYLE["EstimFuture"], *SPARE]
    for i, (name, table) in enumerate(tables.items()):
        groups = table[table["policy"] == "AdaScale"].groupby("nu")["test_accuracy"]
        centre, low, high = 100 * np.array([interval(values) for _, values in groups]).T
        nu = np.array([nu for nu, _ in groups]) * 1.04 ** (i - (len(tables) - 1) / 2)
        axis.errorbar(nu, centre, yerr=[centre - low, high - centre], label=name, capsize=3, **looks[i])
    levels = pd.concat(tables.values())["nu"]
    axis.plot([levels.min(), levels.max()], 100 * np.array(quoted), "*", color="#CC79A7", markersize=12,
              label="quoted by the paper")  # fmt: skip
    axis.set(xscale="log", xlabel="convergence level $\\nu$", ylabel="test accuracy [%]")
    label_budgets(axis, levels)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def learning_curves(table: pd.DataFrame, curves: pd.DataFrame, nus: Sequence[float]) -> Figure:
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
    drawn = [name for name in table["policy"].unique() if name != "NoiseFree"]
    lines = dict(zip(sorted(nus), ("-", "--", ":"), strict=False))
    for (policy, nu), rows in joined.groupby(["policy", "nu"], sort=False):
        means = rows.groupby("round")[["accuracy", "epsilon"]].mean()
        if policy == "NoiseFree":
            axes[0].plot(means.index + 1, 100 * means["accuracy"], label="no receiver noise", **NOISE_FREE)
            continue
        look = policy_style(policy, drawn) | {"linestyle": lines[nu], "label": f"{policy}, $\\nu$ = {nu:g}"}
        axes[0].plot(means.index + 1, 100 * means["accuracy"], markevery=4, **look)
        axes[1].plot(means.index + 1, means["epsilon"], markevery=4, **look)
    axes[0].set(xlabel="rounds done", ylabel="test accuracy [%]")
    axes[1].set(xlabel="rounds done", ylabel="$\\varepsilon$ so far", yscale="log")
    label_levels(axes[1])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def accuracy_and_gap(readings: pd.DataFrame, marks: dict[str, float], reference: float) -> Figure:
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
    axes[0].axhline(reference, **NOISE_FREE)
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
