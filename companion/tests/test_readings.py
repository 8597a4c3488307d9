"""What the chapter on accuracy concludes, for the committed trainings; and how it reads its tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adascale.runs.sweep import read_sweep
from adascale.statistics import interval
from companion.claims import CLOSE, QUOTED_ACCURACY
from companion.results import load
from companion.summary import by_seed
from companion.training.accuracy import reading_table, reading_verdicts

from .shared import RESULTS

QUOTED = QUOTED_ACCURACY["mnist"]
PAIR = "momentum 0.9, budget 2 nu"
BUDGETS = ["as stated", "budget M nu", "budget M^2 nu / 2", "budget M^2 nu"]
CALM = ["clipping norm 0.3", "learning rate 0.1", "Glorot initialisation", "pixels in [0, 1]", "clipping norm 3"]
CALM += ["as stated", "floors times 2", "distances uniform in area"]


@pytest.fixture(scope="module")
def results():
    return pd.concat([load(f"mnist/{name}") for name in ("accuracy", "readings")])


@pytest.fixture(scope="module")
def readings(results):
    entries = [each for name in ("accuracy", "readings") for each in read_sweep(RESULTS / "mnist" / f"{name}.toml")]
    return reading_table(entries, results, range(10))


@pytest.fixture(scope="module")
def marks(readings):
    return reading_verdicts(readings, QUOTED)


def at(readings, nu):
    return readings[readings.nu == nu].set_index("reading")


def test_accuracy_is_lost_where_there_is_no_gap_left(readings, results):
    curve = readings[readings.reading.isin(BUDGETS)].sort_values("budget")
    accuracy = by_seed(results[results.policy == "AdaScale"], arm=("reading", "nu"))
    quiet = by_seed(results[results.reading == "without noise"], arm=("reading",))["without noise"]
    lost = [(quiet - accuracy[row.reading, row.nu]).mean() for row in curve.itertuples()]
    assert np.interp(0.5, curve.budget, lost) < 0.5 < 1 < lost[-1]
    assert results.floor_mean[results.reading == "as stated"].mean() > 0.16
    assert curve.budget.is_monotonic_increasing
    assert curve.gap.is_monotonic_decreasing
    assert max(each for each, budget in zip(lost, curve.budget, strict=True) if budget < 0.5) < 0.5


def test_by_ratios_of_means_no_gap_is_evaluated_otherwise(readings, marks):
    small, large = at(readings, 0.01), at(readings, 0.16)
    assert ((small.gap_means > CLOSE) == (marks.gap == "holds")).all()
    assert ((small.gap_means > large.gap_means) == (marks.narrows == "holds"))[marks.narrows != "not settled"].all()
    assert small.gap_means["as stated"] < 0.5 * small.gap["as stated"]  # and yet another number


def test_only_larger_steps_are_felt_and_they_leave_the_gap_as_it_is(readings, marks):
    small, large = at(readings, 0.01), at(readings, 0.16)
    assert (large.fall_high[CALM] < 0.5).all()
    assert (large.fall_low[["learning rate 5", "momentum 0.9"]] > 1).all()
    assert large.fall_low["learning rate 2"] > 0
    trained = ["learning rate 0.1", "learning rate 2", "learning rate 5", "momentum 0.9", "Glorot initialisation"]
    np.testing.assert_allclose(small.gap[trained], small.gap["as stated"], rtol=1e-9)
    assert small.accuracy[["clipping norm 0.3", "learning rate 0.1"]].max() < 90
    assert marks.both[PAIR] == "not settled"
    assert large.fall_high[PAIR] < 100 * (QUOTED[0] - QUOTED[1])  # within two points of it, and yet below
    assert marks.loc[PAIR, ["fall", "gap", "narrows"]].tolist() == ["holds"] * 3
    assert abs(large.accuracy[PAIR] - 90) < 1 > abs(small.accuracy[PAIR] - 95)


@pytest.fixture(scope="module")
def momentum(results):
    return by_seed(results[results.reading == "momentum 0.9"], arm=("policy", "nu"))


def test_with_momentum_the_fall_is_in_proportion_to_nu_and_the_floors_are_felt(momentum, results):
    own = momentum["AdaScale"]
    fall = np.array([(own[0.01] - own[nu]).mean() / (nu - 0.01) for nu in (0.02, 0.04, 0.08, 0.16)])
    assert fall.max() / fall.min() < 1.3
    quiet = by_seed(results[results.reading == "momentum 0.9, without noise"], arm=("policy",))["NoiseFree"]
    cost, floor = quiet - own[0.01], results[results.reading == "momentum 0.9"].groupby("seed").floor_mean.first()
    assert interval(cost).low > 0.5 * (own[0.01] - own[0.16]).mean()
    assert stats.spearmanr(floor, cost).pvalue < 0.05
    assert (own[0.01][floor < 0.1] > 96.5).all()
