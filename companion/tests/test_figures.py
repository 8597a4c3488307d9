"""The figures that are drawn from tidy tables."""

import base64
import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from adascale import Scenario, policies
from adascale.comparison import leakage_table
from companion.methods import METHODS

mpl.use("agg")
from companion import figures
from tests.problems import OnlySome

BUDGETS = [2e-3, 8e-3]  # OnlySome reaches the first


@pytest.fixture(scope="module")
def scenario():
    return Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)


@pytest.fixture(scope="module")
def table(scenario):
    return leakage_table(scenario, BUDGETS, range(12), METHODS)


def legend(figure):
    """The words of the legends of a figure and its axes."""
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
    return [text.get_text() for each in legends if each is not None for text in each.get_texts()]


class Cautious(policies.EqualAlloc):
    """Leaves half of every budget unspent."""

    label = "half of it"

    def start(self, scenario, budget):
        return super().start(scenario, budget / 2)


def test_a_policy_of_ones_own_is_drawn_under_its_label_with_what_must_be_said_of_its_cost(scenario):
    table = leakage_table(scenario, BUDGETS, range(3), {"Optimal": policies.Optimal, "Cautious": Cautious})
    for drawn in (figures.leakage(table), figures.gap(table)):
        assert "half of it (cost is not $\\nu$)" in legend(drawn)


def test_a_legend_names_the_authors_of_a_method(table):
    assert {"Liu & Simeone", "Shi et al."} <= {*legend(figures.leakage(table))}


def test_what_a_policy_cannot_reach_is_counted_and_not_drawn(scenario):
    table = leakage_table(scenario, BUDGETS, range(3), {"Optimal": policies.Optimal, "OnlySome": OnlySome})
    drawn = figures.leakage(table)
    assert "OnlySome (3 of 6 cannot reach $\\nu$)" in legend(drawn)
    color = figures.policy_style("OnlySome", table.policy)["color"]
    lines = [line for line in drawn.axes[0].lines if line.get_color() == color]
    drawn_at = np.concatenate([line.get_xdata() for line in lines])
    assert np.allclose(drawn_at, BUDGETS[0], rtol=0.05)  # moved aside a little, so that bars do not hide each other


def test_policies_differ_in_colour_and_in_marker():
    names = [*figures.STYLE, "Mine", "Theirs"]
    styles = [figures.policy_style(name, names) for name in names]
    for key in ("color", "marker"):
        assert len({style[key] for style in styles}) == len(names)


def test_the_leakage_figure_draws_every_realisation_and_their_interval(table):
    drawn = figures.leakage(table)
    for axis, drawn_policies in (
        (drawn.axes[0], len(METHODS) - len(figures.NOT_IN_RDP)),
        (drawn.axes[1], len(METHODS)),
    ):
        points = [line for line in axis.lines if line.get_linestyle() == "None"]
        assert [line.get_xdata().size for line in points] == [len(BUDGETS) * 12] * drawn_policies
        assert len(axis.collections) == drawn_policies
    assert axis.get_xlabel()
    assert axis.get_ylabel()


def test_the_download_link_holds_the_table(table):
    html = figures.download_link(table, "leakage.csv").data
    data = base64.b64decode(html.split("base64,")[1].split('"')[0]).decode()
    read = pd.read_csv(io.StringIO(data))
    pd.testing.assert_frame_equal(read, table, rtol=1e-5, check_dtype=False)  # six digits are written


def test_bounds_against_the_penalty_are_drawn_whole_under_one_legend():
    penalty = np.geomspace(0.03, 3000, 8)
    values = 1e-3 * np.linspace(-1, 1, 8)[:, None] * [0.9, 1, 1.1]
    both = {"bound on the mean": 1 / penalty, "paper's bound": 100 / penalty}
    drawn = figures.against_penalty(
        penalty,
        [
            figures.Bounded("regret", values, both, 1e-5),
            figures.Bounded("excess", abs(values), both),
            figures.Bounded("violation", -values, both | {"on every channel": 10 * penalty}, 1e-4),
        ],
    )
    assert legend(drawn) == ["AdaScale", "bound on the mean", "paper's bound", "on every channel"]
    for axis in drawn.axes:
        low, high = axis.get_ylim()
        drawn_at = np.concatenate([line.get_ydata() for line in axis.lines])
        assert low < drawn_at.min() and drawn_at.max() < high  # noqa: PT018


def test_a_notebook_shows_a_table_with_its_minus_signs():
    table = pd.DataFrame({"change": ["-0.5"]})
    assert "−0.5" not in table._repr_html_()
    shell = InteractiveShell.instance()
    try:
        figures.use_style()
        shown, _ = shell.display_formatter.format(table)
    finally:
        InteractiveShell.clear_instance()
    assert "−0.5" in shown["text/html"]
    assert "-0.5" in shown["text/plain"]
