"""The figures draw the numbers that they are given, and name what they draw."""

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats

from companion import figures
from companion.figures import drawn_data, files
from companion.figures.data import check_sum, described

ARTISTS = {
    "line": lambda axes, y: axes.plot(np.arange(y.size), y),
    "error bars": lambda axes, y: axes.errorbar(
        np.arange(y.size), 0 * y, yerr=y, linestyle="none"
    ),
    "cells": lambda axes, y: axes.pcolormesh(np.arange(y.size + 1), [0, 1], [y]),
    "steps": lambda axes, y: axes.stairs(y),
}
VALUES = np.random.default_rng(0).lognormal(0, 3, size=40)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.fixture
def axes():
    figures.use_style()
    return plt.subplots()[1]


def test_policies_differ_in_colour_and_marker():
    names = [*figures.STYLE, "Mine", "Theirs"]
    styles = [figures.policy_style(name, names) for name in names]
    for key in ("color", "marker"):
        assert len({style[key] for style in styles}) == len(names)
    assert figures.policy_style("Learn, hard") == figures.policy_style("Learn")


@pytest.mark.parametrize("draw", ARTISTS.values(), ids=ARTISTS)
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


def test_rounding_of_another_machine_is_the_same_text():
    rng = np.random.default_rng(1)
    values = np.linspace(0, 1, 801) * rng.lognormal(0, 5, (20, 1))
    noise = 4e-16 * rng.standard_normal(values.shape)
    for row, error in zip(values, noise, strict=True):
        assert check_sum(row) == check_sum(row * (1 + error) + 1e-17 * row.max())
    assert check_sum([1, np.nan]) != check_sum([1, np.inf])


def test_the_table_has_every_point_under_its_name_and_no_words(axes):
    axes.plot([1, 2], [3, 4], label="here")
    axes.pcolormesh([5, 6], [6, 7], [[7]])
    axes.legend()
    axes.annotate("words", (0, 0))
    data = drawn_data(axes.figure)
    assert data.loc[1, ["panel", "series", "drawn_as", "x", "y"]].tolist() == [
        "1",
        "here",
        "line",
        2,
        4,
    ]
    assert data.iloc[-1][["x", "y", "value"]].tolist() == [5, 6, 7]
    assert len(data) == 3
    assert drawn_data(plt.figure()).empty


def test_a_notebook_gets_tables_pictures_text_and_files(axes, shell):
    figures.use_style()
    select_figure_formats(shell, {"png"})  # as matplotlib's inline backend does
    axes.plot([1, 2], [3.0, 4.0], label="here")
    data, metadata = shell.display_formatter.format(axes.figure)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == described(axes.figure)
    stored = files.unpacked(metadata[files.KEY])
    assert "<svg" in stored["svg"]
    assert pd.read_csv(io.StringIO(stored["csv"])).y.tolist() == [3, 4]
    shown, _ = shell.display_formatter.format(pd.DataFrame({"change": ["-0.5"]}))
    assert "−0.5" in shown["text/html"]
    assert "-0.5" in shown["text/plain"]
