"""What the chapter on accuracy concludes, for the committed trainings; and how it reads its tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adascale.runs.sweep import read_sweep
from adascale.statistics import interval
from companion.results import load
from companion.summary import by_seed
from companion.training.accuracy import reading_table

from .shared import RESULTS

BUDGETS = ["as stated", "budget M nu", "budget M^2 nu / 2", "budget M^2 nu"]


@pytest.fixture(scope="module")
def results():
    return pd.concat([load(f"mnist/{name}") for name in ("accuracy", "readings")])


def test_accuracy_is_lost_where_there_is_no_gap_left(results):
    entries = [each for name in ("accuracy", "readings") for each in read_sweep(RESULTS / "mnist" / f"{name}.toml")]
    entries = [each for each in entries if each.reading in BUDGETS]
    curve = reading_table(entries, results, range(20)).sort_values("budget")
    accuracy = by_seed(results[results.policy == "AdaScale"], arm=("reading", "nu"))
    quiet = by_seed(results[results.reading == "without noise"], arm=("reading",))["without noise"]
    lost = [(quiet - accuracy[row.reading, row.nu]).mean() for row in curve.itertuples()]
    assert np.interp(0.5, curve.budget, lost) < 0.5 < 1 < lost[-1]
    assert results.floor_mean[results.reading == "as stated"].mean() > 0.16
    assert curve.budget.is_monotonic_increasing
    assert curve.gap.is_monotonic_decreasing
    assert max(each for each, budget in zip(lost, curve.budget, strict=True) if budget < 0.5) < 0.5


def test_with_momentum_the_fall_is_in_proportion_to_nu_and_the_floors_are_felt(results):
    own = by_seed(results[results.reading == "momentum 0.9"], arm=("policy", "nu"))["AdaScale"]
    fall = np.array([(own[0.01] - own[nu]).mean() / (nu - 0.01) for nu in (0.02, 0.04, 0.08, 0.16)])
    assert fall.max() / fall.min() < 1.3
    quiet = by_seed(results[results.reading == "momentum 0.9, without noise"], arm=("policy",))["NoiseFree"]
    cost, floor = quiet - own[0.01], results[results.reading == "momentum 0.9"].groupby("seed").floor_mean.first()
    assert interval(cost).low > 0.5 * (own[0.01] - own[0.16]).mean()
    assert stats.spearmanr(floor, cost).pvalue < 0.05
    assert (own[0.01][floor < 0.1] > 96.5).all()
