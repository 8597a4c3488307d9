"""What the control runs say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale.statistics import interval
from companion.reported.control_results import LEVELLED, TWO_CLASSES, UNCLIPPED, levelled_fades, two_partitions

RESULTS = Path(__file__).parents[2] / "results"
COLUMNS = ["reading", "policy", "nu", "seed", "test_accuracy", "floor_mean"]


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def test_a_fade_is_paired_with_the_same_realisation_in_full():
    readings = frame(
        [
            ("momentum 0.9", "AdaScale", 0.1, 0, 0.90, 2.0),
            ("momentum 0.9", "AdaScale", 0.1, 1, 0.80, 4.0),
            ("momentum 0.9", "Optimal", 0.1, 0, 0.10, 2.0),
            ("momentum 0.9, without noise", "NoiseFree", 0.1, 0, 0.97, 2.0),
            ("momentum 0.9, without noise", "NoiseFree", 0.1, 1, 0.96, 4.0),
        ]
    )
    controls = frame([(LEVELLED, "AdaScale", 0.1, 1, 0.83, 1.0), (LEVELLED, "AdaScale", 0.1, 0, 0.91, 1.5)])
    found = levelled_fades(controls, readings)
    assert found.gained[0.1].tolist() == pytest.approx([1.0, 3.0])
    assert found.taken.tolist() == pytest.approx([0.25, 0.75])
    assert found.cost.tolist() == pytest.approx([7.0, 16.0])
    with pytest.raises(ValueError, match="the tables must have"):
        levelled_fades(readings, readings)


def partitions():
    rows = []
    for seed in (0, 1):
        for skew, lost in (("", 0.0), (TWO_CLASSES + ", ", 0.05)):
            rows += [
                (skew + UNCLIPPED, "NoiseFree", 0.01, seed, 0.99 + 0.001 * seed, 0),
                (skew + "without noise", "NoiseFree", 0.01, seed, 0.95 - lost, 0),
                (skew or "as stated", "AdaScale", 0.01, seed, 0.94 - lost, 0),
                (skew or "as stated", "EqualAlloc", 0.01, seed, 0.10, 0),
            ]
    rows.append(("without noise", "NoiseFree", 0.01, 2, 0.5, 0))  # a seed that one partition lacks
    return frame(rows).replace({TWO_CLASSES + ", ": TWO_CLASSES})


def test_partitions_are_compared_arm_by_arm_on_the_seeds_that_both_have():
    found = two_partitions(partitions())
    assert [*found.iid] == ["no clipping", "no noise", "ν = 0.01"]
    assert found.iid.index.tolist() == [0, 1]
    assert np.allclose(found.lost, [[0, 5, 5]] * 2)
    assert found.more_to_clipping().tolist() == pytest.approx([5, 5])
    assert found.clipping()["skewed"].centre - found.clipping()["iid"].centre == pytest.approx(5)
    assert found.table().iloc[1].tolist() == ["95.0", "90.0", "−5.00 [−5.00, −5.00]"]


@pytest.fixture(scope="module")
def mnist():
    names = ("controls", "readings", "accuracy")
    return [pd.read_csv(RESULTS / "mnist" / f"{name}.csv") for name in names]


def test_where_noise_is_felt_one_fade_of_five_hundred_rounds_costs_accuracy(mnist):
    controls, readings, _ = mnist
    found = levelled_fades(controls, readings)
    assert len(found.gained) == 10
    assert [*found.gained] == [0.01, 0.16]
    assert all(interval(found.gained[nu]).low > 0.3 for nu in found.gained)
    shuffled = found.gained[0.01].to_numpy() - found.cost.to_numpy()  # negative control: not the whole cost
    assert interval(shuffled).high < 0
    assert interval(found.taken).low > 0.1


def test_two_classes_a_device_change_nothing_on_mnist_and_clipping_costs_the_same(mnist):
    controls, readings, stated = mnist
    found = two_partitions(pd.concat([stated, readings, controls]))
    assert [*found.lost] == ["no clipping", "no noise", "ν = 0.01", "ν = 0.16"]
    assert len(found.lost) == 5
    assert all(-0.5 < interval(found.lost[arm]).low < interval(found.lost[arm]).high < 0.5 for arm in found.lost)
    assert min(each.low for each in found.clipping().values()) > 2
    assert abs(interval(found.more_to_clipping()).centre) < 0.5
