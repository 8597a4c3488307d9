"""Averages with their intervals, plain and on the logarithm."""

import numpy as np
import pytest
from scipy import stats

from adascale.errors import InvalidInput
from adascale.statistics import interval, log_interval


def test_intervals_are_scipys_t_interval_of_the_values_and_of_their_logarithms():
    values = np.random.default_rng(0).lognormal(1, 2, 7)
    for level in (0.9, 0.95):
        for own, y, back in (
            (interval, values, np.positive),
            (log_interval, np.log(values), np.exp),
        ):
            low, high = stats.t.interval(level, 6, y.mean(), stats.sem(y))
            np.testing.assert_allclose(
                own(values, level), back([y.mean(), low, high]), rtol=1e-12
            )  # rounding only
    assert interval([0.5, 0.5, 0.5]) == (0.5, 0.5, 0.5)


def test_what_few_values_or_a_zero_say_of_their_error():
    assert log_interval([2.0]) == (2.0, 0.0, np.inf)
    assert interval([2.0]) == (2.0, -np.inf, np.inf)
    assert log_interval([1.0, 1.3]) == pytest.approx(
        (np.sqrt(1.3), 0.2153, 6.038), rel=1e-3
    )  # t_1 = 12.7
    assert log_interval([1e-300, 1e300]) == (1.0, 0.0, np.inf)
    assert log_interval([0.0, 0.1, 2.0]) == (
        0.0,
        0.0,
        np.inf,
    )  # as an epsilon of 0 is legal
    assert log_interval([0.0, 0.0]) == (0.0, 0.0, 0.0)
    assert log_interval([0.0]) == (0.0, 0.0, np.inf)
    assert log_interval([1e-300, 0.1, 2.0]).centre > 0  # the control


@pytest.mark.parametrize("average", [interval, log_interval])
def test_bad_values_and_levels_are_named(average):
    for values in ([1, np.nan], [-np.inf, 1], [], [[0.0]], 2.0):
        with pytest.raises(InvalidInput) as error:
            average(values)
        assert error.value.argument == "values"
    with pytest.raises(InvalidInput) as error:
        average([1.0, 2.0], 1)
    assert error.value.argument == "level"
    with pytest.raises(InvalidInput, match="got -1"):
        log_interval([1, -1])
