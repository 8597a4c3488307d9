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
from IPython.core.pylabtools import select_figure_formats
from matplotlib.figure import Figure

from adascale import Scenario, channel, policies
from adascale.comparison import leakage_table
from adascale.statistics import log_interval
from companion import figures
from companion.figures import convergence, drawn_data, experiments, files, floors
from companion.figures.data import check_sum, described
from companion.figures.markup import download_link, embedded
from companion.methods import METHODS
from tests.problems import MNIST, OnlySome

BUDGETS = [2e-3, 8e-3]  # OnlySome reaches the first
SMALL = Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
LANDAU = np.array([[1.0, 0.1], [2, 0.2], [3, 0.3]])
TERMS = ("initial", "heterogeneity", "sampling", "noise", "total", "near", "exact")
CURVES = {name: np.array([1.0, 2.0]) * k for k, name in enumerate(TERMS, 1)}
VARIED = convergence.Varied(
    np.array([1.0, 10]), CURVES, np.array([3.0]), (np.array([9.0]), np.array([1.0]))
)
PLACES = channel.draw(10, 1, seed=range(3))
FALLS = pd.DataFrame({0.01: [90.0, 80.0], 0.04: [89.0, 79.0], 0.16: [85.0, 75.2]})
BIAS = {name: (np.zeros(5), np.full(5, 0.1)) for name in ("fixed data", "fresh data")}
# a figure with its data; and of its panels series and the last values that they show
DRAWN = [
    (
        lambda: floors.poured(np.array([3.0, 1.0, 2.0]), 2.5),
        {(0, "schedule $w_t$"): [2.5, 2.5, 3.0]},
    ),
    (
        lambda: floors.over_rounds(ROWS, (0.01, 0.16)),
        {(k, f"realisation {k + 1}"): ROWS[k].tolist() for k in range(3)},
    ),
    (
        lambda: floors.running_mean(
            np.array([0.1, 10.0]), np.array([16, 32]), ROWS, ROWS
        ),
        {(0, "simulated"): [0.5] * 7 + [0] * 13, (1, "median, simulated"): [3, 4]},
    ),
    (
        lambda: floors.farthest(MNIST, PLACES.distance, ROWS[:, 0]),
        {(0, "one realisation"): [1, 3, 5]},
    ),
    (
        lambda: convergence.bounds(dict.fromkeys(("T", "rate"), VARIED)),
        {(0, "the paper's bound"): [5, 10], (1, "left side, exact"): [7, 14]},
    ),
    (
        lambda: convergence.floors_term(np.array([100.0, 1000]), LANDAU, 1.2),
        {(0, "median of 3 realisations"): [2, 0.2]},
    ),
    (
        lambda: convergence.reused(BIAS, 20),
        {(0, "fresh data"): [0] * 5, (1, "right side, $k^2 = 2$"): [2 / 1e5**0.5]},
    ),
]
ARTISTS = {
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
    return plt.subplots()[1]


@pytest.fixture(scope="module")
def table():
    return leakage_table(SMALL, BUDGETS, range(12), METHODS)


def named(figure):
    """What a figure calls its series, at their curves or in legends, in one line each."""
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
    texts = [text for legend in legends if legend for text in legend.get_texts()]
    texts += [text for axis in figure.axes for text in axis.texts]
    return {text.get_text().replace("\n", " ") for text in texts}


def lines(axis):
    return {line.get_label(): [*line.get_ydata()] for line in axis.lines}


def centres(axis):
    return [container.lines[0].get_ydata() for container in axis.containers]


@pytest.mark.parametrize(("draw", "shown"), DRAWN)
def test_series_are_those_given(draw, shown):
    data = drawn_data(draw())
    panels = data.panel.unique()
    for (panel, name), values in shown.items():
        series = data[(data.panel == panels[panel]) & (data.series == name)]
        assert series.y.tolist()[-len(values) :] == pytest.approx(values)


def test_falls_are_paired_by_realisation():
    figure = experiments.falls({"one": FALLS, "two": FALLS[[0.01, 0.16]]}, (0.95, 0.9))
    one, two = centres(figure.axes[0])
    assert one == pytest.approx([-1, -4.9])
    assert two == pytest.approx([-4.9])
    assert named(figure) == {"one", "two", "quoted by the paper"}


def test_one_training_is_drawn_relative_to_its_references():
    def history(loss, epsilon):
        columns = {"accuracy": 0.9, "test_loss": loss, "epsilon": epsilon}
        return pd.DataFrame({"round": [0, 1]} | columns).assign(
            accuracy=[np.nan, 0.9]  # evaluated at the end alone
        )

    figure = experiments.one_training(
        {
            "Optimal": history(1.5, 2.0),
            "EqualAlloc": history(1.25, 3.0),
            "no noise": history(1.0, np.inf),
        }
    )
    _, loss, epsilon = map(lines, figure.axes)
    assert (loss["Optimal"], loss["EqualAlloc"]) == ([0.5], [0.25])
    assert epsilon == {"Optimal": [1.0], "EqualAlloc": [1.5]}


def test_accuracy_bars_go_from_the_smallest_level_to_the_largest():
    table = pd.DataFrame(
        [
            (nu, seed, (70 - 10 * nu - seed) / 100, 0.5 + seed)
            for nu in (0.1, 0.2)
            for seed in range(3)
        ],
        columns=["nu", "seed", "test_accuracy", "floor_mean"],
    )
    incomplete = table[(table.seed == 1) | (table.nu == 0.1)]
    figure = figures.accuracy_ends({"one": table, "other": incomplete}, (0.65, 0.6))
    ends = (line.get_ydata() for line in figure.axes[0].lines)
    np.testing.assert_allclose(
        [bar for bar in ends if len(bar) == 2],
        [[65, 60], [69, 68], [68, 67], [67, 66], [68, 67]],
        rtol=1e-12,
    )
    assert {"one", "other"} <= named(figure)


class Cautious(policies.EqualAlloc):
    """Leaves half of every budget unspent."""

    label = "half of it"

    def start(self, scenario, budget):
        return super().start(scenario, budget / 2)


def test_a_cost_that_is_not_the_budget_is_said_beside_the_policy():
    methods = {"Optimal": policies.Optimal, "Cautious": Cautious, "OnlySome": OnlySome}
    table = leakage_table(SMALL, BUDGETS, range(3), methods)
    names = named(figures.gap(table))
    assert "half of it (cost is not $\\nu$)" in names
    assert "OnlySome (3 of 6 cannot reach $\\nu$)" in names


def test_policies_differ_in_colour_and_marker():
    names = [*figures.STYLE, "Mine", "Theirs"]
    styles = [figures.policy_style(name, names) for name in names]
    for key in ("color", "marker"):
        assert len({style[key] for style in styles}) == len(names)
    assert figures.policy_style("Learn, hard") == figures.policy_style("Learn")


def test_names_at_curves_keep_their_order_and_never_touch():
    axis = plt.subplots(figsize=(4, 2), layout="constrained")[1]
    ends = {"low": 0.0, "as low": 0.01, "between, in two lines": 0.02, "high": 1.0}
    for (name, end), look in zip(ends.items(), figures.shades(4), strict=True):
        axis.plot([0, 1], [0.5, end], label=name, **look)
    figures.name_curves(axis)
    axis.figure.draw_without_rendering()
    assert [text.get_text().replace("\n", " ") for text in axis.texts] == [*ends]
    boxes = [text.get_window_extent() for text in axis.texts]
    for lower, upper in itertools.pairwise(boxes):
        assert upper.y0 > lower.y0 + 0.8 * lower.height
    highest = axis.transData.transform((1, 1))[1]
    assert boxes[-1].y0 < highest < boxes[-1].y1 + boxes[-1].height / 2
    assert len({text.get_color() for text in axis.texts}) == len(ends)
    assert max(box.x1 for box in boxes) < axis.figure.bbox.x1 + 1  # the axes make room


def test_realisations_are_drawn_relative_to_their_own_optimum(table):
    rdp, relative = figures.realisations(table).axes
    wide = table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    ratio = wide["EqualAlloc"] / wide["Optimal"]
    drawn = lines(relative)
    assert sorted(drawn["_EqualAlloc, realisations"]) == pytest.approx(sorted(ratio))
    means = np.exp(np.log(ratio).groupby("nu").mean())
    assert drawn["EqualAlloc"] == pytest.approx(means.tolist())
    own = table[table.policy == "AdaScale"].groupby("nu").rdp
    band = rdp.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(max(log_interval(rows).high for _, rows in own))


def test_panel_of_the_paper_has_means_and_changes(table):
    changed = table.assign(
        rdp=table.rdp.where(table.policy != "AdaScale", 0.9 * table.rdp)
    )
    protocols = {"one": table, "other": changed[changed.seed < 3]}
    above, below = figures.paper_panel(protocols, "rdp", (0.95, 0.9)).axes
    mean = table[table.policy == "AdaScale"].groupby("nu").rdp.mean()
    assert lines(above)["AdaScale"] == pytest.approx(mean.tolist())
    # the others are the same in both
    assert [text.get_text() for text in below.texts] == ["AdaScale"]
    assert centres(below)[0] == pytest.approx([-10, -10])
    quoted = [text for text in above.texts if "accuracy" in text.get_text()]
    assert [text.xy[0] for text in quoted] == BUDGETS


def test_a_download_link_holds_its_table():
    table = pd.DataFrame({"nu": [0.01, 0.16], "rdp": [1 / 3, 2.0]})
    link = download_link(table, "t.csv").data
    assert 'download="t.csv"' in link
    csv = io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", link)[1]))
    pd.testing.assert_frame_equal(pd.read_csv(csv), table, rtol=1e-5)  # six digits


def test_an_embedded_figure_has_its_picture_and_its_words():
    image = embedded(Figure(), 'it "falls" & falls').data
    assert 'alt="it &quot;falls&quot; &amp; falls"' in image
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", image)[1])
    assert picture.startswith(b"\x89PNG")


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
    assert check_sum([1 - 1e-15, -1e-30, 3]) == check_sum([1 + 1e-15, 0.0, 3])
    assert check_sum([1, np.nan]) != check_sum([1, np.inf])


def test_the_table_has_every_point_under_its_name_and_no_words(axes):
    axes.plot([1, 2], [3, 4], label="here")
    axes.scatter([5], [6], c=[7])
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


def test_svg_is_reproducible_and_bounded(axes):
    figures.use_style()
    axes.plot([1, 2], [3.0, 4.0])
    assert files.as_svg(axes.figure) == files.as_svg(axes.figure)
    assert "<image" not in files.as_svg(axes.figure)
    axes.plot(*np.random.default_rng(0).standard_normal((2, 50_000)), "o")
    svg = files.as_svg(axes.figure)
    assert "<image" in svg
    assert len(svg) < 2 * files.LARGE
