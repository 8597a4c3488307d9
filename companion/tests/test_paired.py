"""Differences realisation by realisation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion.summary import Headed, band, by_seed, clear, log_band, number


def rows(values):
    return pd.DataFrame(
        [("r", "P", nu, seed, value) for nu, seed, value in values],
        columns=["reading", "policy", "nu", "seed", "test_accuracy"],
    )


def test_a_table_by_seed_pairs_the_arms_of_a_realisation_whatever_the_order_of_its_rows():
    table = rows([(0.1, 1, 0.5), (0.2, 0, 0.7), (0.1, 0, 0.9), (0.2, 1, 0.4)])
    found = by_seed(table)["r"]["P"]
    assert (found[0.1] - found[0.2]).tolist() == pytest.approx([20, 10])
    assert by_seed(table.rename(columns={"test_accuracy": "loss"}), "loss")["r", "P", 0.1].tolist() == [0.9, 0.5]


def test_two_rows_for_one_arm_and_seed_are_refused():
    with pytest.raises(ValueError, match="one row a seed and reading, policy, nu"):
        by_seed(rows([(0.1, 0, 0.5), (0.1, 0, 0.6)]))


def test_a_band_is_the_mean_and_students_interval():
    values = np.array([1.0, -2.0, 4.0, 0.0])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert band(values, 2) == f"{values.mean():.2f} [−{-low:.2f}, {high:.2f}]"
    assert band([1, 1.1, 1.2], sign=True) == "+1.1 [+0.9, +1.3]"
    assert log_band(np.exp([0.0, 0.0]), 1) == "1.0 [1.0, 1.0]"


def test_only_intervals_without_zero_are_counted():
    assert clear([[1, 1.1, 0.9], [-1, 1, 0.2], [-3, -3.2, -3.1]]) == 2


def test_a_zero_has_no_sign():
    assert [number(value, "+.1f") for value in (-0.04, 0.04, -0.06, 1.0)] == ["0.0", "0.0", "−0.1", "+1.0"]


def test_a_table_has_one_row_of_heads():
    shown = Headed(rows([(0.1, 0, 0.5)]).set_index(["reading", "nu"]).rename_axis(columns="name"))
    html = shown._repr_html_()
    assert html.count("<th>") == 5
    assert html.index("reading") < html.index("policy")
    assert repr(shown).split()[:3] == ["reading", "nu", "policy"]
