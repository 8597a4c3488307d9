"""A run: its address is what it is, its row and history are what the parts say."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario, channel, policies
from adascale.learning import Training, data, train
from adascale.learning.models import build, flatten
from adascale.problem import ReceiveScalingProblem
from adascale.runs.specification import NOISE_FREE, Run, make_run, perform, problem_of


def short(**changes):
    return make_run(**{"dataset": "digits", "policy": "EqualAlloc", "nu": 0.5, "seed": 0, "rounds": 6, "every": 3}
                    | changes)  # fmt: skip


CHANGES = {
    "policy": "Optimal", "nu": 0.25, "seed": 1, "rounds": 5, "every": 2, "delta": 1e-6, "budget_factor": 2.0,
    "placement": "area", "learning_rate": 0.5, "momentum": 0.5, "weight_decay": 0.0, "input_scaling": "unit",
    "initialisation": "glorot", "chunk": 64, "clip_norm": 2.0, "noise_power": 2e-12, "max_power": 0.1, "order": 2.0,
    "batch_size": 20, "partition": "two-classes",
}  # fmt: skip


def test_whatever_changes_a_run_changes_its_address_and_nothing_else_does():
    addresses = [short().address] + [short(**{name: value}).address for name, value in CHANGES.items()]
    assert len(set(addresses)) == len(addresses)
    assert short(nu=1 / 2, policy="equal_alloc", seed=np.int64(0)).address == addresses[0]
    assert len(addresses[0]) == 16


def test_a_change_arrives_where_it_belongs():
    run = short(**CHANGES)
    assert (run.scenario.clip_norm, run.scenario.noise_power, run.scenario.num_rounds) == (2.0, 2e-12, 5)
    assert (run.training.learning_rate, run.training.initialisation, run.training.chunk) == (0.5, "glorot", 64)
    assert (run.placement, run.budget_factor, run.policy, run.delta) == ("area", 2.0, "Optimal", 1e-6)
    assert run.scenario.num_parameters == 9_370


def test_the_presets_are_the_paper_s_with_the_parameters_of_the_network():
    run = make_run("mnist", "adascale", 0.01, 0)
    assert (run.scenario, run.training, run.policy) == (Scenario.mnist(), Training.mnist(), "AdaScale")
    run = make_run("cifar10", "adascale", 0.01, 0)
    assert run.scenario == replace(Scenario.cifar10(), num_parameters=550_570)


def test_a_run_is_its_parts_put_together():
    run = short(budget_factor=3.0, noise_power=2e-12)
    scenario = replace(Scenario.digits(), num_rounds=6, noise_power=2e-12)
    drawn = channel.draw(10, 6, 0)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), 1.5)
    eta = policies.EqualAlloc().schedule(problem)
    expected = train(problem, eta, Training.digits(), data.load("digits"), 0, every=3).history
    row, history = perform(run)
    pd.testing.assert_frame_equal(history, expected, check_exact=True)
    assert row["run"] == run.address
    assert (row["nu"], row["budget"], row["rounds"], row["shortened"]) == (0.5, 1.5, 6, True)
    assert row["cost"] == pytest.approx(1.5, rel=1e-12)
    assert row["rdp"] == float(problem.rdp(eta))
    assert row["epsilon"] == expected.epsilon.iloc[-1]
    assert row["test_accuracy"] == expected.accuracy.iloc[-1]
    assert (row["floor_max"], row["floor_max_round"]) == (problem.floor.max(), problem.floor.argmax())
    assert row["floor_mean"] == problem.floor.mean()
    assert {"device", "machine", "threads", "python", "torch", "numpy", "commit", "wall_seconds"} <= set(row)


def test_the_area_of_a_ring_is_filled_evenly_where_it_is_asked_for():
    run = short(placement="area")
    problem, mean_gain = problem_of(run)
    drawn = channel.draw(10, 6, 0, placement="area")
    np.testing.assert_array_equal(problem.min_gain, run.scenario.min_gain(drawn.gain))
    np.testing.assert_array_equal(mean_gain, run.scenario.mean_gain(drawn.path_loss))


def test_a_receiver_without_noise_keeps_no_budget_and_protects_nobody():
    row, history = perform(short(policy=NOISE_FREE))
    assert row["cost"] is None
    assert row["rdp"] is None
    assert np.isinf(row["epsilon"])
    assert (history.noise_energy == 0).all()


def test_glorot_draws_within_its_bound_and_starts_without_biases():
    model = build("digits_cnn", 0, "glorot")
    for layer in (model[0], model[-1]):
        inputs, outputs = (layer.weight[0].numel(), layer.weight[:, 0].numel())
        bound = np.sqrt(6 / (inputs + outputs))
        assert 0.8 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.bias.any()
    assert not (flatten(model) == flatten(build("digits_cnn", 0))).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nu": 0}, "nu must be finite and > 0, got 0"),
        ({"nu": [0.1, 0.2]}, r"nu must be one number, got \[0.1, 0.2\]"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"seed": True}, "seed must be a whole number >= 0, got True"),
        ({"rounds": 201}, "rounds must be at most the 200 of digits, got 201"),
        ({"budget_factor": -1.0}, "budget_factor must be finite and > 0, got -1.0"),
        ({"policy": "best"}, "policy 'best' is unknown"),
        ({"dataset": "imagenet"}, "dataset 'imagenet' is unknown; expected one of digits, mnist, cifar10"),
        ({"model": "resnet"}, "model 'resnet' is unknown"),
        ({"learning_speed": 1}, "'learning_speed' is nothing that a run has; expected one of .*learning_rate"),
        ({"num_parameters": 3}, "'num_parameters' is nothing that a run has"),
        ({"placement": "line"}, "placement must be 'radius' or 'area', got 'line'"),
        ({"initialisation": "zero"}, "initialisation must be 'default' or 'glorot', got 'zero'"),
        ({"input_scaling": "log"}, "input_scaling must be 'unit' or 'standard', got 'log'"),
        ({"partition": "one"}, "partition must be 'iid' or 'two-classes', got 'one'"),
        ({"every": 0}, "every must be a whole number >= 1, got 0"),
        ({"delta": 2}, "delta must be one number strictly between 0 and 1"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        perform(short(**changes))


def test_a_run_can_be_made_by_hand():
    run = Run(replace(Scenario.digits(), num_rounds=2), Training.digits(), "Optimal", 0.5, 0)
    assert len(perform(run).history) == 2
