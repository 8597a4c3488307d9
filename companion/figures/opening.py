"""Pictures of the first page: its two states for readers without JavaScript, and one of each finding."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adascale.accounting import epsilon
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from adascale.scenario import FloatArray
from companion import results
from companion.claims import QUOTED_ACCURACY
from companion.explorer import DELTA, LEVELS, SCENARIOS, typical_floors
from companion.figures.files import as_svg
from companion.figures.headline import LEARNING, ratios
from companion.figures.style import STYLE, WIDTH, use_style
from companion.privacy import observers
from companion.summary import by_seed

START = LEVELS[6]
r"""The :math:`\nu` with which the page begins."""

_FLOOR = "0.72"
_WATER = "#56B4E9"
_WARNING = STYLE["EqualAlloc"]["color"]


def pours(floor: FloatArray, budget: float) -> dict[str, FloatArray]:
    """Return the noise energies of an even split and of one water level, by what the page calls them."""
    level = float(water_level(floor, budget))
    return {"even split": floor + budget, "one water level": np.maximum(level, floor)}


def states() -> Figure:
    """Draw the twenty rounds under both pours, with the exact epsilon of each."""
    scenario = SCENARIOS["mnist"]
    floor = typical_floors()
    unit = float(RoundLeakage(scenario).unit_energy[0])
    rate = float(scenario.sampling_rate)
    rounds_each = scenario.num_rounds // floor.size
    figure, axes = plt.subplots(1, 2, figsize=(1.6 * WIDTH, 2.6), sharey=True)
    for axis, (name, energy) in zip(axes, pours(floor, START).items(), strict=True):
        events = [(rate, float(np.sqrt(w / unit)), rounds_each) for w in energy]
        axis.bar(range(20), floor, color=_FLOOR)
        axis.bar(range(20), energy - floor, bottom=floor, color=_WATER)
        leaked = epsilon(events, DELTA).estimate
        axis.set_title(f"{name}: ε = {leaked:.1f}", loc="left", fontweight="bold")
        axis.set(ylim=(0, 8 * START), xticks=[], xlabel="rounds")
    axes[0].set_ylabel("noise energy")
    return figure


def future() -> Figure:
    """Draw what an even split and a policy without the future have over the optimum."""
    table = ratios(results.load("exact/headline"))["centre"]
    figure, axis = small()
    axis.axhline(1, color="0.5", linewidth=1)
    for method, name, place, height in (
        ("EqualAlloc", "even split", 0.98, 0.72),
        (LEARNING, "without the future", 0.7, 0.2),
    ):
        look = STYLE[method.partition(",")[0]]
        axis.plot(table.loc[method], linewidth=2.5, **look)
        axis.text(place, height, name, color=look["color"], **_right(axis))
    budgets = table.loc["EqualAlloc"].index
    axis.set(ylim=(0.9, 2.4), yticks=[1, 2], ylabel="ε ÷ optimum’s")
    _over(axis, budgets)
    return figure


def observed() -> Figure:
    r"""Draw the epsilon of four observers at :data:`START`, with ">" where it is a lower bound."""
    names = {
        "server": "server",
        "quieter 3 dB": "server, half the noise",
        "antennas": "server, 4 antennas",
        "neighbour": "neighbour",
    }
    table = observers.listeners_table((START,), range(5)).set_index("listener")
    figure, axis = small()
    for place, key in enumerate(names):
        value, beyond = table.loc[key, ["epsilon", "beyond"]]
        color = _WARNING if beyond else "0.2"
        axis.barh(place, value, left=0, color=color, height=0.62)
        text = f" > {np.floor(value):.0f}" if beyond else f" {value:.2g}"
        axis.text(value, place, text, va="center", color=color, fontweight="bold")
    axis.set_yticks(range(len(names)), names.values())
    axis.set(xscale="log", xlim=(0.3, 200), xticks=[1, 10, 100], ylim=(3.5, -0.5))
    axis.set_xlabel(f"ε at ν = {START:.2g}, logarithmic")
    axis.set_xticklabels(["1", "10", "100"])
    axis.grid(visible=False)
    return figure


def accuracy() -> Figure:
    """Draw MNIST's accuracy over the paper's budgets, and the fall that the paper quotes."""
    table = results.load("mnist/accuracy")
    trained = by_seed(table[table.policy == "AdaScale"], arm=("nu",)).mean()
    ends = trained.index[[0, -1]]
    quoted = [100 * share for share in QUOTED_ACCURACY["mnist"]]
    figure, axis = small()
    axis.plot(trained, linewidth=2.5, **STYLE["AdaScale"])
    axis.plot(ends, quoted, color="0.5", linestyle="--", marker="*", markersize=9)
    axis.text(0.98, 0.9, "trained here", color="#0072B2", **_right(axis))
    axis.text(0.55, 0.2, "in the paper", color="0.35", **_right(axis))
    axis.set(ylim=(89, 97), yticks=[90, 95], ylabel="accuracy, %")
    _over(axis, trained.index)
    return figure


def small() -> tuple[Figure, Axes]:
    """Start a picture that is read at the size of a card."""
    return plt.subplots(figsize=(3.3, 1.4))


def _over(axis, budgets):
    axis.set(xscale="log", xlabel="noise budget ν")
    axis.set_xticks(budgets, [f"{nu:g}" for nu in budgets])
    axis.minorticks_off()


def _right(axis):
    return {"transform": axis.transAxes, "ha": "right", "fontweight": "bold"}


def committed() -> Iterator[str]:
    """Return the pictures of ``book/_static/opening``."""
    use_style()
    for draw in (states, future, observed, accuracy):
        yield as_svg(draw())
        plt.close()
