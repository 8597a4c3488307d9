"""What the chapters say of the committed trainings."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from scipy.stats import pearsonr

mpl.use("agg")

from companion.claims import QUOTED_ACCURACY
from companion.reported.trainings import Pair, fade_ranks, fades, many_texts, spread_along
from companion.training.counterfactual import forked

RESULTS = Path(__file__).parents[2] / "results"


def committed(dataset):
    return [pd.read_csv(RESULTS / dataset / f"accuracy{part}.csv") for part in ("", "-curves")]


@pytest.fixture(scope="module")
def mnist():
    return committed("mnist")


@pytest.fixture(scope="module")
def cifar10():
    return committed("cifar10")


def test_on_mnist_noise_costs_less_than_a_point_and_nu_less_than_half_of_one(mnist):
    texts = {name: float(text.replace("−", "-")) for name, text in many_texts(mnist[0]).items()}
    assert texts["acc-fall-high"] < 0.5
    assert texts["acc-lost-high"] < 1
    assert texts["acc-high"] - texts["acc-low"] < 0.2
    assert spread_along(*mnist) < 1


def test_on_mnist_no_fade_costs_a_point(mnist):
    found = fades(mnist[0])
    assert len(found) == 10
    assert found.floor_max.is_monotonic_increasing
    assert found.lost.abs().max() < 1
    deepest = mnist[0][mnist[0].seed == found.index[-1]]
    quiet = deepest[deepest.policy == "NoiseFree"].test_accuracy.item()
    loud = deepest[(deepest.policy == "AdaScale") & (deepest.nu == deepest.nu.min())].test_accuracy.item()
    assert found.lost.iloc[-1] == pytest.approx(100 * (quiet - loud))


def test_the_deepest_fade_and_the_mean_floor_go_with_what_is_lost_and_cannot_be_told_apart(mnist):
    found = fades(mnist[0])
    texts = {name: float(text) for name, text in fade_ranks(found).items()}
    assert texts["fade-rank"] == pytest.approx(pearsonr(found.floor_max.rank(), found.lost.rank()).statistic, abs=0.005)
    assert texts["fade-rank-p"] < 0.05
    assert abs(texts["fade-rank"] - texts["mean-rank"]) < 0.05


def test_on_cifar10_a_fade_costs_more_than_the_range_of_nu(cifar10):
    pair = Pair.read(*cifar10)
    deepest = int(cifar10[0].floor_max_round.iloc[0])
    told = {name: float(text.replace("−", "-")) for name, text in (pair.texts() | pair.texts_around(deepest)).items()}
    assert 0 < told["acc-fall"] < 3
    assert min(told["fade-lost-small"], told["fade-lost-large"]) > told["acc-apart"]
    assert min(told["regained-small"], told["regained-large"]) > 0
    assert told["epsilon-small"] > 3 * told["epsilon-large"]
    around = pair.around(deepest)
    assert around.shape == (4, 2)
    assert around.iloc[-1].tolist() == [pair.small.iloc[-1], pair.large.iloc[-1]]
    ends = QUOTED_ACCURACY["cifar10"]
    assert 100 * ends[1] <= told["acc-large"] <= told["acc-small"] <= 100 * ends[0]


def test_on_cifar10_noise_costs_more_than_the_range_of_nu_and_most_of_it_after_the_deepest_fade():
    tables = [
        pd.concat(pd.read_csv(RESULTS / "cifar10" / f"{name}{part}.csv") for name in ("accuracy", "readings", "draws"))
        for part in ("", "-curves")
    ]
    every, curves = tables
    quiet = Pair.read(every[every.reading == "without noise"], curves, "NoiseFree").small
    deepest, told = int(every.floor_max_round[every.seed == 0].iloc[0]), []
    for reading in ("as stated", "budget 2 nu"):
        pair = Pair.read(every[every.reading == reading], curves)
        texts = pair.texts_quiet(quiet, deepest)
        told.append({name: float(text.replace("−", "-")) for name, text in texts.items()})
    stated, doubled = told
    assert stated["quiet-above-small"] > 2 * (stated["quiet-above-large"] - stated["quiet-above-small"]) > 0
    assert stated["quiet-behind"] > 0.5 * stated["quiet-evaluations"]
    for end in ("small", "large"):
        assert stated[f"quiet-before-{end}"] < 0.25 * stated[f"quiet-above-{end}"]
        assert stated[f"quiet-second-{end}"] > 3
        assert stated[f"quiet-lag-{end}"] > 2
    made = forked(pd.read_csv(RESULTS / "cifar10" / "fork.csv"), every[every.reading == "budget 2 nu"], curves)
    gained = {name: float(text) for name, text in made.texts().items()}
    assert all(2 * gained[f"fork-end-{end}"] < doubled[f"quiet-above-{end}"] for end in ("small", "large"))
