"""The bounds of AdaScale and what they bound: queues, regrets and violations, and two futures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from adascale.problem import RoundLeakage
from adascale.scenario import FloatArray
from companion.bounds import QueueLimits
from companion.figures.style import (
    CONTEXT,
    PAPER,
    STYLE,
    Look,
    bars,
    name_curves,
    panels,
    shades,
)
from companion.summary import intervals

_MEASURED = STYLE["AdaScale"]
_BOUND, _OURS = shades(2)
_LIMITS: dict[str, Look] = {
    "full_power": {"label": "paper (full power)"} | PAPER,
    "equal": {"label": "from EqualAlloc"} | _OURS,
    "threshold": {"label": "threshold"} | _BOUND,
    "growth": {"label": "growth"} | CONTEXT,
}


def queue_limits(runs: Mapping[float, tuple[FloatArray, QueueLimits]]) -> Figure:
    r"""Draw the queue, shape (T + 1,), and its four limits against the round, a panel for each :math:`\nu`."""
    figure, axes = panels(len(runs), 2.8, sharex=True, squeeze=False)
    for axis, (nu, (queue, limits)) in zip(axes.flat, runs.items(), strict=True):
        rounds = np.arange(1, queue.size)
        for name, limit in limits._asdict().items():
            axis.loglog(rounds, limit[1:], markevery=0.12, **_LIMITS[name])
        axis.loglog(
            rounds,
            np.maximum(queue[1:], 1e-2),
            color=_MEASURED["color"],
            label="queue, from 0.01",
        )
        axis.set(
            xlabel="rounds $R$",
            ylabel="queue $Q_R$ (no unit)",
            title=f"$\\nu = {nu}$",
            ylim=(8e-3, 2e4),
        )
        name_curves(axis)
    return figure


class Bounded(NamedTuple):
    """A quantity measured at K penalties, and bounds on its mean."""

    name: str
    """The label of the axis."""
    values: FloatArray
    """Shape (K, realisations)."""
    bounds: Mapping[str, FloatArray]
    """From ``"bound on the mean"``, ``"paper's bound"`` or ``"on every channel"`` to K numbers."""
    small: float | None = None
    """Below this size the axis is linear; without it, logarithmic throughout."""


def against_penalty(penalty: FloatArray, quantities: Sequence[Bounded]) -> Figure:
    """Draw means over realisations with their 95 % t intervals against V, and the bounds, a panel each."""
    style = {
        "bound on the mean": _OURS,
        "paper's bound": PAPER,
        "on every channel": _BOUND,
    }
    figure, axes = panels(len(quantities), 1.9, sharex=True)
    for axis, panel in zip(axes, quantities, strict=True):
        if panel.small is None:
            axis.set_yscale("log")
        else:
            axis.axhline(0, color="black", linewidth=0.8)
            axis.set_yscale("symlog", linthresh=panel.small)
        found = intervals(zip(penalty, panel.values, strict=True))
        bars(axis, found, _MEASURED | {"capsize": 2, "label": "AdaScale"})
        for name, bound in panel.bounds.items():
            axis.plot(penalty, bound, label=name, **style[name])
        axis.set(xscale="log", ylabel=panel.name.replace(" [", "\n["))
        name_curves(axis)
    axes[-1].set_xlabel("penalty $V$ [1/nats]")
    return figure


def two_futures(leakage: RoundLeakage, floor: float, budget: float) -> Figure:
    r"""Draw two futures that share their first half, and the least regret on each (:eq:`eq:two-futures`)."""
    figure, (above, below) = panels(2, 2.1)
    first_half = np.linspace(0, 2 * budget, 401)
    regrets = []
    lines = (_OURS | {"linestyle": "-"}, _BOUND | {"linestyle": "--"})
    for name, level, rise, style in (("A", 1, 0, lines[0]), ("B", 2, 2, lines[1])):
        ground = floor / budget + rise * np.array([0, 0, 1, 1])
        look = style | {"marker": "", "label": f"floors of {name}"}
        above.plot([0, 0.5, 0.5, 1], ground, **look)
        look = {"linestyle": ":", "label": f"water level of {name}"}
        above.axhline(floor / budget + level, color=style["color"], **look)
        second_half = leakage(floor + rise * budget + 2 * budget - first_half)
        mean = (leakage(floor + first_half) + second_half) / 2
        regrets.append(1e3 * (mean - leakage(floor + level * budget)))
        below.plot(
            first_half / budget, regrets[-1], markevery=50, label=f"$r_{name}$", **style
        )
    gap = float(np.maximum(*regrets).min())
    above.set(xlabel="round $t/T$", ylabel="noise energy over $\\nu$", ylim=(0, None))
    below.axhline(gap, color="black", linestyle=":", label="$\\Delta$")
    below.set(
        xlabel="spent in the first half, $s/\\nu$",
        ylabel="regret at least [$10^{-3}$ nats]",
        ylim=(0, 6 * gap),
    )
    name_curves(above, below)
    return figure


def scaling(table: pd.DataFrame, starts: tuple[float, float]) -> Figure:
    r"""Draw violation, regret and leakage at the cost paid against T, for :math:`V = c\,T^\beta`.

    Means with 95 % intervals of :func:`~companion.theory.scaling.scaling_table`; ``starts`` has the start of the curves
    and another one, of which the last panel shows the means, dotted.
    """
    table = table.assign(
        regret=table["leakage"] / table["optimum"] - 1,
        dearer=table["leakage"] / table["optimum_at_cost"],
    )
    near, far = (table[table["start"] == start] for start in starts)
    figure, axes = panels(3, 2.0, sharex=True)
    exponents = sorted(near["beta"].unique())
    for beta, look in zip(exponents, shades(len(exponents)), strict=True):
        groups = near[near["beta"] == beta].groupby("T")
        for axis, column in zip(axes, ("violation", "regret", "dearer"), strict=True):
            named = look | {"capsize": 0, "label": f"β = {beta:g}"}
            bars(axis, intervals(groups[column]), named)
        mean = far[far["beta"] == beta].groupby("T")["dearer"].mean()
        if len(mean):
            name = "far start" if beta == exponents[-1] else ""
            axes[2].plot(mean, color=look["color"], linestyle=":", label=name)
    axes[0].set(xscale="log", yscale="log", ylabel="violation (no unit)")
    axes[1].set(xscale="log", ylabel="regret / leakage\nof the optimum", ylim=(-1, 0.1))
    axes[2].set(
        xscale="log",
        xlabel="rounds $T$",
        ylabel="leakage / optimum\nat the cost paid",
        ylim=(0.99, 1.14),
    )
    axes[1].axhline(0, color="black", linewidth=0.8)
    axes[2].axhline(9 / 8, color="0.4", linewidth=0.8, label="9/8")
    name_curves(*axes)
    return figure
