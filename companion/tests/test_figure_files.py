"""A figure of a notebook on its page: as SVG, with its files under it."""

import html
import re
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

from companion.figures import LABELS, STYLE, files

ROOT = Path(__file__).parents[2]
PHONE = 358
# So wide is a figure at most on a page of 1440 px and of 390 px, and so large are its words at least, in px.
READABLE = {774: 11, PHONE: 9}


def smallest_word(svg, column=774):
    """The font size of the smallest words of a figure on its page, in px; exponents and indices may be smaller."""
    width = float(re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)[1])
    sizes = [
        100 * float(size)
        for size in re.findall(
            r"translate\([^)]*\)(?: rotate\([^)]*\))? scale\(([\d.]+) -", svg
        )
    ]
    return min(sizes) * min(96 / 72, column / width)


METHODS = {
    name.replace(" ", "-"): look["color"].lower()
    for policy, look in STYLE.items()
    for name in (policy, LABELS[policy])
}


def colours(svg):
    """The colours of each series that a figure calls by the name of a method, or by that of a variant."""
    for name, drawn in re.findall(
        r'<g id="\d+-([^"]*)">(.*?)</g>\s*(?=<g id=|</g>)', svg, flags=re.DOTALL
    ):
        name = html.unescape(name)
        for method, color in METHODS.items():
            if name == method or name.startswith(f"{method},"):
                seen = {*re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawn)} - {
                    "#ffffff"
                }
                yield name, seen or {"#000000"}, color  # black is left out of an SVG


@cache
def figures_of(path):
    return [
        files.unpacked(output.metadata[files.KEY])["svg"]
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
        if files.KEY in output.get("metadata", {})
    ]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_figures_are_readable_and_a_method_has_one_colour(path):
    for svg in figures_of(path):
        for column, least in READABLE.items():
            assert smallest_word(svg, column) >= least
        # no box on a dark page
        assert (
            "fill: #ffffff" not in svg.partition('id="patch_2"')[2].partition("</g>")[0]
        )
        assert [(name, seen) for name, seen, own in colours(svg) if seen != {own}] == []


@pytest.mark.parametrize("drawn", ["plot", "errorbar"])
def test_another_colour_is_noticed(drawn):
    figure, axes = plt.subplots()
    getattr(axes, drawn)([1, 2], [1, 2], label="Learn, hard", **STYLE["Learn"])
    getattr(axes, drawn)([1, 2], [2, 1], label="AdaScale, warm", color="red")
    svg = files.as_svg(figure)
    plt.close(figure)
    assert [seen == {own} for _, seen, own in colours(svg)] == [True, False]
