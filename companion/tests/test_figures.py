"""The figures draw the numbers that they are given, and name what they draw."""

import base64
import io
import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure

from adascale import Scenario, policies
from adascale.comparison import leakage_table
from adascale.statistics import log_interval
from companion import figures
from companion.figures import convergence, drawn_data, experiments, files, floors
from companion.figures.data import check_sum, described
from companion.figures.markup import download_link, embedded
from companion.methods import METHODS
from tests.problems import OnlySome

BUDGETS = [2e-3, 8e-3]  # OnlySome reaches the first
SMALL = Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
LANDAU = np.array([[1.0, 0.1], [2, 0.2], [3, 0.3]])
TERMS = ("initial", "heterogeneity", "sampling", "noise", "total", "near", "exact")
CURVES = {name: np.array([1.0, 2.0]) * k for k, name in enumerate(TERMS, 1)}
VARIED = convergence.Varied(
    np.array([1.0, 10]), CURVES, np.array([3.0]), (np.array([9.0]), np.array([1.0]))
)
FALLS = pd.DataFrame({0.01: [90.0, 80.0], 0.04: [89.0, 79.0], 0.16: [85.0, 75.2]})
SPREAD = convergence.bounds, dict.fromkeys(("T", "rate", "energy", "spread"), VARIED)
MEANS = floors.running_mean, np.array([0.1, 10.0]), np.array([16, 32]), ROWS, ROWS
# the figure with its data; and of its panels series and what they show
DRAWN = [
    (
        (floors.poured, np.array([3.0, 1.0, 2.0]), 2.5),
        {(0, "schedule $w_t$"): [2.5, 2.5, 3.0]},
    ),
    (
        (floors.over_rounds, ROWS, (0.01, 0.16)),
        {(k, f"realisation {k + 1}"): ROWS[k].tolist() for k in range(3)},
    ),
    (MEANS, {(0, "simulated"): [0.5] * 7 + [0] * 13, (1, "median, simulated"): [3, 4]}),
    (SPREAD, {(0, "the paper's bound"): [5, 10], (3, "left side, exact"): [7, 14]}),
    (
        (convergence.floors_term, np.array([100.0, 1000]), LANDAU, 1.2),
        {(0, "median of 3 realisations"): [2, 0.2]},
    ),
]
KINDS = {
    "line": lambda axes, y: axes.plot(np.arange(y.size), y),
    "points": lambda axes, y: axes.scatter(np.arange(y.size), y),
    "colours": lambda axes, y: axes.scatter(np.arange(y.size), np.arange(y.size), c=y),
    "bar": lambda axes, y: axes.bar(np.arange(y.size), y),
    "area": lambda axes, y: axes.fill_between(np.arange(y.size), 0, y),
    "error bars": lambda axes, y: axes.errorbar(
        np.arange(y.size), 0 * y, yerr=y, linestyle="none"
    ),
    "image": lambda axes, y: axes.imshow([y]),
    "cells": lambda axes, y: axes.pcolormesh(np.arange(y.size + 1), [0, 1], [y]),
    "steps": lambda axes, y: axes.stairs(y),
    "level": lambda axes, y: [axes.axhline(each) for each in y],
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


def named(figure):
    """What a figure calls its series, at their curves or in legends, each once and in one line."""
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
    texts = [text for each in legends if each is not None for text in each.get_texts()]
    texts += [text for axis in figure.axes for text in axis.texts]
    return [*dict.fromkeys(text.get_text().replace("\n", " ") for text in texts)]


def series(figure, name, panel=0):
    data = drawn_data(figure)
    return data[(data.panel == data.panel.unique()[panel]) & (data.series == name)]


def centres(axis):
    return [container.lines[0].get_ydata() for container in axis.containers]


@pytest.mark.parametrize(("drawing", "shown"), DRAWN)
def test_series_are_those_given(drawing, shown):
    draw, *given = drawing
    figure = draw(*given)
    for (panel, name), values in shown.items():
        found = series(figure, name, panel).y.tolist()
        assert found[-len(values) :] == pytest.approx(values)


def test_reused_data_cross_the_right_side_where_they_break_it():
    bias = {
        name: (np.zeros(5), np.full(5, 0.1)) for name in ("fixed data", "fresh data")
    }
    drawn = convergence.reused(bias, 20)
    left, right = (
        series(drawn, name, 1) for name in ("left side", "right side, $k^2 = 2$")
    )
    over = left.y.to_numpy() > right.y.to_numpy()
    assert (
        left.x[over].min() >= 1722 > left.x[~over].max()
    )  # test_convergence.py has 1722


def test_falls_are_paired_with_the_smallest_level_of_the_same_realisation():
    figure = experiments.falls({"one": FALLS, "two": FALLS[[0.01, 0.16]]}, (0.95, 0.9))
    one, two = centres(figure.axes[0])
    assert one == pytest.approx([-1, -4.9])
    assert two == pytest.approx([-4.9])
    assert set(named(figure)) == {"one", "two", "quoted by the paper"}


def test_one_training_shows_losses_above_no_noise_and_leakage_over_the_reference():
    made = (("Optimal", 1.5, 2.0), ("EqualAlloc", 1.25, 3.0), ("no noise", 1.0, np.inf))
    columns = {"round": [0, 1], "accuracy": [np.nan, 0.9]}
    ends = {
        name: {"test_loss": [np.nan, loss], "epsilon": [np.nan, epsilon]}
        for name, loss, epsilon in made
    }
    histories = {name: pd.DataFrame(columns | each) for name, each in ends.items()}
    figure = experiments.one_training(histories)
    assert [line.get_ydata().tolist() for line in figure.axes[1].lines[:2]] == [
        [0.5],
        [0.25],
    ]
    assert [line.get_ydata().tolist() for line in figure.axes[2].lines] == [
        [1.0],
        [1.5],
    ]
    drawn = {line.get_label() for axis in figure.axes for line in axis.lines}
    assert (
        set(named(figure)) == {"no noise", "Optimal", "EqualAlloc"} <= drawn
    )  # no entry without a line


def test_accuracy_bars_go_from_the_smallest_level_to_the_largest():
    rows = [
        (nu, seed, (70 - 10 * nu - seed) / 100, 0.5 + seed)
        for nu in (0.1, 0.2)
        for seed in range(3)
    ]
    made = pd.DataFrame(rows, columns=["nu", "seed", "test_accuracy", "floor_mean"])
    lone = made[(made.seed == 1) | (made.nu == 0.1)]  # of the others one end is missing
    figure = figures.accuracy_ends({"one": made, "other": lone}, (0.65, 0.6))
    bars = [
        line.get_ydata() for line in figure.axes[0].lines if len(line.get_ydata()) == 2
    ]
    np.testing.assert_allclose(
        bars, [[65, 60], [69, 68], [68, 67], [67, 66], [68, 67]], rtol=1e-12
    )
    names = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert names == [
        "the paper",
        *(f"realisation {seed},\nmean floor\n{0.5 + seed:.2f}" for seed in range(3)),
    ]
    assert named(figure)[:2] == ["one", "other"]


@pytest.fixture(scope="module")
def table():
    return leakage_table(SMALL, BUDGETS, range(12), METHODS)


class Cautious(policies.EqualAlloc):
    """Leaves half of every budget unspent."""

    label = "half of it"

    def start(self, scenario, budget):
        return super().start(scenario, budget / 2)


def test_a_policy_of_ones_own_is_drawn_under_its_label_with_what_must_be_said_of_its_cost():
    table = leakage_table(
        SMALL, BUDGETS, range(3), {"Optimal": policies.Optimal, "Cautious": Cautious}
    )
    for drawn in (figures.leakage(table), figures.gap(table)):
        assert "half of it (cost is not $\\nu$)" in named(drawn)


def test_what_a_policy_cannot_reach_is_counted_and_not_drawn():
    table = leakage_table(
        SMALL, BUDGETS, range(3), {"Optimal": policies.Optimal, "OnlySome": OnlySome}
    )
    drawn = figures.leakage(table)
    assert "OnlySome (3 of 6 cannot reach $\\nu$)" in named(drawn)
    color = figures.policy_style("OnlySome", table.policy)["color"]
    drawn_at = np.concatenate(
        [line.get_xdata() for line in drawn.axes[0].lines if line.get_color() == color]
    )
    assert drawn_at.tolist() == [BUDGETS[0]]


def test_policies_differ_in_colour_and_in_marker():
    names = [*figures.STYLE, "Mine", "Theirs"]
    styles = [figures.policy_style(name, names) for name in names]
    for key in ("color", "marker"):
        assert len({style[key] for style in styles}) == len(names)


def test_names_stand_at_their_curves_in_their_colours_and_never_touch():
    axis = plt.subplots(figsize=(4, 2), layout="constrained")[1]
    ends = {"low": 0.0, "as low": 0.01, "between, in two lines": 0.02, "high": 1.0}
    for (name, end), look in zip(ends.items(), figures.shades(4), strict=True):
        axis.plot([0, 1], [0.5, end], label=name, **look)
    figures.name_curves(axis)
    figure = axis.figure
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert [text.get_text().replace("\n", " ") for text in axis.texts] == [
        *ends
    ]  # from below
    assert all(
        upper.y0 > lower.y0 + 0.8 * lower.height
        for lower, upper in itertools.pairwise(boxes)
    )
    assert (
        abs(boxes[-1].y0 + boxes[-1].height / 2 - axis.transData.transform((1, 1))[1])
        < boxes[-1].height
    )
    assert len({text.get_color() for text in axis.texts}) == len(ends)
    assert max(box.x1 for box in boxes) < figure.bbox.x1 + 1  # the axes make room


def test_realisations_are_drawn_each_and_relative_to_their_own_optimum(table):
    drawn = figures.realisations(table)
    assert {"Liu & Simeone", "Shi et al.", "realisation 12"} <= {*named(drawn)}
    wide = table.pivot(index=["nu", "seed"], columns="policy", values="epsilon")
    ratio = wide["EqualAlloc"] / wide["Optimal"]
    lines = {
        line.get_label(): line.get_ydata().tolist() for line in drawn.axes[2].lines
    }
    assert sorted(lines["_EqualAlloc, realisations"]) == pytest.approx(sorted(ratio))
    assert lines["EqualAlloc"] == pytest.approx(
        np.exp(np.log(ratio).groupby("nu").mean()).tolist()
    )
    highest = max(
        log_interval(rows).high
        for _, rows in table[table.policy == "AdaScale"].groupby("nu").rdp
    )
    assert drawn.axes[0].collections[0].get_paths()[0].vertices[
        :, 1
    ].max() == pytest.approx(highest)


def test_a_panel_of_the_paper_has_its_accuracies_above_and_what_changes_below(table):
    less = table.assign(
        rdp=table.rdp.where(table.policy != "AdaScale", 0.9 * table.rdp)
    )
    drawn = figures.paper_panel(
        {"one": table, "other": less[less.seed < 3]}, "rdp", (0.95, 0.9)
    )
    policies, ends = (
        {"Optimal", "AdaScale", "EqualAlloc", "EstimFuture"},
        ("95 %", "90 %"),
    )
    assert {*named(drawn)} == policies | {f"the paper: {end} accuracy" for end in ends}
    above, below = drawn.axes
    assert [
        ("one" in axis.get_ylabel(), "other" in axis.get_ylabel())
        for axis in drawn.axes
    ] == [(1, 0), (0, 1)]
    lines = {line.get_label(): line for line in above.lines}
    mean = table[table.policy == "AdaScale"].groupby("nu").rdp.mean()
    assert lines["AdaScale"].get_ydata().tolist() == pytest.approx(mean.tolist())
    stated = [text for text in above.texts if "accuracy" in text.get_text()]
    assert [(text.xy[0], text.xy[1] > 1) for text in stated] == [
        (nu, True) for nu in BUDGETS
    ]
    assert [text.get_text() for text in below.texts] == [
        "AdaScale"
    ]  # the others are the same in both
    assert centres(below)[0] == pytest.approx([-10, -10])


def test_notebook_shows_a_table_with_its_minus_signs(shell):
    table = pd.DataFrame({"change": ["-0.5"]})
    assert "−0.5" not in table._repr_html_()
    figures.use_style()
    shown, _ = shell.display_formatter.format(table)
    assert "−0.5" in shown["text/html"]
    assert "-0.5" in shown["text/plain"]


def test_a_download_link_holds_its_table():
    table = pd.DataFrame({"nu": [0.01, 0.16], "rdp": [1 / 3, 2.0]})
    found = download_link(table, "t.csv").data
    assert 'download="t.csv"' in found
    data = base64.b64decode(re.search(r"base64,([^\"]+)", found)[1])
    pd.testing.assert_frame_equal(
        pd.read_csv(io.BytesIO(data)), table, rtol=1e-5
    )  # six digits


def test_an_embedded_figure_has_its_picture_and_its_words():
    found = embedded(Figure(), 'it "falls" & falls').data
    assert 'alt="it &quot;falls&quot; &amp; falls"' in found
    assert base64.b64decode(re.search(r"base64,([^\"]+)", found)[1]).startswith(
        b"\x89PNG"
    )


@pytest.fixture
def axes():
    return plt.subplots()[1]


@pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS)
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
        other = (
            values * (1 + 4e-16 * rng.standard_normal(values.shape))
            + 1e-17 * values.max()
        )
        assert check_sum(values) == check_sum(other)
    assert check_sum([1 - 1e-15, -1e-30, 3]) == check_sum([1 + 1e-15, 0.0, 3])
    assert check_sum([1, np.nan]) != check_sum([1, np.inf])


def test_the_table_has_every_point_under_its_name(axes):
    axes.plot([1, 2], [3, 4], label="here")
    axes.scatter([5], [6], c=[7])
    found = drawn_data(axes.figure)
    assert found.loc[1, ["panel", "series", "drawn_as", "x", "y"]].tolist() == [
        "1",
        "here",
        "line",
        2,
        4,
    ]
    assert found.iloc[-1][["x", "y", "value"]].tolist() == [5, 6, 7]
    plt.close(figure := plt.figure())
    assert drawn_data(figure).empty


def test_a_notebook_gets_picture_text_and_files_whatever_the_backend_registers(
    axes, shell
):
    from IPython.core.pylabtools import select_figure_formats

    figures.use_style()
    select_figure_formats(
        shell, {"png"}
    )  # as matplotlib's inline backend does after the first cell
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
