"""The data behind a figure: as a table to download, and as a few lines of text that a comparison can read."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from matplotlib.collections import Collection, LineCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike

COLUMNS = ["panel", "series", "drawn_as", "x", "y", "value"]
_SPREAD = 1.2345678  # so that the round numbers of a grid are no ties


def drawn_data(figure: Figure) -> pd.DataFrame:
    """Return every number that a figure draws, a row each.

    Columns ``panel`` (its number and the name of its vertical axis), ``series`` (the legend's name), ``drawn_as``,
    ``x``, ``y``, and ``value`` of the cells of a grid.  An interval or a band is given by its corners.
    """
    parts = []
    for number, axes in enumerate(figure.axes, 1):
        panel = _panel(number, axes)
        for series, kind, points in _series(axes):
            part = pd.DataFrame(points, columns=COLUMNS[3 : 3 + points.shape[1]])
            parts.append(part.assign(panel=panel, series=series, drawn_as=kind))
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    table = pd.concat(parts, ignore_index=True).reindex(columns=COLUMNS)
    return table.dropna(axis="columns", how="all")


def described(figure: Figure) -> str:
    """Return what a figure shows as text: a line for each series, with a number that another datum would change.

    Pixels differ from machine to machine, and a comparison of notebooks leaves images out.  This text it reads.  The
    last number of a line is a check sum of all its values at four significant digits: one value that moves by 1e-3 of
    itself changes it, and the rounding of another machine does not.
    """
    lines = [f"Figure with {len(figure.axes)} panel{'s' * (len(figure.axes) != 1)}"]
    for number, axes in enumerate(figure.axes, 1):
        lines.append(_panel(number, axes))
        for series, kind, points in _series(axes):
            ends = (
                " to ".join(f"{value:.3g}" for value in points[[0, -1], 1])
                if len(points)
                else "nothing"
            )
            lines.append(
                f"  {series or 'no name'}: {kind} of {len(points)}, {ends}, {check_sum(points)}"
            )
    return "\n".join(lines)


def check_sum(values: ArrayLike) -> str:
    """Return eight digits that hold for values of four significant digits; what is 1e-9 of the largest is 0."""
    numbers = np.asarray(values, dtype=float).ravel()
    finite = np.abs(numbers[np.isfinite(numbers)])
    numbers = np.where(np.abs(numbers) <= 1e-9 * finite.max(initial=0), 0.0, numbers)
    return f"{crc32(' '.join(f'{_SPREAD * value:.3e}' for value in numbers.tolist()).encode()):08x}"


def _panel(number, axes):
    return " ".join(filter(None, [f"{number}", axes.get_title(), axes.get_ylabel()]))


def _series(axes):
    """Name, kind and points (n, 2 or 3) of what a panel draws.

    Containers are error bars, whose parts have the name of the whole.  Their caps are left out, as bars say the same.
    """
    names = {}
    caps = []
    for container in axes.containers:
        name = _visible(container.get_label())
        names |= dict.fromkeys(map(id, container.get_children()), name)
        caps += container[1]
    artists = axes.get_children()
    for artist in artists:
        kind, points = _points(artist, axes)
        if kind == "line" and artist.get_linestyle() == "None":
            kind = "points"
        if len(points) and artist not in caps:
            name = names.get(id(artist)) or _visible(artist.get_label())
            yield name, kind, np.ma.filled(np.ma.asarray(points, float), np.nan)


def _visible(label):
    """Return the name that a legend shows for a label."""
    name = str(label or "")
    return "" if name.startswith("_") else name


def _points(artist, axes):
    """Return what is drawn, and its points in the data's units; none of what is no data."""
    if isinstance(artist, Patch) and artist not in axes.patches:
        return "", []  # the frame
    for artists, kind, points in _KINDS:
        if isinstance(artist, artists):
            return kind, points(artist)
    return "", []


def _cells(artist):
    """Return the lower left corner of every cell, and its value, NaN where it is masked."""
    corners = np.asarray(artist.get_coordinates(), dtype=float)[:-1, :-1]
    values = np.ma.filled(np.ma.asarray(artist.get_array(), dtype=float), np.nan)
    return np.column_stack([corners.reshape(-1, 2), values.ravel()])


def _line(artist):
    return np.column_stack([np.ma.filled(part, np.nan) for part in artist.get_data()])


def _corners(artist):
    x, y = artist.get_xy()
    return np.array([[x, y], [x + artist.get_width(), artist.get_height()]])


def _outlines(artist):
    return np.concatenate([path.vertices for path in artist.get_paths()] or [[]])


# the first that an artist belongs to counts
_KINDS: list[tuple[type, str, Callable[[Any], Any]]] = [
    (Line2D, "line", _line),
    (
        LineCollection,
        "intervals",
        lambda artist: np.concatenate(artist.get_segments() or [[]]),
    ),
    (QuadMesh, "cells", _cells),
    (Collection, "area", _outlines),
    (Rectangle, "bar", _corners),
    (Patch, "area", lambda artist: artist.get_path().vertices),
]
