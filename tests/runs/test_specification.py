"""A run: its address is what it is, its row and history are what the parts say."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

from adascale import Scenario, channel, policies
from adascale.learning import Trained, Training, data, train
from adascale.learning.models import build, flatten
from adascale.policies import Selection
from adascale.problem import ReceiveScalingProblem
from adascale.runs import specification
from adascale.runs.execution import decided, perform, problem_of
from adascale.runs.specification import NOISE_FREE, Run, make_run
from adascale.runs.store import Store

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
}
CHANGES |= {
    "placement": "area",
    "learning_rate": 0.5,
    "momentum": 0.5,
    "weight_decay": 0.0,
    "input_scaling": "unit",
}
CHANGES |= {
    "initialisation": "glorot",
    "chunk": 64,
    "clip_norm": 2.0,
    "noise_power": 2e-12,
    "max_power": 0.1,
}
CHANGES |= {
    "order": 2.0,
    "batch_size": 20,
    "partition": "two-classes",
    "distance_range": (10.0, 100.0),
}
CHANGES |= {"accountant": "renyi:orders=(2.0,3.0)", "privacy_noise_power": 1e-13}


def test_whatever_changes_a_run_changes_its_address_and_nothing_else_does(monkeypatch):
    addresses = [short().address] + [
        short(**{name: value}).address for name, value in CHANGES.items()
    ]
    assert len(set(addresses)) == len(addresses)
    assert (
        short(nu=1 / 2, policy="equal_alloc", seed=np.int64(0)).address == addresses[0]
    )
    assert len(addresses[0]) == 16
    assert (
        addresses[0] == "081d867ba95baae9"
    )  # that of version 0.2: results of older stores are found
    assert short(channel="antenna-selection:antennas=4").address == "96e06318305f2e7a"
    found = json.loads(short(placement="area").specification)  # which is plain
    assert found["channel"] == {
        "model": "rayleigh",
        "distance_range": [10.0, 200.0],
        "placement": "area",
    }
    assert found["sources"] == {}
    monkeypatch.setattr(specification, "FORMAT", specification.FORMAT + 1)
    assert short().address != addresses[0]


def test_a_change_arrives_where_it_belongs_and_the_presets_are_the_paper_s():
    run = short(**CHANGES)
    assert (
        run.scenario.clip_norm,
        run.scenario.noise_power,
        run.scenario.num_rounds,
    ) == (2.0, 2e-12, 5)
    assert (
        run.training.learning_rate,
        run.training.initialisation,
        run.training.chunk,
    ) == (0.5, "glorot", 64)
    assert (run.channel.placement, run.budget_factor, run.policy, run.delta) == (
        "area",
        2.0,
        "Optimal",
        1e-6,
    )
    assert run.scenario.num_parameters == 9_370
    run = make_run("mnist", "adascale", 0.01, 0)
    assert (run.scenario, run.training, run.policy) == (
        Scenario.mnist(),
        Training.preset("mnist"),
        "AdaScale",
    )
    run = make_run("cifar10", "adascale", 0.01, 0)
    assert run.scenario == replace(Scenario.cifar10(), num_parameters=550_570)
    by_hand = Run(
        replace(Scenario.digits(), num_rounds=2),
        Training.preset("digits"),
        "Optimal",
        0.5,
        0,
    )
    assert len(perform(by_hand).history) == 2


def test_a_run_is_its_parts_put_together():
    run = short(budget_factor=3.0, noise_power=2e-12)
    scenario = replace(Scenario.digits(), num_rounds=6, noise_power=2e-12)
    drawn = channel.draw(10, 6, 0)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), 1.5)
    w = policies.EqualAlloc().schedule(problem)
    expected = train(
        problem, w, Training.preset("digits"), data.load("digits"), 0, every=3
    ).history
    row, history = perform(run)
    pd.testing.assert_frame_equal(history, expected, check_exact=True)
    assert row["run"] == run.address
    assert (row["nu"], row["budget"], row["rounds"], row["shortened"]) == (
        0.5,
        1.5,
        6,
        True,
    )
    half = ReceiveScalingProblem(
        replace(scenario, privacy_noise_power=1e-12), problem.min_gain, 1.5
    )
    less, other = perform(
        short(budget_factor=3.0, noise_power=2e-12, privacy_noise_power=1e-12)
    )
    pd.testing.assert_frame_equal(
        other.drop(columns=["epsilon", "epsilon_mean"]),
        history.drop(columns=["epsilon", "epsilon_mean"]),
        check_exact=True,
    )
    assert less["rdp"] == half.rdp(w)
    assert less["epsilon"] == half.epsilon(w) > row["epsilon"]
    assert row["cost"] == pytest.approx(1.5, rel=1e-12)
    assert row["rdp"] == float(problem.rdp(w))
    assert row["epsilon"] == expected.epsilon.iloc[-1]
    assert row["test_accuracy"] == expected.accuracy.iloc[-1]
    floor = problem.min_noise_energy
    assert (row["floor_max"], row["floor_max_round"], row["floor_mean"]) == (
        floor.max(),
        floor.argmax(),
        floor.mean(),
    )
    assert {
        "device",
        "machine",
        "threads",
        "python",
        "torch",
        "numpy",
        "version",
        "commit",
        "wall_seconds",
    } <= set(row)


def test_dirichlet_run_takes_the_sizes_of_its_devices_from_the_data():
    given = {
        "partition": "dirichlet:concentration=0.5",
        "batch_size": 20,
        "policy": NOISE_FREE,
    }
    run = short(**given)
    sizes = np.array(run.scenario.dataset_size)
    assert (sizes.sum(), sizes.size, len(set(sizes)) > 1, sizes.min() >= 20) == (
        1500,
        10,
        True,
        True,
    )
    assert sizes.tolist() != list(short(**given, seed=1).scenario.dataset_size)
    assert perform(run).history.batch_size.mean() == pytest.approx(
        200, rel=0.15
    )  # 10 batches of 20 on average


def test_glorot_draws_within_its_bound_and_starts_without_biases():
    model = build("digits_cnn", 0, "glorot")
    for layer in (model[0], model[-1]):
        inputs, outputs = (layer.weight[0].numel(), layer.weight[:, 0].numel())
        bound = np.sqrt(6 / (inputs + outputs))
        assert 0.8 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.bias.any()
    assert not (flatten(model) == flatten(build("digits_cnn", 0))).all()


BAD = {
    "nu": 0,
    "seed": -1,
    "rounds": 201,
    "budget_factor": -1.0,
    "policy": "worst",
    "dataset": 3,
    "model": "resnet",
}
BAD |= {
    "learning_speed": 1,
    "num_parameters": 3,
    "placement": "line",
    "initialisation": "zero",
    "accountant": 3,
}
BAD |= {
    "input_scaling": "log",
    "partition": "one",
    "every": 0,
    "delta": 2,
    "channel": 3,
}


@pytest.mark.parametrize(
    ("name", "value"), [*BAD.items(), ("nu", [0.1, 0.2]), ("seed", True)]
)
def test_bad_input_is_named(name, value):
    with pytest.raises(ValueError, match=f"^'?{name}'? "):
        perform(short(**{name: value}))


def test_what_a_policy_declares_as_tuned_is_in_its_row_and_what_is_fixed_is_not_tuned():
    assert perform(short(policy="AdaScale")).row["penalty"] > 0
    row = perform(short(policy="PowerControl")).row
    assert row["privacy_budget"] > 0
    assert "penalty" not in row
    assert {"penalty", "rate"} <= {*perform(short(policy="LyapunovPowerControl")).row}
    row = perform(short(policy="adascale:penalty=0.5")).row
    assert (row["policy"], row["penalty"]) == ("AdaScale:penalty=0.5", 0.5)
    assert row["cost"] != pytest.approx(0.5)


@dataclass(frozen=True)
class Weaker(channel.Rayleigh):
    """channel.Rayleigh fading of a hundredth of the power, of which the mean gains know nothing."""

    def fading(self, rng, num_rounds):
        return super().fading(rng, num_rounds) / 10

    def floor_law(self, scenario, mean_gain):
        return super().floor_law(scenario, np.asarray(mean_gain) / 100)


def test_the_channel_of_the_run_is_believed():
    run = make_run(
        "digits", "adascale.policies:ConstantLevel", 0.5, 0, rounds=3, every=3
    )
    run = replace(run, channel=Weaker())
    problem, mean_gain = problem_of(run)

    def cost(law):
        return float(problem.cost(policies.ConstantLevel(law=law).schedule(problem)))

    found = perform(run).row["cost"]
    assert found == cost(Weaker().floor_law(run.scenario, mean_gain))
    assert (
        cost(channel.Rayleigh().floor_law(run.scenario, mean_gain)) < 0.1 * found
    )  # the control


@pytest.mark.parametrize(
    "policy", ["Truncated", "Truncated:epsilon=2", "Best:number=7"]
)
def test_row_of_a_run_is_that_of_its_selection(policy, tmp_path):
    run, store = short(policy=f"adascale.policies:{policy}", nu=0.04), Store(tmp_path)
    problem, made, chosen = decided(run)
    row, history = store.run(run)
    gain = run.channel.draw(10, 6, 0).gain
    pd.testing.assert_frame_equal(store.finished(run).history, history)
    np.testing.assert_array_equal(chosen.eta, made.select(run.scenario, gain).eta)
    assert (row["participation"], row["participation_min"]) == (
        chosen.participation.mean(),
        chosen.participation.min(),
    )
    assert row["participation"] < 1  # the control: not all send
    assert (row["epsilon"], row["epsilon_mean"]) == pytest.approx(
        (chosen.epsilon(), chosen.epsilon_mean())
    )
    cost = float(chosen.total - problem.min_noise_energy.mean())
    assert row["cost"] == pytest.approx(cost)
    assert (cost == pytest.approx(0.04)) == ("epsilon" not in policy)


def test_training_of_a_selection_resumes_and_a_round_without_senders_leaks_nothing():
    """That a step averages the senders: tests/learning/test_fedsgd.py."""
    run = short(policy="adascale.policies:Truncated", nu=0.04, rounds=4, every=2)
    problem, _, chosen = decided(run)
    chosen = chosen._replace(senders=chosen.senders.copy(), eta=chosen.eta.copy())
    chosen.senders[:, 1], chosen.eta[1] = False, 0.0
    given, kept = (problem, chosen, run.training, data.load("digits"), 0), []
    whole = train(
        *given, every=2, keep=lambda state, rows: kept.append((state, [*rows]))
    )
    state, rows = kept[1]
    resumed = train(*given, every=2, resume=Trained(state, pd.DataFrame(rows)))
    assert torch.equal(resumed.state.parameters, whole.state.parameters)
    pd.testing.assert_frame_equal(resumed.history, whole.history)
    assert whole.history.noise_energy[1] == np.inf
    before = Selection(replace(run.scenario), chosen.eta[:2], chosen.senders[:, :2])
    assert whole.history.epsilon[1] == pytest.approx(before.epsilon())
