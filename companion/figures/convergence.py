"""The convergence bounds beside what they bound, data that are used again, and the floors' term over the rounds."""

from collections.abc import Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from adascale.scenario import FloatArray
from companion.bounds import ConvergenceBound
from companion.figures.style import CONTEXT, Look, name_curves, panels, shades
from companion.theory.convergence import reuse_breaks, reuse_left_side

_OWN, _OTHER = (shade["color"] for shade in reversed(shades(2)))
_LINES: dict[str, Look] = {
    **{
        term: CONTEXT | {"marker": marker, "markevery": 6, "label": f"{term} term"}
        for term, marker in zip(ConvergenceBound._fields, "XvDs", strict=True)
    },
    "total": {"color": "black", "linewidth": 2, "label": "the paper's bound"},
    "near": {"color": _OWN, "linestyle": "--", "label": "nearly exact bound"},
    "exact": {"color": _OWN, "linewidth": 1.5, "label": "left side, exact"},
}
_AXES = {
    "T": "rounds $T$",
    "rate": "learning rate $\\lambda$",
    "energy": "noise energy $w_t$, all rounds (no unit)",
    "spread": "heterogeneity $C_2$ (no unit)",
}
_DOT: Look = {
    "color": _OWN,
    "marker": "o",
    "linestyle": "none",
    "capsize": 3,
    "label": "_measured",
}


class Varied(NamedTuple):
    """One thing varied: the curves over it, and where the left side was measured."""

    places: FloatArray
    """Shape (K,)."""
    curves: Mapping[str, FloatArray]
    """Of :func:`companion.theory.convergence.compare`, each of shape (K,)."""
    dots: FloatArray
    """Shape (D,)."""
    measured: tuple[FloatArray, FloatArray]
    """Means and half widths of their intervals, shape (D,) each."""


def bounds(varied: Mapping[str, Varied]) -> Figure:
    """Draw both bounds, the paper's four terms and the left side, a panel for each thing that is varied."""
    figure, axes = panels(len(varied), 2.8, squeeze=False)
    for axis, (name, panel) in zip(axes.flat, varied.items(), strict=True):
        for line, style in _LINES.items():
            axis.loglog(panel.places, panel.curves[line], **style)
        axis.errorbar(panel.dots, *panel.measured, **_DOT)
        axis.set(xlabel=_AXES[name], ylabel="squared gradient (no unit)")
        name_curves(axis)
    return figure


def reused(bias: Mapping[str, tuple[FloatArray, FloatArray]], samples: int) -> Figure:
    """Draw the bias of the sampled gradient over the rounds, and the case in which reused data break the bound.

    ``bias`` has the :func:`~companion.theory.convergence.relative_bias` of ``"fixed data"`` and ``"fresh data"``;
    ``samples`` is n of the case (:prf:ref:`prop-reuse`).
    """
    figure, (first, second) = panels(2, 2.8)
    for (name, (curve, error)), color, marker in zip(
        bias.items(), (_OWN, _OTHER), "os", strict=True
    ):
        low = curve - 1.96 * error
        high = curve + 1.96 * error
        first.fill_between(
            np.arange(curve.size), low, high, color=color, alpha=0.2, linewidth=0
        )
        first.plot(curve, color=color, marker=marker, markevery=50, label=name)
    first.set(
        xlabel="round $t$", ylabel="relative bias $b_t$, 95 % bands", ylim=(-1, 0.3)
    )
    rounds = np.unique(np.geomspace(16, 1e5, 60).astype(int))
    second.loglog(
        rounds,
        reuse_left_side(samples, rounds),
        color=_OWN,
        marker="o",
        markevery=8,
        label="left side",
    )
    for k, style, marker in ((2, "-", "^"), (1, "--", "v")):
        crossing = reuse_breaks(samples, k)
        label = f"right side, $k^2 = {k}$"
        second.loglog(
            rounds, k / np.sqrt(rounds), color="black", linestyle=style, label=label
        )
        second.plot(
            crossing,
            k / np.sqrt(crossing),
            color="black",
            marker=marker,
            linestyle="none",
        )
    second.set(
        xlabel="rounds $T$, $\\lambda = 1/\\sqrt{T}$",
        ylabel="squared gradient over $\\sigma_y^2$",
    )
    name_curves(first, second)
    return figure


def floors_term(rounds: FloatArray, term: FloatArray, shift: float) -> Figure:
    r"""Draw the floors' term of the bound over the rounds under Rayleigh fading, beside Landau's median.

    ``term`` is :math:`\Phi_T` over :math:`\lambda_0 L \omega / 2` (:prf:ref:`prop-rayleigh`), shape (realisations, K).
    By Landau's law its median is :math:`(\ln T + \text{shift}) / \sqrt T`.
    """
    figure, axis = plt.subplots()
    low, middle, high = np.quantile(term, [0.05, 0.5, 0.95], axis=0)
    axis.fill_between(
        rounds, low, high, color=_OTHER, alpha=0.25, linewidth=0, label="_5 % to 95 %"
    )
    label = f"median of {len(term)} realisations"
    axis.loglog(rounds, middle, color=_OWN, marker="s", markevery=4, label=label)
    line = (np.log(rounds) + shift) / np.sqrt(rounds)
    name = f"$(\\ln T + {shift:.2f})\\,/\\,\\sqrt{{T}}$"
    axis.loglog(rounds, line, color="black", linestyle="--", label=name)
    axis.loglog(
        rounds,
        2 / np.sqrt(rounds),
        color="0.5",
        linestyle=":",
        label="$2/\\sqrt{T}$, a bounded mean",
    )
    axis.set(
        xlabel="rounds $T$", ylabel="$\\Phi_T$ over $\\lambda_0L\\omega/2$ (no unit)"
    )
    name_curves(axis, width=18)
    return figure
