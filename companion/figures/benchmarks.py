"""One realisation under EstimFuture and under the power control of Liu and Simeone."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from adascale.policies import Optimal, water_level
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray
from companion.figures.style import STYLE, label_of, name_curves, panels, shades


def planned_levels(
    problem: Problem,
    later_floor: Mapping[str, float],
    levels: Mapping[str, FloatArray],
) -> Figure:
    r"""Draw what EstimFuture expects of the floors of one realisation, and the level that it aims at.

    ``later_floor`` has the floor that each interpretation expects, and ``levels`` its planned levels, shape (T,).
    """
    figure, (above, below) = panels(2, 2.6)
    floors = np.sort(problem.min_noise_energy)
    above.semilogx(
        floors, np.arange(1, floors.size + 1) / floors.size, color="0.5", label="floors"
    )
    for name, look in zip(("devices", "minimum"), shades(2), strict=True):
        share = np.mean(floors < later_floor[name])
        above.plot(
            later_floor[name],
            share,
            markersize=9,
            linestyle="none",
            label=f"estimate, {name}",
            **look,
        )
        below.semilogy(levels[name], markevery=50, label=name, **look)
    level = float(water_level(problem.min_noise_energy, problem.budget))
    below.axhline(level, color="black", linestyle="--", label="water level")
    below.set_yticks([0.05, 0.1, 0.2, 0.4], ["0.05", "0.1", "0.2", "0.4"])
    below.yaxis.set_minor_locator(NullLocator())
    above.set(
        xlim=(0.005, 2),
        xlabel="$w_{\\min,t}$ (no unit)",
        ylabel="share of floors below",
    )
    below.set(xlabel="round $t$", ylabel="planned level $\\ell_t$ (no unit)")
    name_curves(above, below)
    return figure


def rising_aim(problem: Problem, w: FloatArray) -> Figure:
    """Draw the noise energies of a schedule of PowerControl, and how its leakage adds up beside the optimum's."""
    figure, (above, below) = panels(2, 2.7, sharex=True)
    leakage = RoundLeakage(problem.scenario)
    above.semilogy(problem.min_noise_energy, color="0.75", linewidth=0.7, label="floor")
    points = STYLE["PowerControl"] | {
        "markersize": 3,
        "linestyle": "none",
        "label": label_of("PowerControl"),
    }
    above.semilogy(w, **points)
    level = float(water_level(problem.min_noise_energy, problem.budget))
    above.axhline(level, color="black", linestyle="--", label="water level")
    above.set(ylim=(5e-3, 200), ylabel="noise energy (no unit)")
    for name, energy in {
        "Optimal": Optimal().schedule(problem),
        "PowerControl": w,
    }.items():
        value = np.cumsum(leakage(energy))
        below.plot(value / value[-1], markevery=50, label=label_of(name), **STYLE[name])
    below.set(xlabel="round $t$", ylabel="share of leakage up to $t$")
    name_curves(above, below)
    return figure
