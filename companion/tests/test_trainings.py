"""What the committed trainings of the digits, MNIST and CIFAR-10 show, as the chapters conclude."""

import pandas as pd
import pytest

from adascale.runs.sweep import read_sweep
from companion.claims import QUOTED_ACCURACY
from companion.results import folder, load
from companion.training.accuracy import accuracy_claims, reading_table, reading_verdicts
from companion.training.counterfactual import forked


def committed(dataset, *names):
    return pd.concat(load(f"{dataset}/{name}") for name in names)


# MNIST

QUOTED = QUOTED_ACCURACY["mnist"]
PAIR = "momentum 0.9, budget 2 nu"
MNIST = load("mnist/accuracy")
RESULTS = committed("mnist", "accuracy", "readings")


@pytest.fixture(scope="module")
def readings():
    sweeps = [
        read_sweep(folder() / "mnist" / f"{name}.toml")
        for name in ("accuracy", "readings")
    ]
    return reading_table(
        [entry for sweep in sweeps for entry in sweep], RESULTS, range(8)
    )


def test_no_single_change_gives_both_headlines(readings):
    marks = reading_verdicts(readings, QUOTED)
    assert marks.loc["as stated"].tolist() == [
        "holds",
        "fails",
        "fails",
        "holds",
        "holds",
        "fails",
    ]
    assert set(marks.both.drop(PAIR)) == {"fails"}
    assert marks.loc[PAIR, ["fall", "gap", "narrows", "both"]].tolist() == [
        "holds",
        "holds",
        "holds",
        "not settled",
    ]
    fall = readings[readings.nu == 0.16].set_index("reading").fall_high[PAIR]
    # within two points of it, and yet below
    assert fall < 100 * (QUOTED[0] - QUOTED[1])


@pytest.mark.parametrize(
    ("name", "ends", "falls"),
    [
        ("mnist", ["holds", "fails"], "holds"),
        ("cifar10", ["not settled"] * 2, "not settled"),
    ],
)
def test_accuracy_starts_as_quoted_on_mnist_alone(name, ends, falls):
    every = MNIST if name == "mnist" else TRAINED
    claims = accuracy_claims(every[every.reading == "as stated"], QUOTED_ACCURACY[name])
    verdict = claims.set_index("claim").verdict
    assert verdict["ends"].tolist() == ends
    # from the smallest budget to the largest
    assert verdict[["falls"]].iloc[-1] == falls
    assert verdict["amount"] == "fails"
    if name == "mnist":
        same = claims.query("claim == 'same'")
        assert (set(same.policy), set(same.verdict)) == (
            {"Optimal", "EqualAlloc"},
            {"holds"},
        )


# CIFAR-10

PARTS = ("accuracy", "readings", "draws")
TRAINED = committed("cifar10", *PARTS)
CURVES = committed("cifar10", *(f"{part}-curves" for part in PARTS))
FORKS = load("cifar10/fork")
AGAIN = forked(FORKS, TRAINED[TRAINED.reading == "budget 2 nu"], CURVES)


def test_forks_gain_points_only_after_the_fade():
    assert (AGAIN.gained > 1).all(axis=None)
    after = CURVES.merge(FORKS, on=["run", "round"], suffixes=("", "_fork"))
    before = after[after["round"] < after.fade_round]
    assert len(before) == 2 * 22
    assert before.accuracy.equals(before.accuracy_fork)
