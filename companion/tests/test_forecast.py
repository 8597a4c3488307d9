"""What the trainings so far leave of a prediction about a mean of three."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale.statistics import interval
from companion.claims import QUOTED_ACCURACY
from companion.reported.forecast import REALISATIONS, WITHIN, forecast
from companion.summary import band

QUOTED = (0.65, 0.60)


def table(*pairs, reading="budget 2 nu"):
    """Trainings whose accuracies at the smallest and the largest level are given, a pair a realisation."""
    rows = [
        (reading, "AdaScale", nu, seed, value)
        for seed, pair in enumerate(pairs)
        for nu, value in zip((0.01, 0.32), pair, strict=True)
    ]
    return pd.DataFrame(rows, columns=["reading", "policy", "nu", "seed", "test_accuracy"])


@pytest.mark.parametrize("known", [1, 2])
def test_missing_realisations_at_the_ends_of_what_is_needed_bring_the_mean_to_the_end_of_what_was_predicted(known):
    found = forecast(table(*[(0.63, 0.62), (0.66, 0.58)][:known]), QUOTED)
    for end, sign in (("low", -1), ("high", 1)):
        others = [found.needed()[end]] * (REALISATIONS - known)
        mean = pd.concat([found.found.T, *others], axis=1).T.mean()
        assert np.allclose(mean, found.quoted + sign * np.array(WITHIN), atol=1e-9)


def test_of_three_realisations_nothing_is_missing_and_the_mean_is_in_or_out():
    right = forecast(table((0.65, 0.60), (0.66, 0.59), (0.64, 0.615)), QUOTED)
    assert (right.missed() == 0).all()
    wrong = forecast(table((0.64, 0.63), (0.64, 0.63), (0.64, 0.63)), QUOTED)
    assert np.allclose(wrong.missed(), [0, 2, 2])
    shown = wrong.table()
    assert shown.columns.tolist() == [
        "predicted mean",
        *(f"realisation {i}" for i in range(3)),
        "mean",
        "beyond the margin by",
    ]
    assert shown["beyond the margin by"].tolist() == ["—", "2.0", "2.0"]
    assert shown["mean"].tolist() == [band(column) for _, column in wrong.found.items()]
    with pytest.raises(ValueError, match="less than 3 realisations, got 3"):
        wrong.needed()


def test_the_mean_of_three_lies_outside_of_what_was_predicted_and_falls_more_than_as_stated():
    results = Path(__file__).parents[2] / "results" / "cifar10"
    table = pd.concat([pd.read_csv(results / f"{name}.csv") for name in ("readings", "draws")])
    made = forecast(table, QUOTED_ACCURACY["cifar10"])
    every = pd.concat([table, pd.read_csv(results / "accuracy.csv")])
    stated = forecast(every, QUOTED_ACCURACY["cifar10"], "as stated")
    assert made.found.index.tolist() == [0, 1, 2]
    assert stated.found.index.tolist() == [0, 1, 2]
    accuracies = stated.found.iloc[:, :2]
    assert accuracies.loc[0].between(60, 65).all()  # the paper's range
    assert (accuracies.loc[1] > 65).all()
    assert accuracies.loc[2].iloc[0] > 65 > accuracies.loc[2].iloc[1] > 60
    cost = stated.found - made.found
    assert cost.iloc[:, 0].abs().max() < 0.5 < cost.iloc[:, 1].min()  # of the smallest level, of the largest
    assert (made.missed() > 0).all()
    falls = stated.found["fall [points]"]
    low, high = interval(falls)[1:]
    assert low < 0 < high < 5  # that it falls is not settled, that it falls by what the paper says fails
    assert 0 < falls.min() <= falls.max() < made.found["fall [points]"].min()
    assert made.found["fall [points]"].max() < made.quoted.iloc[-1] - WITHIN[-1]
