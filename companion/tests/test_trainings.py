"""What the committed trainings of the digits, MNIST and CIFAR-10 show, as the chapters conclude."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

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


# Who sends

TWO = "two classes a device"
QUIET = f"{TWO}, almost without noise"


def lead(table, one, other):
    """Points of accuracy by seed that rows have over others, and SciPy's 95 % interval of the mean."""
    first, second = (table.query(rows).set_index("seed") for rows in (one, other))
    by_seed = 100 * (first.test_accuracy - second.test_accuracy)
    return by_seed, stats.ttest_1samp(by_seed, 0).confidence_interval(0.95)


@pytest.mark.parametrize("name", ["mnist", "digits", "cifar10"])
def test_absence_has_no_visible_price_at_equal_noise(name):
    rows = load(f"{name}/senders")
    rows = rows[rows.reading == TWO]
    # the total of a joint choice jumps in its price
    np.testing.assert_allclose(rows.cost, rows.nu, rtol=0.01)
    for nu in rows.nu.unique():
        for rule in ("Truncated", "Joint"):
            own, reference = (
                f"nu == {nu} and policy == '{each}'" for each in (rule, "Optimal")
            )
            _, (low, high) = lead(rows, own, reference)
            assert low < 0 < high


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_bias_alone_is_that_of_the_same_senders(name):
    rows = load(f"{name}/senders").query("policy == 'Truncated'").set_index("seed")
    quiet, noisy = (rows[rows.reading == reading] for reading in (QUIET, TWO))
    for column in ("threshold", "participation", "participation_min"):
        np.testing.assert_allclose(quiet[column], noisy[column], rtol=1e-9)


def test_bias_alone_costs_accuracy_where_devices_are_often_absent():
    rows = load("cifar10/senders")
    alone = {}
    for reading in (QUIET, f"{QUIET}, epsilon 4"):
        own = f"reading == '{reading}'"
        alone[reading] = lead(rows, own, "policy == 'NoiseFree'")[1]
    assert alone[QUIET].low < 0 < alone[QUIET].high
    assert alone[f"{QUIET}, epsilon 4"].high < -0.5
    absent = load("cifar10/senders_epsilon").query("policy == 'Truncated:epsilon=4'")
    quiet = rows[rows.reading == f"{QUIET}, epsilon 4"]
    assert quiet.participation_min.tolist() == absent.participation_min.tolist()


def test_truncation_is_not_behind_at_one_epsilon():
    tables = [load(f"{name}/senders_epsilon") for name in ("cifar10", "mnist")]
    for table in tables:
        target = table.reading.str.split().str[-1].astype(float)
        assert (table.epsilon <= target).all()
        # the most exposed device of a threshold may be absent at times
        truncated = table.policy.str.startswith("Truncated")
        assert (table.epsilon > 0.95 * target)[truncated].all()
    found = {}
    for table in tables:
        for reading, own in table.groupby("reading"):
            rules = (f"policy.str.startswith('{rule}')" for rule in ("Trunc", "Priv"))
            found[table.dataset[0], reading.removeprefix(f"{TWO}, ")] = lead(
                own, *rules
            )
    for target in ("0.5", "2", "4"):
        assert (found["cifar10-features", f"epsilon {target}"][0] > 0).all()
    assert found["mnist", "momentum 0.9, epsilon 2"][1].low > 0
    level = found["mnist", "epsilon 2"][1]
    assert level.low < 0 < level.high < 0.5
