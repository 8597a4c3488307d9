"""What a notebook stores of a figure: a picture, its data as text, and with them the files that a page offers."""

import base64
import io
import json
import re
import zlib
from typing import Any

from matplotlib.figure import Figure

from companion.figures.data import described, drawn_data

LARGE = 250_000
"""Bytes of SVG above which the points of a figure are stored as pixels."""

KEY = "adascale-figure"
"""The name of the files in the metadata of an output."""


def in_notebook(
    figure: Figure, include: Any = None, exclude: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return data and metadata of a figure in a notebook, as IPython asks a class for them.

    The data are :func:`~companion.figures.described`, beside the picture, which matplotlib's backend draws; the figure
    as SVG and its data as CSV are in the metadata, which no comparison of notebooks reads.
    """
    if not (figure.axes or figure.lines):
        return {}, {}
    files = {
        "svg": as_svg(figure),
        "csv": drawn_data(figure).to_csv(index=False, float_format="%.6g"),
    }
    return {"text/plain": described(figure)}, {KEY: packed(files)}


def as_svg(figure: Figure) -> str:
    """Return the figure as SVG; if it is large, its artists become rasterised."""
    for number, axes in enumerate(figure.axes, 1):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            line = handle[0] if isinstance(handle, tuple) else handle
            if line is not None:  # of an error bar without a line
                line.set_gid(f"{number}-{label}".replace(" ", "-"))
    svg = _saved(figure)
    if len(svg) > LARGE:
        for axes in figure.axes:
            for artist in (*axes.lines, *axes.collections, *axes.patches):
                artist.set_rasterized(True)
        svg = _saved(figure)
    return svg


def packed(files: dict[str, str]) -> str:
    """Texts by name, compressed, as one word."""
    return base64.b64encode(zlib.compress(json.dumps(files).encode(), 9)).decode()


def unpacked(word: str) -> dict[str, str]:
    """Return the texts that :func:`packed` compressed."""
    return json.loads(zlib.decompress(base64.b64decode(word)))


def _saved(figure):
    """Return the figure as SVG, without a date, and clear, since a page is light or dark."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format="svg",
        bbox_inches="tight",
        metadata={"Date": None},
        transparent=True,
    )
    # two decimals of a point are enough for what is seen
    digits = re.compile(r"(\d+\.\d\d)\d+")
    svg = re.sub(
        r'(?<= (?:d|x|y)=")[^"]*|(?<=translate\()[^)]*',
        lambda match: digits.sub(r"\1", match[0]),
        buffer.getvalue().decode(),
    )
    # markers of one look say it once
    return re.sub(
        r'(<g[^>]*)>(\s*<use [^>]*)( style="[^"]*")/>((?:\s*<use [^>]*\3/>)+)',
        lambda match: (
            f"{match[1]}{match[3]}>{match[2]}/>{match[4].replace(match[3], '')}"
        ),
        svg,
    )
