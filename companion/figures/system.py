"""The block diagram of a round."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.figures.style import WIDTH

_KNOB = "#D55E00"  # what the server chooses


def _block(axis, x, y, text, color="black"):
    box = {"boxstyle": "round,pad=0.4", "facecolor": "none", "edgecolor": color}
    axis.text(x, y, text, ha="center", va="center", bbox=box, color=color)


def _arrow(
    axis,
    start,
    end,
    linestyle="-",
):
    axis.annotate(
        "", end, start, arrowprops={"arrowstyle": "->", "linestyle": linestyle}
    )


def one_round() -> Figure:
    r"""Draw a round: devices, waves that add, receiver noise, server; what :math:`\eta_t` sets in another colour."""
    figure, axis = plt.subplots(figsize=(WIDTH, 4.3))
    axis.set(xlim=(0, 10.6), ylim=(0, 8.6))
    axis.axis("off")
    for y, name in [(8, "1"), (6, "2"), (4, "M")]:
        _block(axis, 0.7, y, f"$g_{{{name},t}}$")
        _block(
            axis,
            3.5,
            y,
            f"$\\times\\ \\sqrt{{\\eta_t}}\\,/\\,(M h_{{{name},t}})$",
            _KNOB,
        )
        _arrow(axis, (1.3, y), (1.9, y))
        x = np.linspace(5.2, 7.3, 100)
        line = y + (6 - y) * (x - 5.2) / 2.5
        axis.plot(x, line + 0.18 * np.sin(4 * np.pi * (x - 5.2) / 1.05), color="0.4")
        axis.text(5.9, y + 0.3 * (6 - y) + 0.5, f"$h_{{{name},t}}$", ha="center")
    axis.text(0.7, 5, "$\\vdots$", ha="center", va="center")
    _block(axis, 7.9, 6, "$+$")
    axis.text(7.9, 4.9, "the air adds", ha="center")
    _arrow(axis, (8.3, 6), (9.3, 6))
    _block(axis, 9.7, 6, "$+$")
    _arrow(axis, (9.7, 7.5), (9.7, 6.5))
    axis.text(10.4, 7.7, "receiver noise $n_t$", ha="right")
    _arrow(axis, (9.7, 5.5), (9.7, 2.6))
    _block(axis, 9.3, 2, "Re( )$/\\sqrt{\\eta_t}$", _KNOB)
    _arrow(axis, (7.9, 2), (7.2, 2))
    _block(axis, 5.3, 2, "$\\theta_{t+1} = \\theta_t - \\lambda \\tilde r_t$")
    _arrow(axis, (3.4, 2), (0.7, 2), "--")
    _arrow(axis, (0.7, 2), (0.7, 3.3), "--")
    axis.text(3.4, 0.9, "broadcast: the model, and $\\eta_{t+1}$", ha="center")
    return figure
