"""Figures of the chapters on trainings: differences within a realisation, with 95 % intervals of their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from adascale.statistics import interval, log_interval
from companion.figures.style import NOISE_FREE, SPARE, STYLE, Look, label_budgets, policy_style

_LOOKS: list[Look] = [STYLE["AdaScale"], STYLE["EqualAlloc"], STYLE["EstimFuture"], *SPARE]


def one_training(histories: Mapping[str, pd.DataFrame]) -> Figure:
    r"""What is learned without noise, what noise adds to the loss, and :math:`\varepsilon` so far over Optimal's.

    Parameters
    ----------
    histories : mapping
        Of policies, and ``no noise``: ``round, accuracy, test_loss, epsilon``, NaN where not evaluated.
    """
    points = {name: history.dropna(subset=["accuracy"]).set_index("round") for name, history in histories.items()}
    quiet, base = points.pop("no noise"), points["Optimal"]
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6))
    axes[0].plot(quiet.index + 1, 100 * quiet["accuracy"], label="no noise", **NOISE_FREE)
    for name, rows in points.items():
        look = policy_style(name, points)
        axes[1].plot(rows.index + 1, rows["test_loss"] - quiet["test_loss"], label=name, **look)
        axes[2].plot(rows.index + 1, rows["epsilon"] / base["epsilon"], **look)
    axes[1].axhline(0, **NOISE_FREE)
    for axis, label in zip(
        axes,
        ("test accuracy, no noise [%]", "test loss above it [nats]", "$\\varepsilon$ so far, relative to Optimal"),
        strict=True,
    ):
        axis.set(xlabel="rounds done", ylabel=label)
    handles = [each for axis in axes[:2] for each in axis.get_legend_handles_labels()[0]]
    figure.legend(handles, [str(each.get_label()) for each in handles], loc="outside upper center", ncols=4)
    return figure


def _bars(axis: Axes, at: ArrayLike, found: Sequence[tuple[float, float, float]], look: Look, label: str = "") -> None:
    centre, low, high = np.array(found).T
    axis.errorbar(at, centre, [centre - low, high - centre], capsize=3, label=label or None, **look)


def noise_and_leakage(change: pd.DataFrame, loss: pd.DataFrame, ratio: pd.DataFrame, floor: float) -> Figure:
    r"""Changes of accuracy and of test loss, and EqualAlloc's :math:`\varepsilon` over AdaScale's, against :math:`\nu`.

    Parameters
    ----------
    change, loss, ratio : pandas.DataFrame
        A row a seed, a column a :math:`\nu`: points and nats against no noise, and the ratio.
    floor : float
        The mean floor, drawn as a line.
    """
    figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.6))
    for axis, table, average, policy in zip(
        axes,
        (change, loss, ratio),
        (interval, interval, log_interval),
        ("AdaScale", "AdaScale", "EqualAlloc"),
        strict=True,
    ):
        _bars(axis, list(table), [average(table[nu]) for nu in table], STYLE[policy])
        axis.axhline(1.0 if table is ratio else 0.0, **NOISE_FREE)
        axis.axvline(floor, color="0.4", linestyle=":")
        axis.annotate(
            "mean floor",
            (floor, 0.55),
            (3, 0),
            xycoords=("data", "axes fraction"),
            rotation=90,
            textcoords="offset points",
            ha="left",
            va="center",
        )
        axis.set(xscale="log", xlabel="noise budget $\\nu$")
        label_budgets(axis, table.columns)
    axes[0].set_ylabel("change of accuracy [points]")
    axes[1].set_ylabel("change of test loss [nats]")
    axes[2].set_ylabel("$\\varepsilon$, EqualAlloc relative to AdaScale")
    return figure


def lost_and_gap(rows: pd.DataFrame, marks: Mapping[str, float]) -> Figure:
    r"""Two panels over one budget: accuracy lost to noise, and what there is to gain in leakage.

    Parameters
    ----------
    rows : pandas.DataFrame
        ``nu, budget``, and ``lost, gap`` each with ``_low`` and ``_high``, of readings that differ in the budget alone.
    marks : mapping
        Names of readings with their factors: each spans the paper's range of :math:`\nu` times that factor.
    """
    rows = rows.sort_values("budget")
    figure, axes = plt.subplots(2, 1, figsize=(7.0, 5.6), sharex=True)
    for axis, column, style, level in zip(axes, ("lost", "gap"), ("AdaScale", "EqualAlloc"), (0, 1), strict=True):
        found = rows[[column, f"{column}_low", f"{column}_high"]].to_numpy()
        _bars(axis, rows["budget"], [tuple(each) for each in found], STYLE[style])
        axis.axhline(level, **NOISE_FREE)
    axes[0].set_ylabel("accuracy lost to\nnoise, AdaScale [points]")
    axes[1].set(
        xscale="log",
        yscale="log",
        xlabel="budget: mean noise energy above the floors",
        ylabel="RDP leakage, EqualAlloc\nover Optimal [ratio]",
    )
    axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    low, high = rows["nu"].min(), rows["nu"].max()
    for i, (name, factor) in enumerate(marks.items()):
        height = 0.92 - 0.1 * i
        axes[0].axvspan(low * factor, high * factor, ymin=height, ymax=height + 0.012, color="#CC79A7")
        axes[0].annotate(
            name,
            (low * factor, height),
            (-4, -2),
            xycoords=("data", "axes fraction"),
            ha="right",
            textcoords="offset points",
            fontsize=9,
        )
    axes[0].set_xlim(left=low / 4)
    return figure


def falls(tables: Mapping[str, pd.DataFrame], quoted: tuple[float, float]) -> Figure:
    r"""By how much accuracy falls from the smallest :math:`\nu` on, realisation by realisation, under several readings.

    Parameters
    ----------
    tables : mapping
        Names with accuracies in per cent, a row a seed and a column a :math:`\nu`.
    quoted : tuple of float
        The accuracies (0 ... 1) that the paper quotes for the ends; the star is their difference.
    """
    figure, axis = plt.subplots()
    ends = next(iter(tables.values())).columns
    for i, (name, table) in enumerate(tables.items()):
        levels = sorted(table)
        shift = 1.04 ** (i - (len(tables) - 1) / 2)  # so that bars do not hide each other
        fall = [interval(table[nu] - table[levels[0]]) for nu in levels[1:]]
        _bars(axis, [nu * shift for nu in levels[1:]], fall, _LOOKS[i], name)
    axis.axhline(0, color="0.45", linewidth=1)
    axis.plot(
        ends.max(),
        -100 * (quoted[0] - quoted[1]),
        "*",
        color="#CC79A7",
        markersize=12,
        linestyle="none",
        label="quoted by the paper",
    )
    axis.set(xscale="log", xlabel="noise budget $\\nu$", ylabel=f"accuracy above that\nat {min(ends):g} [points]")
    label_budgets(axis, sorted(set().union(*(set(sorted(table)[1:]) for table in tables.values()))))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def weights(responses: pd.DataFrame, fitted: Mapping[str, NDArray[np.float64]], lost: pd.DataFrame) -> Figure:
    r"""When noise hurts: the response to noise in one round, and all noise in one third of the rounds.

    Parameters
    ----------
    responses : pandas.DataFrame
        ``setting, seed, later, response``.
    fitted : mapping
        Weights of the rounds of each setting, shape (T,).
    lost : pandas.DataFrame
        Points of accuracy against no noise, indexed by ``setting, seed``, a column ``early, middle, late, even``.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.8))
    looks = {"momentum 0.9": STYLE["EqualAlloc"] | {"marker": "o"}, "no momentum": STYLE["AdaScale"]}
    columns = ["early", "middle", "late", "even"]
    for shift, (setting, curve) in enumerate(fitted.items()):
        look = looks[setting] | {"linestyle": "none"}
        found = [interval(rows) for _, rows in responses[responses.setting == setting].groupby("later").response]
        scale = max(each.centre for each in found)
        later = np.sort(responses.later.unique())
        left.plot(np.arange(len(curve)) + 1, curve[::-1] / scale, color=look["color"], linewidth=1)
        _bars(left, later + 1, [tuple(np.array(each) / scale) for each in found], look)
        _bars(
            right, np.arange(4) + 0.15 * shift, [interval(lost.loc[setting, when]) for when in columns], look, setting
        )
    left.set(xscale="log", xlabel="rounds from the noise to the end", ylabel="response (no unit)")
    right.axhline(0, color="0.45", linewidth=1)
    right.set(xticks=np.arange(4) + 0.07, xticklabels=columns, xlabel="noise", ylabel="change of accuracy [points]")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure
