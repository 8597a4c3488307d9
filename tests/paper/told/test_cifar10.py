"""What the chapter on CIFAR-10 says of its trainings, on the committed tables and against its own words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel
from adascale.paper.told import cifar10 as told
from adascale.paper.trained import as_stated
from adascale.runs.specification import make_run
from adascale.runs.sweep import read_sweep

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
        "walk-floor": "2.0", "walk-grows": "50", "walk-median-grows": "100", "floor-mean-here": "4.00",
        "deepest": "1", "deepest-floor": "7", "shock": "1.9", "paths": "33",
    }  # fmt: skip


def test_in_realisation_0_and_in_the_median_most_of_the_noise_is_the_floor():
    """That of 2 nu at the largest level too; in a realisation of low floors it is not."""
    scenario = Scenario.cifar10()
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, range(100)).gain
    mean = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 1.0).floor.mean(axis=-1)
    assert min(mean[0], np.median(mean)) > 2 * 0.32
    assert mean[1] < 0.32


def test_the_cited_network_takes_so_many_hours_as_its_rounds_were_timed():
    timed = pd.read_csv(RESULTS / "benchmarks" / "resnet32.csv")
    texts = told.resnet_texts(timed)
    for name, model in (("resnet", "resnet32"), ("tanh", "tanh_cnn")):
        seconds = timed[timed.model == model].cpu_seconds.mean()
        assert number(texts[f"{name}-hours"]) == pytest.approx(720 * seconds / 3600, abs=0.05)
    assert number(texts["resnet-all"]) == pytest.approx(6 * number(texts["resnet-hours"]), abs=1)
    size = make_run("cifar10", "AdaScale", 0.01, 0, model="resnet32").scenario.num_parameters
    assert texts["resnet-parameters"] == f"{size:,}"
