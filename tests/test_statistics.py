"""Averages with their intervals, plain and on the logarithm."""

import numpy as np
import pytest
from scipy import stats

from adascale.statistics import interval, log_interval

INF = np.inf


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_are_scipys_t_interval(level):
    values = np.random.default_rng(0).lognormal(1, 2, 7)
    for average, y, back in (
        (interval, values, np.positive),
        (log_interval, np.log(values), np.exp),
    ):
        ends = stats.t.interval(level, 6, y.mean(), stats.sem(y))
        expected = back([y.mean(), *ends])
        np.testing.assert_allclose(average(values, level), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("average", "values", "expected"),
    [
        (interval, [0.5, 0.5, 0.5], (0.5, 0.5, 0.5)),
        (interval, [2.0], (2.0, -INF, INF)),
        (log_interval, [2.0], (2.0, 0.0, INF)),
        (log_interval, [1e-300, 1e300], (1.0, 0.0, INF)),
        # an epsilon of 0 is legal
        (log_interval, [0.0, 0.1, 2.0], (0.0, 0.0, INF)),
        (log_interval, [0.0, 0.0], (0.0, 0.0, 0.0)),
        (log_interval, [0.0], (0.0, 0.0, INF)),
    ],
)
def test_interval_of_few_values_or_zeros(average, values, expected):
    assert average(values) == expected


def test_log_interval_of_a_small_value_is_no_zero():
    assert log_interval([1e-300, 0.1, 2.0]).centre > 0
