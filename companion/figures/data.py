"""The data behind a figure: as a table to download, and as a few lines of text that a comparison can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike

from adascale.scenario import FloatArray

COLUMNS = ["panel", "series", "drawn_as", "x", "y", "value"]
_SPREAD = 1.2345678  # so that the round numbers of a grid are no ties


def drawn_data(figure: Figure) -> pd.DataFrame:
    """Return every number that a figure draws, a row each.

    Columns ``panel`` (its number and the name of its vertical axis), ``series`` (the legend's name), ``drawn_as``,
    ``x``, ``y``, and ``value`` where a colour has one.  An interval or a band is given by its corners.
    """
    parts = []
    for number, axes in enumerate(figure.axes, 1):
        panel = _panel(number, axes)
        for series, kind, points in _series(axes):
            part = pd.DataFrame(
                points, columns=COLUMNS[3 : 3 + points.shape[1]]
            ).reindex(columns=COLUMNS[3:])
            parts.append(
                part.assign(panel=panel, series=series, drawn_as=kind)[COLUMNS]
            )
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    table = pd.concat(parts, ignore_index=True)
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
    held = np.asarray(values, dtype=float).ravel()
    finite = np.abs(held[np.isfinite(held)])
    held = np.where(np.abs(held) <= 1e-9 * finite.max(initial=0), 0.0, held)
    return f"{crc32(' '.join(f'{_SPREAD * value:.3e}' for value in held.tolist()).encode()):08x}"


def _panel(number: int, axes: Axes) -> str:
    return " ".join(filter(None, [f"{number}", axes.get_title(), axes.get_ylabel()]))


def _series(axes: Axes) -> Iterator[tuple[str, str, FloatArray]]:
    """Name, kind and points (n, 2 or 3) of what a panel draws; the parts of an error bar have the name of the whole."""
    named: dict[int, str] = {}
    caps: set[int] = set()
    for container in axes.containers:
        label = container.get_label()
        if isinstance(container, ErrorbarContainer):
            caps |= {
                id(cap) for cap in container[1]
            }  # the bar that they end says the same
        parts = (
            [*container.get_children()]
            if isinstance(container, ErrorbarContainer)
            else [*container]
        )
        named |= {
            id(part): str(label)
            for part in parts
            if label and not str(label).startswith("_")
        }
    for artist in axes.get_children():
        found = _points(artist, axes)
        if found is not None and id(artist) not in caps:
            kind, points = found
            label = str(artist.get_label() or "")
            yield (
                named.get(id(artist), "" if label.startswith("_") else label),
                kind,
                points,
            )


def _points(artist: Any, axes: Axes) -> tuple[str, FloatArray] | None:
    """What is drawn, and its points in the data's units; None of what is no data."""
    kind, found = "", np.empty((0, 2))
    if isinstance(artist, Line2D):
        kind = "points" if artist.get_linestyle() == "None" else "line"
        found = np.column_stack(
            [np.ma.filled(each, np.nan) for each in artist.get_data()]
        )
    elif isinstance(artist, LineCollection):
        segments = artist.get_segments()
        kind, found = "intervals", np.concatenate(segments) if segments else found
    elif isinstance(artist, QuadMesh):
        corners = np.asarray(artist.get_coordinates(), dtype=float)[:-1, :-1].reshape(
            -1, 2
        )
        kind, found = "cells", np.column_stack([corners, _plain(artist.get_array())])
    elif isinstance(artist, PathCollection):
        kind, found = "points", np.asarray(artist.get_offsets())
        if (values := artist.get_array()) is not None and np.size(values) == len(found):
            found = np.column_stack([found, _plain(values)])
    elif isinstance(artist, Collection):
        paths = [path.vertices for path in artist.get_paths()]
        kind, found = "area", np.concatenate(paths) if paths else found
    elif isinstance(artist, AxesImage):
        values = np.asarray(artist.get_array(), dtype=float)
        rows, columns = np.indices(values.shape[:2])
        flat = values.reshape(rows.size, -1).mean(
            axis=1
        )  # grey, of a picture in colours
        kind, found = "image", np.column_stack([columns.ravel(), rows.ravel(), flat])
    elif isinstance(artist, Rectangle):
        if artist is axes.patch:
            return None
        kind = "bar"
        found = np.array(
            [
                [artist.get_x(), artist.get_y()],
                [artist.get_x() + artist.get_width(), artist.get_height()],
            ]
        )
    elif isinstance(artist, Patch) and artist in axes.patches:
        kind, found = "area", np.asarray(artist.get_path().vertices)
    return (
        (kind, np.ma.filled(np.ma.asarray(found, dtype=float), np.nan))
        if len(found)
        else None
    )


def _plain(values: Any) -> FloatArray:
    filled: FloatArray = np.ma.filled(
        np.ma.asarray(values, dtype=float), np.nan
    ).ravel()
    return filled
