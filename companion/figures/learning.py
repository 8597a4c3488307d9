"""What trainings reach: test accuracy against the noise allowance and the round."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.figures.style import (
    NOISE_FREE,
    PAPER,
    WIDTH,
    bars,
    label_budgets,
    label_levels,
    label_of,
    name_curves,
    panels,
    policy_style,
    shades,
)
from companion.summary import intervals


def accuracy(table: pd.DataFrame, quoted: tuple[float, float]) -> Figure:
    r"""Draw test accuracy against :math:`\nu`: AdaScale's beside what is quoted, and all minus that without noise.

    ``table`` has ``policy, nu, seed, test_accuracy``.  The lower panel has differences from ``NoiseFree`` in the
    realisations that all policies have.  Bars are 95 % t intervals.
    """
    points = 100 * table.pivot(
        index="seed", columns=["policy", "nu"], values="test_accuracy"
    )
    noise_free = points.pop("NoiseFree").iloc[:, 0]
    shared = points.notna().T.groupby(level="policy").any().all() & noise_free.notna()
    figure, (above, below) = panels(2, 2.7)
    methods = list(dict.fromkeys(points.columns.get_level_values("policy")))
    of_adascale = points["AdaScale"]
    label = f"{label_of('AdaScale')}, {of_adascale.notna().sum().max()} realisations"
    _bars(above, of_adascale, policy_style("AdaScale", methods) | {"label": label})
    above.plot(
        [min(of_adascale), max(of_adascale)],
        100 * np.array(quoted),
        label="the paper's two ends",
        **PAPER,
    )
    above.set_ylabel("test accuracy [%]")
    above.axhline(noise_free.mean(), label="no receiver noise", **NOISE_FREE)
    below.axhline(0, **NOISE_FREE)
    for i, policy in enumerate(methods):
        look = policy_style(policy, methods) | {"label": label_of(policy)}
        apart = points.loc[shared, policy].sub(noise_free[shared], axis=0)
        _bars(below, apart, look, 1.06 ** (i - (len(methods) - 1) / 2))
    below.set(
        ylabel="accuracy minus accuracy\nwithout noise [points]",
        title=f"{shared.sum()} shared realisations",
    )
    for axis in (above, below):
        axis.set(xscale="log", xlabel="noise budget $\\nu$")
        label_budgets(axis, of_adascale.columns)
        name_curves(axis)
    return figure


def _bars(axis, values, look, apart=1.0):
    """Draw means of the columns at their names, with 95 % intervals where a column has several values."""
    groups = ((nu * apart, values[nu].dropna()) for nu in sorted(values))
    bars(axis, intervals(groups), look)


def accuracy_ends(
    tables: Mapping[str, pd.DataFrame], quoted: tuple[float, float]
) -> Figure:
    r"""Draw test accuracy at both ends of the range of :math:`\nu`, a bar a realisation, beside the paper's.

    ``tables`` have ``nu, seed, test_accuracy, floor_mean`` of one policy.  A bar goes from the accuracy at the smallest
    :math:`\nu`, a full dot, to that at the largest, a hollow one.
    """
    wide = {
        label: 100
        * table.pivot(index="seed", columns="nu", values="test_accuracy").dropna()
        for label, table in tables.items()
    }
    seeds = pd.concat(wide.values()).index.unique().sort_values()
    everything = pd.concat(tables.values())
    levels = [everything["nu"].min(), everything["nu"].max()]
    floors = everything.groupby("seed")["floor_mean"].first()[seeds]
    figure, axis = plt.subplots(figsize=(WIDTH, 3.8))

    def fall(places, ends, color, label=None):
        axis.vlines(places, *ends.T, color=color, linewidth=2.5, label=label)
        for points, filled in zip(ends.T, (color, "white"), strict=True):
            axis.plot(places, points, "o", color=color, markerfacecolor=filled)

    fall([0], 100 * np.array([quoted]), "black")
    looks = zip(wide.items(), shades(len(wide)), strict=True)
    for i, ((label, points), look) in enumerate(looks):
        apart = 0.16 * (i - (len(wide) - 1) / 2)
        places = 1 + seeds.get_indexer(points.index) + apart
        fall(places, points[levels].to_numpy(), look["color"], label)
    for nu, filled in zip(levels, ("grey", "white"), strict=True):
        label = f"$\\nu$ = {nu:g}"
        axis.plot([], [], "o", color="grey", markerfacecolor=filled, label=label)
    names = [f"realisation {seed},\nmean floor\n{f:.2f}" for seed, f in floors.items()]
    axis.set_xticks(range(1 + len(names)), ["the paper", *names])
    axis.set(ylabel="test accuracy [%]", xlim=(-0.5, len(names) + 0.5))
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    return figure


def learning_curves(
    table: pd.DataFrame, curves: pd.DataFrame, nus: Sequence[float]
) -> Figure:
    r"""Draw accuracy, and epsilon so far, against the round: means over the realisations that all of the lines share.

    The accuracy is what a training has above its own without noise: the curves themselves would lie on each other.  The
    tables are of :func:`adascale.runs.sweep.tables`.
    """
    selected = table[table["nu"].isin(nus) | (table["policy"] == "NoiseFree")]
    lines = selected.groupby(["policy", "nu"]).ngroups
    shared = selected.groupby("seed").filter(lambda rows: len(rows) == lines)
    joined = curves.merge(shared[["run", "policy", "nu"]], on="run")
    means = joined.groupby(["policy", "nu", "round"], sort=False)[
        ["accuracy", "epsilon"]
    ].mean()
    noise_free = means.loc["NoiseFree", "accuracy"].droplevel("nu")
    figure, axes = panels(2, 2.9, sharex=True)
    methods = [name for name in table["policy"].unique() if name != "NoiseFree"]
    strokes = dict(zip(sorted(nus), ("-", "--", ":"), strict=False))
    for (policy, nu), rows in means.drop("NoiseFree").groupby(
        ["policy", "nu"], sort=False
    ):
        found = rows.droplevel(["policy", "nu"])
        look = policy_style(policy, methods) | {
            "linestyle": strokes[nu],
            "label": f"{label_of(policy)}, $\\nu$ = {nu:g}",
            "markevery": 4,
        }
        above = 100 * (found["accuracy"] - noise_free)
        axes[0].plot(found.index + 1, above, **look)
        axes[1].plot(found.index + 1, found["epsilon"], **look)
    axes[0].axhline(0, **NOISE_FREE)
    axes[0].set_ylabel("accuracy minus accuracy\nwithout noise [points]")
    axes[1].set(ylabel="$\\varepsilon$ so far", yscale="log")
    axes[1].set_xlabel("rounds done")
    label_levels(axes[1])
    name_curves(axes[1], width=22)
    return figure
