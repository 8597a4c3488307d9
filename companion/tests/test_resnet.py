"""What a round of the cited network costs."""

from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from adascale.learning import FedSGD, data
from adascale.learning.models import build
from adascale.runs.execution import problem_of
from adascale.runs.specification import make_run
from companion.training.resnet import NETWORKS, ROUNDS, timed_rounds, whole_training

TABLE = Path(__file__).parents[2] / "results" / "benchmarks" / "resnet32.csv"


def test_the_timed_rounds_are_those_of_a_training():
    run, digits = make_run("digits", "AdaScale", 0.01, 0), data.load("digits")
    table = timed_rounds(run, digits, 2)
    federation = FedSGD(run.scenario, run.training, digits, 0)
    assert table["round"].tolist() == [0, 1]
    assert table.samples.tolist() == [sum(map(len, federation.batches(t))) for t in (0, 1)]
    assert (table.cpu_seconds > 0).all()
    assert (table.parameters == 9370).all()


def test_a_whole_training_is_extrapolated_from_the_mean_round():
    table = pd.DataFrame({"model": ["a", "a", "b"], "cpu_seconds": [1.0, 3.0, 7.2]})
    assert whole_training(table, 500).tolist() == pytest.approx([1000 / 3600, 1.0])


def test_batch_norm_lets_one_sample_change_the_gradients_of_others_and_the_cited_network_has_none():
    assert not any(isinstance(each, nn.BatchNorm2d) for each in build("resnet32", 0).modules())
    images = torch.randn(4, 16, 2, 2, generator=torch.Generator().manual_seed(0))
    other = torch.cat([images[:3], 9 * images[3:]])
    for layer, mixes in ((nn.GroupNorm(8, 16), False), (nn.BatchNorm2d(16), True)):
        assert (not torch.allclose(layer(images)[:3], layer(other)[:3])) is mixes


def test_the_committed_table_has_the_rounds_of_both_networks():
    table = pd.read_csv(TABLE)
    assert table.groupby("model").size().to_dict() == dict.fromkeys(NETWORKS, ROUNDS)
    assert table.groupby("round").samples.nunique().eq(1).all()  # the same batches
    samples, run = table.samples.iloc[0], make_run("cifar10", "AdaScale", 0.01, 0, model="resnet32")
    mean = 10 * run.scenario.batch_size
    assert abs(samples - mean) < 4 * mean**0.5
    assert problem_of(run)[0].scenario.num_parameters == table[table.model == "resnet32"].parameters.iloc[0]
