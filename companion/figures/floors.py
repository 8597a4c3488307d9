"""Floors of the noise energy: with water on them, over the rounds, against the distances, and their running mean."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from adascale import channel
from adascale.scenario import FloatArray, Scenario
from companion.figures.style import name_curves, panels, shades

_LOW, _MIDDLE, _HIGH = shades(3)
_WATER = "#56B4E9"


def poured(floor: FloatArray, level: float) -> Figure:
    """Draw the rounds sorted by floor, and the noise that fills them to one level (:eq:`eq:water-level`)."""
    figure, axis = plt.subplots()
    ground = np.sort(floor)
    rounds = np.arange(1, floor.size + 1)
    schedule = np.maximum(level, ground)
    axis.fill_between(
        rounds, 0, ground, color="0.8", linewidth=0, label="floor $w_{\\min,t}$"
    )
    axis.fill_between(
        rounds, ground, schedule, color=_WATER, linewidth=0, label="added noise"
    )
    axis.plot(rounds, schedule, color="black", label="schedule $w_t$")
    axis.annotate(
        "water level, the same for all", (5, level), (0, 4), textcoords="offset points"
    )
    axis.text(0.15 * floor.size, 0.6 * level, "added noise", ha="center")
    axis.text(
        0.98 * floor.size,
        0.2 * level,
        "floor: noise that the weakest device forces",
        ha="right",
    )
    axis.set(
        xlim=(1, floor.size),
        ylim=(0, 3 * level),
        xlabel="round, from the lowest floor to the highest",
        ylabel="noise energy of the round\n[squared gradient]",
    )
    return figure


def over_rounds(floor: FloatArray, levels: tuple[float, float]) -> Figure:
    r"""Draw the floors of three realisations, shape (3, T), beside a range of :math:`\nu`."""
    figure, axes = panels(len(floor), 1.5, sharex=True, sharey=True)
    for lane, (axis, row) in enumerate(zip(axes, floor, strict=True), 1):
        axis.axhspan(*levels, color="grey", alpha=0.3, linewidth=0)
        axis.plot(
            row, ".", color=_HIGH["color"], markersize=3, label=f"realisation {lane}"
        )
        axis.text(0.01, 0.97, f"realisation {lane}", transform=axis.transAxes, va="top")
        axis.set(yscale="log", ylim=(1e-3, 1e3))
    axes[0].text(
        0.99,
        0.86,
        "shaded: the paper's range of $\\nu$",
        transform=axes[0].transAxes,
        ha="right",
    )
    axes[1].set_ylabel("floor $w_{\\min,t}$ [squared gradient]")
    axes[-1].set_xlabel("round $t$")
    return figure


def running_mean(
    over_scale: FloatArray,
    rounds: FloatArray,
    quantiles: FloatArray,
    theory: FloatArray,
) -> Figure:
    r"""Draw the tail of the floors beside its law, and quantiles of their running mean beside Landau's.

    ``over_scale`` has simulated :math:`w_{\min,t}/\omega`; ``quantiles, theory`` the 5 %, 50 % and 95 %
    quantiles of its mean over ``rounds``, simulated and by Landau's law, shape (3, K).
    """
    figure, (above, below) = panels(2, 2.6)
    w = np.logspace(-0.5, 4, 20)
    above.loglog(
        w,
        [(over_scale > x).mean() for x in w],
        "o",
        color=_MIDDLE["color"],
        label="simulated",
    )
    above.loglog(w, -np.expm1(-1 / w), color="black", label="$1 - e^{-\\omega/w}$")
    above.set(xlabel="$w / \\omega$ [no unit]", ylabel="share of floors above $w$")
    lowest, middle, highest = quantiles
    below.semilogx(rounds, highest, "^", color=_HIGH["color"], label="95 %, simulated")
    below.semilogx(
        rounds, middle, "o", color=_MIDDLE["color"], label="median, simulated"
    )
    below.semilogx(rounds, lowest, "v", color=_LOW["color"], label="5 %, simulated")
    below.semilogx(
        rounds, theory.T, "k-", linewidth=1, label=["Landau (lines)", None, None]
    )
    below.set(xlabel="horizon $T$ [rounds]", ylabel="mean floor / $\\omega$ [no unit]")
    below.set_ylim(top=55)
    name_curves(above, below, names={"Landau (lines)": ""})
    return figure


def farthest(scenario: Scenario, distance: FloatArray, omega: FloatArray) -> Figure:
    r"""Draw the scale of the floors (:eq:`eq:floor-law`) against the distance of the farthest device in metres.

    Devices are alike; ``distance`` has the shape (realisations, M), ``omega`` the shape (realisations,).
    """
    figure, axis = plt.subplots()
    last = distance.max(axis=-1)
    line = np.linspace(last.min(), 200, 50)
    unit = scenario.noise_scale / scenario.x_max
    alone = unit * channel.cost_hata_path_loss(line) * scenario.batch_second_moment
    axis.plot(
        last, omega, "o", color=_MIDDLE["color"], markersize=3, label="one realisation"
    )
    axis.plot(line, alone, color="black", label="farthest device alone")
    axis.set(
        yscale="log",
        xlabel="distance of the farthest device [m]",
        ylabel="scale $\\omega$ of the floors\n[squared gradient]",
    )
    name_curves(axis)
    return figure
