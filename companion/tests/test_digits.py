"""What the trainings of the digits show, and what the chapter on learning over the air says of a round."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import torch

from adascale import ReceiveScalingProblem, Scenario, channel
from adascale.learning import FedSGD, Training, data
from adascale.statistics import interval
from companion.summary import by_seed

from .shared import RESULTS, two_partitions

NUS = (0.01, 0.16, 2.56, 10.24)


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(RESULTS / "digits" / "accuracy.csv")


def of(table, policy, column):
    """A column of a policy's i.i.d. trainings that clip: one row per seed, one column per nu."""
    rows = table[table.reading.isin(["as stated", "without noise"]) & (table.policy == policy)]
    return by_seed(rows, column, arm=("nu",))


def test_noise_is_felt_well_above_the_mean_floor_alone(table):
    change, loss = (
        of(table, "AdaScale", column).sub(of(table, "NoiseFree", column)[0.01], axis=0)
        for column in ("test_accuracy", "test_loss")
    )
    assert tuple(change) == NUS
    assert len(change) == 10
    for nu in NUS[:2]:
        found = interval(change[nu])
        assert -1 < found.low < 0 < found.high
    assert interval(change[2.56]).high < -1 < interval(change[0.16]).low
    assert interval(change[10.24]).high < -10
    assert interval(loss[2.56]).low > 0.03 > interval(loss[0.16]).high
    assert 0.4 < 0.16 / table.floor_mean[table.reading == "as stated"].mean() < 1.5


def test_two_classes_a_device_change_neither_learning_nor_what_noise_costs(table):
    iid, skewed = two_partitions(table, (0.01, 2.56))
    lost = iid - skewed
    assert lost.shape == (10, 4)
    for arm in lost:
        each = interval(lost[arm])
        assert -1 < each.low < 0 < each.high < 1
    clipping = [part["no clipping"] - part["no noise"] for part in (iid, skewed)]
    assert min(interval(each).low for each in clipping) > 2  # clipping costs, either way
    assert abs(interval(clipping[1] - clipping[0]).centre) < 0.5


@pytest.mark.parametrize("left", [0, 40])
def test_in_equal_shares_the_received_signal_does_not_depend_on_who_holds_the_samples(left):
    """With all samples in every batch there is no chance left; unequal shares are the negative control."""
    loaded = data.load("digits")
    kept = torch.cat([(loaded.labels == each).nonzero()[: 60 - left * (each == 3)].flatten() for each in range(10)])
    loaded = loaded._replace(images=loaded.images[kept], labels=loaded.labels[kept])
    moved = []
    for kind in ("iid", "two-classes"):
        sizes = np.array([len(part) for part in data.partition(loaded.labels, 10, kind, 0)], dtype=float)
        scenario = replace(Scenario.digits(), batch_size=tuple(sizes), dataset_size=tuple(sizes))
        server = FedSGD(scenario, replace(Training.preset("digits"), partition=kind), loaded, 0)
        start = server.start()
        moved.append(server.step(start, np.inf)[0].parameters - start.parameters)
    apart = float((moved[0] - moved[1]).norm() / moved[0].norm())
    assert apart < 1e-5 if left == 0 else apart > 1e-3  # single precision


def test_noise_has_its_share_of_energy_along_the_signal_alone():
    """1/d of it: the mean over eight rounds within what chi-square allows."""
    from scipy import stats

    scenario = Scenario.digits()
    training = replace(Training.preset("digits"), learning_rate=1.0, weight_decay=0.0)
    server, rounds = FedSGD(scenario, training, data.load("digits"), 0), 8
    min_gain = scenario.min_gain(channel.draw(scenario.num_devices, rounds, 0).gain)
    problem = ReceiveScalingProblem(replace(scenario, num_rounds=rounds), min_gain, 0.01)
    along = []
    for t, eta in enumerate(problem.max_eta):
        at = server.start()._replace(round=t)
        silent, noisy = (server.step(at, each)[0].parameters.double() for each in (np.inf, float(eta)))
        signal = silent - at.parameters
        along.append(float((noisy - silent) @ signal / signal.norm()) ** 2 / (problem.min_noise_energy[t] / 2))
    low, high = stats.chi2.ppf([0.0005, 0.9995], rounds)
    assert low < scenario.num_parameters * np.sum(along) < high
