"""Figures of the chapters on trainings: differences within a realisation, with 95 % intervals of their means."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adascale.statistics import interval, log_interval
from companion.figures.style import (
    NOISE_FREE,
    PAPER,
    STYLE,
    bars,
    label_budgets,
    label_of,
    name_curves,
    panels,
    policy_style,
    shades,
)
from companion.summary import intervals


def one_training(histories: Mapping[str, pd.DataFrame]) -> Figure:
    r"""Draw what is learned without noise, what noise adds to the loss, and :math:`\varepsilon` over Optimal's.

    ``histories``, of policies and ``no noise``, have ``round, accuracy, test_loss, epsilon``, NaN where not evaluated.
    """
    points = {
        name: history.dropna(subset=["accuracy"]).set_index("round")
        for name, history in histories.items()
    }
    quiet = points.pop("no noise")
    base = points["Optimal"]
    figure, axes = panels(3, 2.1, sharex=True)
    axes[0].plot(
        quiet.index + 1, 100 * quiet["accuracy"], label="no noise", **NOISE_FREE
    )
    for name, rows in points.items():
        look = policy_style(name, points) | {"label": label_of(name)}
        above = rows["test_loss"] - quiet["test_loss"]
        axes[1].plot(rows.index + 1, above, **look)
        axes[2].plot(rows.index + 1, rows["epsilon"] / base["epsilon"], **look)
    axes[1].axhline(0, **NOISE_FREE)
    for axis, label in zip(
        axes,
        (
            "test accuracy,\nno noise [%]",
            "test loss above\nno noise [nats]",
            "$\\varepsilon$ so far,\nrelative to Optimal",
        ),
        strict=True,
    ):
        axis.set_ylabel(label)
        name_curves(axis)
    axes[2].set_xlabel("rounds done")
    return figure


def noise_and_leakage(
    change: pd.DataFrame, loss: pd.DataFrame, ratio: pd.DataFrame, floor: float
) -> Figure:
    r"""Draw changes of accuracy and loss, and EqualAlloc's :math:`\varepsilon` over AdaScale's, against :math:`\nu`.

    The tables have a row per seed and a column per :math:`\nu`: points and nats against no noise, and the ratio.
    """
    figure, axes = panels(3, 2.1, sharex=True)
    for axis, table, average, policy in zip(
        axes,
        (change, loss, ratio),
        (interval, interval, log_interval),
        ("AdaScale", "AdaScale", "EqualAlloc"),
        strict=True,
    ):
        bars(axis, intervals(table.items(), average), STYLE[policy])
        axis.axhline(1.0 if table is ratio else 0.0, **NOISE_FREE)
        axis.axvline(floor, color="0.4", linestyle=":")
        axis.set_xscale("log")
        label_budgets(axis, table.columns)
    axes[0].annotate(" mean floor", (floor, 0.1), xycoords=("data", "axes fraction"))
    axes[0].set_ylabel("change of\naccuracy [points]")
    axes[1].set_ylabel("change of\ntest loss [nats]")
    axes[2].set(
        xlabel="noise budget $\\nu$",
        ylabel="$\\varepsilon$, EqualAlloc\nrelative to AdaScale",
    )
    return figure


def lost_and_gap(rows: pd.DataFrame, marks: Mapping[str, float]) -> Figure:
    r"""Draw accuracy lost to noise, and what there is to gain in leakage, over one budget.

    ``rows`` has ``nu, budget``, and ``lost, gap`` each with ``_low`` and ``_high``, of interpretations that differ in
    the budget alone.  Each of ``marks`` spans the paper's range of :math:`\nu` times its factor.
    """
    rows = rows.set_index("budget").sort_index()
    figure, axes = panels(2, 2.7, sharex=True)
    for axis, column, style, level in zip(
        axes, ("lost", "gap"), ("AdaScale", "EqualAlloc"), (0, 1), strict=True
    ):
        bars(axis, rows[[column, f"{column}_low", f"{column}_high"]], STYLE[style])
        axis.axhline(level, **NOISE_FREE)
    axes[0].set_ylabel("accuracy lost to\nnoise, AdaScale [points]")
    axes[1].set(
        xscale="log",
        yscale="log",
        xlabel="budget: mean noise energy above the floors",
        ylabel="RDP leakage, EqualAlloc\nrelative to Optimal",
    )
    axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    low = rows["nu"].min()
    high = rows["nu"].max()
    for i, (name, factor) in enumerate(marks.items()):
        height = 0.92 - 0.1 * i
        axes[0].axvspan(
            low * factor,
            high * factor,
            ymin=height,
            ymax=height + 0.012,
            color=PAPER["color"],
        )
        beside = {
            "xycoords": ("data", "axes fraction"),
            "textcoords": "offset points",
            "ha": "right",
        }
        axes[0].annotate(name, (low * factor, height), (-4, -2), **beside)
    axes[0].set_xlim(left=low / 4)
    return figure


def falls(tables: Mapping[str, pd.DataFrame], quoted: tuple[float, float]) -> Figure:
    r"""Draw by how much accuracy falls from the smallest :math:`\nu` on, paired, under several interpretations.

    ``tables`` has accuracies in per cent, rows per seed, columns per :math:`\nu`; the star is the difference of those
    that the paper quotes (0 ... 1).
    """
    figure, axis = plt.subplots()
    ends = next(iter(tables.values())).columns
    looks = shades(len(tables))
    for i, (name, table) in enumerate(tables.items()):
        levels = sorted(table)
        # so that bars do not hide each other
        shift = 1.06 ** (i - (len(tables) - 1) / 2)
        fall = ((nu * shift, table[nu] - table[levels[0]]) for nu in levels[1:])
        bars(axis, intervals(fall), looks[i] | {"label": name})
    axis.axhline(0, color="0.45", linewidth=1)
    star = PAPER | {"markersize": 12, "linestyle": "none"}
    axis.plot(
        ends.max(), -100 * (quoted[0] - quoted[1]), label="quoted by the paper", **star
    )
    axis.set(
        xscale="log",
        xlabel="noise budget $\\nu$",
        ylabel=f"accuracy above that\nat {min(ends):g} [points]",
    )
    label_budgets(axis, (nu for table in tables.values() for nu in sorted(table)[1:]))
    name_curves(axis)
    return figure


def weights(
    responses: pd.DataFrame, fitted: Mapping[str, NDArray[np.float64]]
) -> Figure:
    r"""Draw when noise hurts: the response to the noise of one round, in units of the largest.

    ``responses`` has ``setting, seed, later, response``; ``fitted`` the weights of the rounds of each setting, (T,).
    """
    figure, axis = plt.subplots()
    looks = dict(zip(("momentum 0.9", "no momentum"), shades(2), strict=True))
    for setting, curve in fitted.items():
        look = looks[setting] | {"linestyle": "none", "label": setting}
        rows = responses[responses["setting"] == setting]
        found = intervals((k + 1, of) for k, of in rows.groupby("later")["response"])
        scale = found["centre"].max()
        rounds = np.arange(len(curve)) + 1
        axis.plot(rounds, curve[::-1] / scale, color=look["color"], linewidth=1)
        bars(axis, found / scale, look)
    axis.set(
        xscale="log",
        xlabel="rounds from the noise to the end",
        ylabel="response (no unit)",
    )
    name_curves(axis)
    return figure
