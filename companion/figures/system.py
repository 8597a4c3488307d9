"""The block diagram of a round."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_KNOB = "#D55E00"  # what the server chooses


def _block(axis: Axes, x: float, y: float, text: str, color: str = "black") -> None:
    box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": color}
    axis.text(x, y, text, ha="center", va="center", bbox=box, color=color)


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float], linestyle: str = "-") -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "linestyle": linestyle})


def one_round() -> Figure:
    r"""Draw a round: devices, waves that add, receiver noise, server; all that :math:`\eta_t` sets in another colour.

    Returns
    -------
    matplotlib.figure.Figure
        Without axes to read; (:eq:`eq:transmit-weight`, :eq:`eq:received`, :eq:`eq:model-update`).
    """
    figure, axis = plt.subplots(figsize=(9, 3.4))
    axis.set(xlim=(0, 18), ylim=(0, 7))
    axis.axis("off")
    for y, name in [(6, "1"), (4, "2"), (2, "M")]:
        _block(axis, 1.2, y, f"$g_{{{name},t}}$")
        _block(axis, 4.4, y, f"$\\times\\ \\sqrt{{\\eta_t}}\\,/\\,(M h_{{{name},t}})$", _KNOB)
        _arrow(axis, (1.9, y), (2.6, y))
        x = np.linspace(6.3, 8.7, 100)
        line = y + (4 - y) * (x - 6.3) / 2.8
        axis.plot(x, line + 0.18 * np.sin(4 * np.pi * (x - 6.3) / 1.2), color="#0072B2")
        axis.text(7.0, y + 0.35 * (4 - y) + 0.55, f"$h_{{{name},t}}$", ha="center")
    axis.text(1.2, 3, "$\\vdots$", ha="center", va="center")
    _block(axis, 9.3, 4, "$+$")
    axis.text(9.3, 2.6, "the air adds", ha="center")
    _arrow(axis, (9.7, 4), (10.8, 4))
    _block(axis, 11.2, 4, "$+$")
    _arrow(axis, (11.2, 5.9), (11.2, 4.5))
    axis.text(11.2, 6.2, "receiver noise $n_t$", ha="center")
    _arrow(axis, (11.6, 4), (12.2, 4))
    _block(axis, 13.4, 4, "Re( )$/\\sqrt{\\eta_t}$", _KNOB)
    _arrow(axis, (14.6, 4), (15, 4))
    _block(axis, 16.4, 4, "$\\theta_{t+1} = \\theta_t - \\lambda \\tilde r_t$")
    _arrow(axis, (16.4, 3.4), (16.4, 0.7))
    _arrow(axis, (16.4, 0.7), (1.2, 0.7), "--")
    _arrow(axis, (1.2, 0.7), (1.2, 1.4), "--")
    axis.text(8.8, 0.95, "broadcast: the model, and $\\eta_{t+1}$", ha="center")
    return figure
