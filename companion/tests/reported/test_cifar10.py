"""What the chapter on CIFAR-10 says of its trainings, on the committed tables and against its own words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel
from adascale.runs.specification import make_run
from adascale.runs.sweep import read_sweep
from companion.reported import cifar10 as told
from companion.reported.trainings import Pair, as_stated
from companion.training.counterfactual import Forked, forked

RESULTS = Path(__file__).parents[3] / "results"


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


def test_a_training_has_the_settings_of_the_paper_and_took_the_hours_of_its_row():
    rows = as_stated(RESULTS / "cifar10")
    texts = told.settings_texts(read_sweep(RESULTS / "cifar10" / "accuracy.toml")[0].run, rows)
    assert (texts["momentum"], texts["acc-quoted-small"], texts["acc-quoted-large"]) == ("0.9", "65", "60")
    assert texts["acc-quoted-fall"] == "5"
    assert number(texts["gradients"]) == pytest.approx(number(texts["samples"]) * 720 / 1e6, abs=0.05)
    assert texts["paper-size"] == "500,000" != texts["size"]
    hours = sorted(rows.wall_seconds / 3600)
    assert [number(texts[f"took-{end}"]) for end in ("low", "high")] == pytest.approx([hours[0], hours[-1]], abs=0.05)


def test_the_noise_of_all_rounds_is_the_root_of_the_sum_of_their_squares():
    floors = np.array([[1.0, 7.0], [0.5, 0.1], [2.0, 2.0]])
    walks = pd.DataFrame({"realisation 0": [2.0, 2.1, 3.0], "median": [1.0, 1.1, 2.0]})
    texts = told.noise_texts(walks, floors[0], floors, reach=1.0)
    assert texts == {
        "walk-floor": "2.0",
        "walk-grows": "50",
        "walk-median-grows": "100",
        "floor-mean-here": "4.00",
        "deepest": "1",
        "deepest-floor": "7",
        "shock": "1.9",
        "paths": "33",
    }


def test_in_realisation_0_and_in_the_median_most_of_the_noise_is_the_floor():
    """That of 2 nu at the largest level too; in a realisation of low floors it is not."""
    scenario = Scenario.cifar10()
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, range(100)).gain
    mean = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 1.0).floor.mean(axis=-1)
    assert min(mean[0], np.median(mean)) > 2 * 0.32
    assert mean[1] < 0.32


def pair_of(small, large, evaluated):
    return Pair(pd.Series(small, evaluated), pd.Series(large, evaluated), (9.0, 3.0))


def test_a_fade_counts_from_the_evaluation_before_it_to_the_first_that_its_round_has_gone_into():
    evaluated = [9, 19, 29, 39]
    pair = pair_of([50.0, 60.0, 58.5, 61.0], [50.0, 59.0, 56.0, 60.0], evaluated)
    quiet = pd.Series([50.0, 60.0, 61.0, 62.0], evaluated)
    other = pair_of([40.0, 38.0, 40.5, 50.0], [41.0, 38.5, 40.0, 49.0], evaluated)
    floor, other_floor = np.ones(40), np.ones(40)
    floor[[35, 29]], other_floor[10] = (30.0, 20.0), 25.0
    texts = told.fades_texts(pair, floor, quiet, other, other_floor)
    assert texts == {
        "second-round": "29",
        "second-floor": "20",
        "second-from": "20",
        "second-to": "30",
        "second-lost-small": "1.5",
        "second-lost-large": "3.0",
        "second-lost-quiet": "−1.0",
        "other-round": "10",
        "other-floor": "25",
        "other-lost-small": "2.0",
        "other-lost-large": "2.5",
        "other-left": "1.0",
    }


def test_what_is_left_without_the_fade_is_the_end_below_the_training_without_noise():
    branches = [pd.DataFrame({0.3: [60.0, end], 0.1: [61.0, end + 1]}) for end in (58.0, 62.0)]
    quiet = pd.Series([70.0, 65.0])
    assert told.left_texts(Forked(*branches, 5), quiet) == {"fork-left-small": "2.0", "fork-left-large": "3.0"}


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


def test_the_cited_network_takes_so_many_hours_as_its_rounds_were_timed():
    timed = pd.read_csv(RESULTS / "benchmarks" / "resnet32.csv")
    texts = told.resnet_texts(timed)
    for name, model in (("resnet", "resnet32"), ("tanh", "tanh_cnn")):
        seconds = timed[timed.model == model].cpu_seconds.mean()
        assert number(texts[f"{name}-hours"]) == pytest.approx(720 * seconds / 3600, abs=0.05)
    assert number(texts["resnet-all"]) == pytest.approx(6 * number(texts["resnet-hours"]), abs=1)
    size = make_run("cifar10", "AdaScale", 0.01, 0, model="resnet32").scenario.num_parameters
    assert texts["resnet-parameters"] == f"{size:,}"
