"""The data behind a figure, as text."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from adascale.paper.figures import described


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def text(axes):
    return described(axes.figure).split("\n")[1]


def test_a_line_is_its_points_and_their_means(axes):
    axes.plot([1, 2, 3], [2.0, np.nan, 4.0])
    assert described(axes.figure).split("\n") == ["<Figure with 1 axes>", "1 drawn of 3 points, x 2 ± 0.816, y 3 ± 1"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes, y: axes.plot([0, 1], y),
        lambda axes, y: axes.scatter([0, 1], y),
        lambda axes, y: axes.bar([0, 1], y),
        lambda axes, y: axes.fill_between([0, 1], 0, y),
        lambda axes, y: axes.errorbar([0, 1], [0, 0], yerr=y, linestyle="none"),
        lambda axes, y: axes.imshow([y]),
        lambda axes, y: axes.pcolormesh([0, 1, 2], [0, 1], [y]),
        lambda axes, y: axes.step([0, 1], y),
    ],
)
def test_another_value_of_anything_drawn_is_another_text(axes, draw):
    draw(axes, np.array([1.0, 2.0]))
    one = text(axes)
    axes.clear()
    draw(axes, np.array([1.0, 2.0]))
    assert text(axes) == one  # the same drawing has the same text
    axes.clear()
    draw(axes, np.array([1.0, 2.1]))
    assert text(axes) != one


def test_what_is_no_data_is_left_out(axes):
    axes.plot([0, 1], [0, 1], label="a line")
    one = text(axes)
    axes.legend()
    axes.set_title("a title")
    axes.axvline(0.3)
    axes.text(0.1, 0.2, "words")
    assert text(axes) == one


def test_an_empty_panel_has_nothing(axes):
    assert text(axes) == "nothing"
