"""The data behind a figure as text, so that what compares notebooks compares figures, too."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def described(figure: Figure) -> str:
    r"""What a figure shows, in numbers: a line for each panel, with mean and spread of what it draws.

    Pixels differ from machine to machine, and a comparison of notebooks leaves images out; this is what it reads
    instead, since Jupyter stores it beside the image as its plain text.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Its lines, error bars, bands, bars, points and images are read; decoration in units of a panel is not.
    """
    panels = [_panel(axes) for axes in figure.axes]
    return "\n".join([f"<Figure with {len(panels)} axes>", *panels])


def _panel(axes: Axes) -> str:
    drawn = [points for artist in axes.get_children() if (points := _points(artist, axes)).size]
    if not drawn:
        return "nothing"
    held = np.concatenate(drawn)
    x, y = (each[np.isfinite(each)] for each in held.T)
    if not x.size or not y.size:
        return f"{len(drawn)} drawn of {len(held)} points, none finite"
    return (
        f"{len(drawn)} drawn of {len(held)} points, x {x.mean():.4g} ± {x.std():.3g}, y {y.mean():.4g} ± {y.std():.3g}"
    )


def _points(artist: Any, axes: Axes) -> FloatArray:
    """The points of an artist in the data's units, shape (n, 2); none of what is no data."""
    found: Any = np.empty((0, 2))
    if isinstance(artist, Line2D) and artist.get_transform() == axes.transData:
        found = artist.get_xydata()
    elif isinstance(artist, LineCollection):
        segments = artist.get_segments()
        found = np.concatenate(segments) if segments else found
    elif isinstance(artist, PathCollection):
        found = artist.get_offsets()
    elif isinstance(artist, Collection):
        paths = [path.vertices for path in artist.get_paths()]
        found = np.concatenate(paths) if paths else found
        if (values := artist.get_array()) is not None:  # a mesh, by colour
            found = np.concatenate([found, np.stack([np.zeros(values.size), np.ravel(values)], axis=-1)])
    elif isinstance(artist, Rectangle) and artist in axes.patches:
        found = [[artist.get_x() + artist.get_width() / 2, artist.get_y() + artist.get_height()]]
    elif isinstance(artist, AxesImage):
        values = np.ma.filled(np.ma.asarray(artist.get_array(), dtype=float), np.nan).ravel()
        found = np.stack([np.zeros_like(values), values], axis=-1)
    return np.ma.filled(np.ma.asarray(found, dtype=float), np.nan).reshape(-1, 2)
