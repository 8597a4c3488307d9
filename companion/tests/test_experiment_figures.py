"""The figures of the chapters on trainings draw differences within a realisation, and name what they draw."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt

from adascale.statistics import interval
from companion.figures import experiments


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def named(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def centres(axis):
    return [container.lines[0].get_ydata() for container in axis.containers]


def test_falls_are_paired_with_the_smallest_level_of_the_same_realisation():
    table = pd.DataFrame({0.01: [90.0, 80.0], 0.04: [89.0, 79.0], 0.16: [85.0, 75.2]})
    figure = experiments.falls({"one": table, "two": table[[0.01, 0.16]]}, (0.95, 0.9))
    one, two = centres(figure.axes[0])
    assert one == pytest.approx([-1, -4.9])
    assert two == pytest.approx([-4.9])
    assert set(named(figure)) == {"one", "two", "quoted by the paper"}


def test_noise_and_leakage_have_a_mean_and_a_geometric_mean():
    change = pd.DataFrame({0.01: [0.0, 1.0], 1.0: [-2.0, -4.0]})
    ratio = pd.DataFrame({0.01: [1.0, 4.0], 1.0: [1.0, 1.0]})
    figure = experiments.noise_and_leakage(change, change / 10, ratio, 0.2)
    found = [centres(axis)[0] for axis in figure.axes]
    assert found[0] == pytest.approx([0.5, -3])
    assert found[2] == pytest.approx([2, 1])


def test_one_training_shows_losses_above_no_noise_and_leakage_over_the_reference():
    histories = {
        name: pd.DataFrame(
            {"round": [0, 1], "accuracy": [np.nan, 0.9], "test_loss": [np.nan, loss], "epsilon": [np.nan, epsilon]}
        )
        for name, loss, epsilon in (("Optimal", 1.5, 2.0), ("EqualAlloc", 1.25, 3.0), ("no noise", 1.0, np.inf))
    }
    figure = experiments.one_training(histories)
    assert [line.get_ydata().tolist() for line in figure.axes[1].lines[:2]] == [[0.5], [0.25]]
    assert [line.get_ydata().tolist() for line in figure.axes[2].lines] == [[1.0], [1.5]]
    drawn = {line.get_label() for axis in figure.axes for line in axis.lines}
    assert set(named(figure)) == {"no noise", "Optimal", "EqualAlloc"} <= drawn  # no entry without a line


def test_lost_accuracy_stands_over_the_gap_with_its_intervals():
    rows = pd.DataFrame(
        {
            "nu": [0.01, 0.16],
            "budget": [1.0, 0.01],
            "lost": [2.0, 0.5],
            "lost_low": [1.5, 0.1],
            "lost_high": [2.5, 0.9],
            "gap": [1.0, 4.0],
            "gap_low": [1.0, 3.0],
            "gap_high": [1.0, 5.0],
        }
    )
    figure = experiments.lost_and_gap(rows, {"M": 10})
    assert centres(figure.axes[0])[0] == pytest.approx([0.5, 2.0])  # by budget
    assert centres(figure.axes[1])[0] == pytest.approx([4.0, 1.0])


def test_weights_name_each_setting_once():
    responses = pd.DataFrame(
        [
            (name, seed, later, 1.0 + later + seed)
            for name in ("momentum 0.9", "no momentum")
            for seed in (0, 1)
            for later in (0, 4)
        ],
        columns=["setting", "seed", "later", "response"],
    )
    lost = pd.DataFrame(
        -np.arange(16.0).reshape(4, 4),
        columns=["early", "middle", "late", "even"],
        index=pd.MultiIndex.from_product([["momentum 0.9", "no momentum"], [0, 1]]),
    )
    figure = experiments.weights(responses, {name: np.ones(5) for name in ("momentum 0.9", "no momentum")}, lost)
    assert named(figure) == ["momentum 0.9", "no momentum"]
    first = centres(figure.axes[1])[0]
    assert first == pytest.approx([interval(lost.loc["momentum 0.9", when]).centre for when in lost])


def test_scans_deals_and_powers_are_drawn_as_given():
    assert len(experiments.scans(np.zeros((4, 2, 2)), [0, 2, 0, 1]).axes) == 3
    table = np.array([[3, 0], [0, 5]])
    cells = [text.get_text() for text in experiments.dealt({"a": table, "b": table}).axes[0].texts]
    assert cells == ["3", "", "", "5"]
    share = np.array([[0.1, 0.2], [0.3, 0.4]])
    lines = experiments.power_shares(share, np.array([1, 0])).axes[0].lines
    assert lines[1].get_ydata() == pytest.approx([30, 20])
    assert lines[2].get_ydata() == pytest.approx([20, 30])
