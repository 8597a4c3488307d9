"""What the chapter on CIFAR-10 says of its trainings, on the committed tables and against its own words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel
from companion.reported import cifar10 as told
from companion.reported.trainings import Pair
from companion.training.counterfactual import forked

RESULTS = Path(__file__).parents[3] / "results"


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


def test_in_realisation_0_and_in_the_median_most_of_the_noise_is_the_floor():
    """That of 2 nu at the largest level too; in a realisation of low floors it is not."""
    scenario = Scenario.cifar10()
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, range(100)).gain
    mean = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 1.0).floor.mean(axis=-1)
    assert min(mean[0], np.median(mean)) > 2 * 0.32
    assert mean[1] < 0.32


def test_on_cifar10_the_second_deepest_fade_costs_next_and_an_early_one_as_deep_is_made_up_for():
    names = ("accuracy", "readings", "draws")
    every, curves = (
        pd.concat(pd.read_csv(RESULTS / "cifar10" / f"{name}{part}.csv") for name in names) for part in ("", "-curves")
    )
    stated = every[every.reading == "as stated"]
    quiet = Pair.read(every[every.reading == "without noise"], curves, "NoiseFree").small
    scenario = Scenario.cifar10()
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, [0, 2]).gain
    floor, other_floor = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 1.0).floor
    pair, other = Pair.read(stated, curves), Pair.read(stated, curves, seed=2)
    texts = told.fades_texts(pair, floor, quiet, other, other_floor)
    assert 0.9 < number(texts["other-floor"]) / floor.max() < 1.1
    assert number(texts["other-left"]) < 0.5 < 1 < number(texts["other-lost-small"])
    after = int(floor.argmax())
    for along, end in ((pair.small, "small"), (pair.large, "large")):
        lost = -along.diff()
        around = along.index[along.index > after][:2]
        assert number(texts[f"second-lost-{end}"]) == pytest.approx(lost.drop(around).max(), abs=0.05)
    doubled = every[every.reading == "budget 2 nu"]
    left = told.left_texts(forked(pd.read_csv(RESULTS / "cifar10" / "fork.csv"), doubled, curves), quiet)
    assert min(map(number, left.values())) > 2.5
