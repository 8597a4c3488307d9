"""The data behind a figure: as text that a comparison of notebooks reads, as a table, and as files."""

import base64
import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt
from IPython.core.interactiveshell import InteractiveShell

from companion import figures
from companion.figures import files
from companion.figures.data import check_sum, described, drawn_data


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


DRAWN = {
    "line": lambda axes, y: axes.plot(np.arange(y.size), y),
    "points": lambda axes, y: axes.scatter(np.arange(y.size), y),
    "colours": lambda axes, y: axes.scatter(np.arange(y.size), np.arange(y.size), c=y),
    "bar": lambda axes, y: axes.bar(np.arange(y.size), y),
    "area": lambda axes, y: axes.fill_between(np.arange(y.size), 0, y),
    "error bars": lambda axes, y: axes.errorbar(np.arange(y.size), 0 * y, yerr=y, linestyle="none"),
    "image": lambda axes, y: axes.imshow([y]),
    "cells": lambda axes, y: axes.pcolormesh(np.arange(y.size + 1), [0, 1], [y]),
    "steps": lambda axes, y: axes.stairs(y),
    "level": lambda axes, y: [axes.axhline(each) for each in y],
}
VALUES = np.random.default_rng(0).lognormal(0, 3, size=40)


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
@pytest.mark.parametrize("where", [0, 39])
def test_one_datum_that_moves_by_a_thousandth_is_another_text(axes, draw, where):
    def text(values):
        axes.clear()
        draw(axes, values)
        return described(axes.figure)

    moved = VALUES.copy()
    moved[where] *= 1.001
    assert text(VALUES) == text(VALUES.copy())
    assert text(moved) != text(VALUES)


def test_rounding_of_another_machine_is_the_same_text(axes):
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = np.linspace(0, 1, 801) * rng.lognormal(0, 5)
        other = values * (1 + 4e-16 * rng.standard_normal(values.shape)) + 1e-17 * values.max()
        assert check_sum(values) == check_sum(other)


def test_a_number_on_either_side_of_a_power_of_ten_is_the_same():
    assert check_sum([1 - 1e-15, -1e-30, 3]) == check_sum([1 + 1e-15, 0.0, 3])
    assert check_sum([1, np.nan]) != check_sum([1, np.inf])


def test_the_text_names_what_is_drawn_and_says_its_ends(axes):
    axes.set_ylabel("leakage [nats]")
    axes.errorbar([1, 2, 3], [2.0, 1.0, 0.5], yerr=0.1, capsize=3, label="AdaScale")
    lines = described(axes.figure).split("\n")
    assert lines[:2] == ["Figure with 1 panel", "1 leakage [nats]"]
    assert [line.rpartition(",")[0] for line in lines[2:]] == [
        "  AdaScale: line of 3, 2 to 0.5",
        "  AdaScale: intervals of 6, 1.9 to 0.6",
    ]


def test_words_and_decoration_are_no_data(axes):
    axes.plot([0, 1], [0, 1], label="a line")
    before = drawn_data(axes.figure)
    axes.legend()
    axes.text(0.1, 0.2, "words")
    axes.annotate("more", (0, 0))
    pd.testing.assert_frame_equal(drawn_data(axes.figure), before)


def test_the_table_has_every_point_under_its_name(axes):
    axes.plot([1, 2], [3, 4], label="here")
    axes.scatter([5], [6], c=[7])
    found = drawn_data(axes.figure)
    assert found.loc[1, ["panel", "series", "drawn_as", "x", "y"]].tolist() == ["1", "here", "line", 2, 4]
    assert found.iloc[-1][["x", "y", "value"]].tolist() == [5, 6, 7]
    plt.close(figure := plt.figure())
    assert drawn_data(figure).empty


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_notebook_gets_picture_text_and_files_whatever_the_backend_registers(axes, shell):
    from IPython.core.pylabtools import select_figure_formats

    figures.use_style()
    select_figure_formats(shell, {"png"})  # as matplotlib's inline backend does after the first cell
    axes.plot([1, 2], [3.0, 4.0], label="here")
    data, metadata = shell.display_formatter.format(axes.figure)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == described(axes.figure)
    found = files.unpacked(metadata[files.KEY])
    assert "<svg" in found["svg"]
    assert pd.read_csv(io.StringIO(found["csv"])).y.tolist() == [3, 4]


def test_the_same_figure_is_the_same_file_and_a_large_one_has_pixels(axes):
    figures.use_style()
    axes.plot([1, 2], [3.0, 4.0])
    assert files.as_svg(axes.figure) == files.as_svg(axes.figure)
    assert "<image" not in files.as_svg(axes.figure)
    axes.plot(*np.random.default_rng(0).standard_normal((2, 50_000)), "o")
    drawn = files.as_svg(axes.figure)
    assert "<image" in drawn
    assert len(drawn) < 2 * files.LARGE
