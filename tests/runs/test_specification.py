"""A run: its address is what it is, its row and history are what the parts say."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario, channel, policies
from adascale.learning import Training, data, train
from adascale.learning.models import build
from adascale.policies import Selection
from adascale.problem import Problem
from adascale.runs import specification
from adascale.runs.execution import decided, perform
from adascale.runs.specification import NOISE_FREE, make_run

SHORT = {
    "dataset": "digits",
    "policy": "EqualAlloc",
    "nu": 0.5,
    "seed": 0,
    "rounds": 6,
    "every": 3,
}


def short(**changes):
    return make_run(**SHORT | changes)


CHANGES = {
    "policy": "Optimal",
    "nu": 0.25,
    "seed": 1,
    "rounds": 5,
    "every": 2,
    "delta": 1e-6,
    "budget_factor": 2.0,
    "accountant": "renyi:orders=(2.0,3.0)",
    "placement": "area",
    "distance_range": (10.0, 100.0),
    "learning_rate": 0.5,
    "momentum": 0.5,
    "weight_decay": 0.0,
    "input_scaling": "unit",
    "initialisation": "glorot",
    "partition": "two-classes",
    "chunk": 64,
    "clip_norm": 2.0,
    "noise_power": 2e-12,
    "privacy_noise_power": 1e-13,
    "max_power": 0.1,
    "order": 2.0,
    "batch_size": 20,
}


def test_whatever_changes_a_run_changes_its_address(monkeypatch):
    runs = [short(**{name: value}) for name, value in CHANGES.items()]
    addresses = {run.address for run in [short(), *runs]}
    assert len(addresses) == len(runs) + 1
    monkeypatch.setattr(specification, "FORMAT", specification.FORMAT + 1)
    assert short().address not in addresses


def test_the_same_run_has_the_same_address_everywhere():
    """The committed tables have these addresses."""
    same = short(nu=1 / 2, policy="equal_alloc", seed=np.int64(0))
    assert same.address == short().address == "081d867ba95baae9"
    other = short(channel="antenna-selection:antennas=4")
    assert other.address == "154f3d2d9b10a902"
    content = json.loads(short(placement="area").specification)
    channel_content = {"model": "rayleigh", "distance_range": [10.0, 200.0]}
    assert content["channel"] == channel_content | {"placement": "area"}
    assert content["sources"] == {}


def test_a_change_arrives_where_it_belongs():
    run = short(**CHANGES)
    parts = (run, run.scenario, run.training, run.channel)
    for name, value in (CHANGES | {"num_rounds": 5, "num_parameters": 9_370}).items():
        values = [getattr(part, name) for part in parts if hasattr(part, name)]
        assert name == "rounds" or values == [value], name


def test_a_run_of_a_preset_is_the_paper_s():
    run = make_run("mnist", "adascale", 0.01, 0)
    assert run.scenario == Scenario.mnist()
    assert run.training == Training.preset("mnist")
    assert run.policy == "AdaScale"
    run = make_run("cifar10", "adascale", 0.01, 0)
    assert run.scenario == replace(Scenario.cifar10(), num_parameters=550_570)


def test_a_run_is_its_parts_put_together():
    run = short(budget_factor=3.0, noise_power=2e-12)
    scenario = replace(Scenario.digits(), num_rounds=6, noise_power=2e-12)
    draw = channel.draw(10, 6, 0)
    problem = Problem(scenario, scenario.min_gain(draw.gain), 1.5)
    w = policies.EqualAlloc().schedule(problem)
    training = Training.preset("digits")
    expected = train(problem, w, training, data.load("digits"), 0, every=3).history
    row, history = perform(run)
    pd.testing.assert_frame_equal(history, expected, check_exact=True)
    floor = problem.min_noise_energy
    values = {
        "run": run.address,
        "nu": 0.5,
        "budget": 1.5,
        "rounds": 6,
        "shortened": True,
        "rdp": float(problem.rdp(w)),
        "epsilon": expected.epsilon.iloc[-1],
        "test_accuracy": expected.accuracy.iloc[-1],
        "floor_max": floor.max(),
        "floor_max_round": floor.argmax(),
        "floor_mean": floor.mean(),
    }
    assert {name: row[name] for name in values} == values
    assert row["cost"] == pytest.approx(1.5, rel=1e-12)
    provenance = {"machine", "python", "torch", "numpy", "version", "commit"}
    assert provenance | {"device", "threads", "wall_seconds"} <= {*row}


def test_another_partition_takes_the_sizes_of_its_devices_from_the_data():
    changes = {"partition": "two-classes", "batch_size": 20, "policy": NOISE_FREE}
    run, other = short(**changes), short(**changes, seed=1)
    sizes = np.array(run.scenario.dataset_size)
    assert (sizes.sum(), sizes.size) == (1500, 10)
    assert 20 <= sizes.min() < sizes.max()
    assert sizes.tolist() != [*other.scenario.dataset_size]
    # 10 batches of 20 on average
    assert perform(run).history.batch_size.mean() == pytest.approx(200, rel=0.15)


def test_glorot_draws_within_its_bound_and_starts_without_biases():
    *_, layer = build("digits_cnn", 0, "glorot")
    bound = np.sqrt(6 / sum(layer.weight.shape))
    assert 0.99 * bound < float(layer.weight.detach().abs().max()) <= bound
    assert not layer.bias.any()


BAD = {
    "nu": 0,
    "seed": -1,
    "rounds": 201,
    "budget_factor": -1.0,
    "every": 0,
    "delta": 2,
    "policy": "worst",
    "dataset": 3,
    "channel": 3,
    "accountant": 3,
    "model": "resnet",
    "learning_speed": 1,
    "num_parameters": 3,
    "placement": "line",
    "initialisation": "zero",
    "input_scaling": "log",
    "partition": "one",
}


@pytest.mark.parametrize(("name", "value"), [*BAD.items(), ("seed", True)])
def test_bad_input_is_named(name, value):
    with pytest.raises(ValueError, match=f"^'?{name}'? "):
        perform(short(**{name: value}))


ROWS = {
    "AdaScale": {"penalty"},
    "PowerControl": {"privacy_budget"},
    "LyapunovPowerControl": {"penalty", "rate"},
    "adascale:penalty=0.5": {"penalty"},
}


@pytest.mark.parametrize("policy", ROWS)
def test_the_parameters_of_a_policy_are_in_its_row(policy):
    row, _ = perform(short(policy=policy))
    assert {*row} & {"penalty", "rate", "privacy_budget"} == ROWS[policy]
    is_tuned = ":" not in policy
    assert is_tuned or row["penalty"] == 0.5
    assert (row["cost"] == pytest.approx(0.5, rel=1e-4)) == is_tuned


def test_round_of_a_training_without_senders_leaks_nothing():
    """That a step averages the senders: tests/learning/test_fedsgd.py."""
    run = short(policy="adascale.policies:Truncated", nu=0.04, rounds=4, every=2)
    problem, _, selection = decided(run)
    senders, eta = selection.senders.copy(), selection.eta.copy()
    senders[:, 1], eta[1] = False, 0.0
    selection = selection._replace(senders=senders, eta=eta)
    digits = data.load("digits")
    history = train(problem, selection, run.training, digits, 0, every=2).history
    assert history.noise_energy[1] == np.inf
    before = Selection(run.scenario, eta[:2], senders[:, :2])
    assert history.epsilon[1] == pytest.approx(before.epsilon())
