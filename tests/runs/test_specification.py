"""A run: its address is what it is, its row and history are what the parts say."""

import json
import sys
import tomllib
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

from adascale import Scenario, __version__, channel, policies
from adascale.accounting import RenyiAccountant
from adascale.learning import Trained, Training, data, train
from adascale.learning.models import build, flatten
from adascale.policies import Selection
from adascale.problem import ReceiveScalingProblem
from adascale.runs import specification
from adascale.runs.execution import decided, perform, problem_of
from adascale.runs.provenance import write_provenance
from adascale.runs.specification import NOISE_FREE, Run, make_run
from adascale.runs.store import Store


def short(**changes):
    return make_run(
        **{"dataset": "digits", "policy": "EqualAlloc", "nu": 0.5, "seed": 0, "rounds": 6, "every": 3} | changes
    )


CHANGES = {"policy": "Optimal", "nu": 0.25, "seed": 1, "rounds": 5, "every": 2, "delta": 1e-6, "budget_factor": 2.0}
CHANGES |= {"placement": "area", "learning_rate": 0.5, "momentum": 0.5, "weight_decay": 0.0, "input_scaling": "unit"}
CHANGES |= {"initialisation": "glorot", "chunk": 64, "clip_norm": 2.0, "noise_power": 2e-12, "max_power": 0.1}
CHANGES |= {"order": 2.0, "batch_size": 20, "partition": "two-classes", "distance_range": (10.0, 100.0)}
CHANGES |= {"accountant": "renyi:orders=(2.0,3.0)", "privacy_noise_power": 1e-13}


def test_whatever_changes_a_run_changes_its_address_and_nothing_else_does():
    addresses = [short().address] + [short(**{name: value}).address for name, value in CHANGES.items()]
    assert len(set(addresses)) == len(addresses)
    assert short(nu=1 / 2, policy="equal_alloc", seed=np.int64(0)).address == addresses[0]
    assert len(addresses[0]) == 16
    assert addresses[0] == "081d867ba95baae9"  # that of version 0.2: results of older stores are found
    assert short(channel="antenna-selection:antennas=4").address == "96e06318305f2e7a"


def test_a_change_arrives_where_it_belongs_and_the_presets_are_the_paper_s():
    run = short(**CHANGES)
    assert (run.scenario.clip_norm, run.scenario.noise_power, run.scenario.num_rounds) == (2.0, 2e-12, 5)
    assert (run.training.learning_rate, run.training.initialisation, run.training.chunk) == (0.5, "glorot", 64)
    assert (run.channel.placement, run.budget_factor, run.policy, run.delta) == ("area", 2.0, "Optimal", 1e-6)
    assert run.scenario.num_parameters == 9_370
    run = make_run("mnist", "adascale", 0.01, 0)
    assert (run.scenario, run.training, run.policy) == (Scenario.mnist(), Training.preset("mnist"), "AdaScale")
    run = make_run("cifar10", "adascale", 0.01, 0)
    assert run.scenario == replace(Scenario.cifar10(), num_parameters=550_570)
    by_hand = Run(replace(Scenario.digits(), num_rounds=2), Training.preset("digits"), "Optimal", 0.5, 0)
    assert len(perform(by_hand).history) == 2


def test_a_run_is_its_parts_put_together():
    run = short(budget_factor=3.0, noise_power=2e-12)
    scenario = replace(Scenario.digits(), num_rounds=6, noise_power=2e-12)
    drawn = channel.draw(10, 6, 0)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), 1.5)
    eta = policies.EqualAlloc().schedule(problem)
    expected = train(problem, eta, Training.preset("digits"), data.load("digits"), 0, every=3).history
    row, history = perform(run)
    pd.testing.assert_frame_equal(history, expected, check_exact=True)
    assert row["run"] == run.address
    assert (row["nu"], row["budget"], row["rounds"], row["shortened"]) == (0.5, 1.5, 6, True)
    half = ReceiveScalingProblem(replace(scenario, privacy_noise_power=1e-12), problem.min_gain, 1.5)
    less, other = perform(short(budget_factor=3.0, noise_power=2e-12, privacy_noise_power=1e-12))
    pd.testing.assert_frame_equal(other.drop(columns="epsilon"), history.drop(columns="epsilon"), check_exact=True)
    assert less["rdp"] == half.rdp(eta)
    assert less["epsilon"] == half.dp_epsilon(eta) > row["epsilon"]
    assert row["cost"] == pytest.approx(1.5, rel=1e-12)
    assert row["rdp"] == float(problem.rdp(eta))
    assert row["epsilon"] == expected.epsilon.iloc[-1]
    assert row["test_accuracy"] == expected.accuracy.iloc[-1]
    assert (row["floor_max"], row["floor_max_round"]) == (
        problem.min_noise_energy.max(),
        problem.min_noise_energy.argmax(),
    )
    assert row["floor_mean"] == problem.min_noise_energy.mean()
    assert {"device", "machine", "threads", "python", "torch", "numpy", "version", "commit", "wall_seconds"} <= set(row)


def test_a_receiver_without_noise_keeps_no_budget_and_protects_nobody():
    row, history = perform(short(policy=NOISE_FREE))
    assert row["cost"] is None
    assert row["rdp"] is None
    assert np.isinf(row["epsilon"])
    assert (history.noise_energy == 0).all()


def test_dirichlet_run_takes_the_sizes_of_its_devices_from_the_data():
    run = short(partition="dirichlet:concentration=0.5", batch_size=20, policy=NOISE_FREE)
    sizes = np.array(run.scenario.dataset_size)
    assert (sizes.sum(), sizes.size, len(set(sizes)) > 1, sizes.min() >= 20) == (1500, 10, True, True)
    assert sizes.tolist() != list(
        short(partition="dirichlet:concentration=0.5", batch_size=20, seed=1).scenario.dataset_size
    )
    assert perform(run).history.batch_size.mean() == pytest.approx(200, rel=0.15)  # 10 batches of 20 on average


def test_glorot_draws_within_its_bound_and_starts_without_biases():
    model = build("digits_cnn", 0, "glorot")
    for layer in (model[0], model[-1]):
        inputs, outputs = (layer.weight[0].numel(), layer.weight[:, 0].numel())
        bound = np.sqrt(6 / (inputs + outputs))
        assert 0.8 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.bias.any()
    assert not (flatten(model) == flatten(build("digits_cnn", 0))).all()


BAD = {"nu": 0, "seed": -1, "rounds": 201, "budget_factor": -1.0, "policy": "worst", "dataset": 3, "model": "resnet"}
BAD |= {"learning_speed": 1, "num_parameters": 3, "placement": "line", "initialisation": "zero", "accountant": 3}
BAD |= {"input_scaling": "log", "partition": "one", "every": 0, "delta": 2, "channel": 3}


@pytest.mark.parametrize(("name", "value"), [*BAD.items(), ("nu", [0.1, 0.2]), ("seed", True)])
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


OWN = """
import helper, adascale
class Mine(adascale.policies.EqualAlloc):
    share = helper.share
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A policy of one's own and a module that it imports, in the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(share, comment=""):
        (tmp_path / "stale.py").write_text(OWN + comment)
        (tmp_path / "helper.py").write_text(f"share = {share}")

    write(1)
    yield write
    for name in ("stale", "helper"):
        sys.modules.pop(name, None)


def test_a_policy_whose_code_has_changed_is_another_run(own, tmp_path):
    first = short(policy="stale:Mine")
    assert first.address == short(policy="stale:Mine").address
    own(1, comment="# another word")
    second = short(policy="stale:Mine")
    assert second.address != first.address
    own(2)  # not its own file, but one that it imports
    assert short(policy="stale:Mine").address not in {first.address, second.address}
    (tmp_path / "beside.py").write_text("nothing = 0")  # what it does not import
    own(1)
    assert short(policy="stale:Mine").address == first.address


def test_a_specification_is_plain_and_names_the_code_of_one_s_own_alone(own):
    found = json.loads(short(policy="stale:Mine", placement="area").specification)
    assert list(found["sources"]) == ["stale:Mine"]
    assert found["channel"] == {"model": "rayleigh", "distance_range": [10.0, 200.0], "placement": "area"}
    assert json.loads(short().specification)["sources"] == {}


def test_the_format_is_a_part_of_the_address(monkeypatch):
    before = short().address
    monkeypatch.setattr(specification, "FORMAT", specification.FORMAT + 1)
    assert short().address != before


@dataclass(frozen=True)
class Weaker(channel.Rayleigh):
    """channel.Rayleigh fading of a hundredth of the power, of which the mean gains know nothing."""

    def fading(self, rng, num_rounds):
        return super().fading(rng, num_rounds) / 10

    def floor_law(self, scenario, mean_gain):
        return super().floor_law(scenario, np.asarray(mean_gain) / 100)


def test_the_channel_of_the_run_is_believed():
    run = make_run("digits", "adascale.policies:ConstantLevel", 0.5, 0, rounds=3, every=3)
    run = replace(run, channel=Weaker())
    problem, mean_gain = problem_of(run)

    def cost(law):
        return float(problem.cost(policies.ConstantLevel(law=law).schedule(problem)))

    found = perform(run).row["cost"]
    assert found == cost(Weaker().floor_law(run.scenario, mean_gain))
    assert cost(channel.Rayleigh().floor_law(run.scenario, mean_gain)) < 0.1 * found  # the control


def test_the_provenance_of_a_table_lies_beside_it_with_its_command_and_versions(tmp_path):
    path = write_provenance(tmp_path / "table.csv", "make it", "numpy", threads=2, absent=None)
    assert path == tmp_path / "table.provenance.toml"
    written = tomllib.loads(path.read_text())
    assert written["command"] == "make it"
    assert written["threads"] == 2
    assert written["version"] == __version__
    assert written["numpy"] == np.__version__
    assert "absent" not in written


TRUNCATED, BEST = "adascale.policies:Truncated", "adascale.policies:Best"
KINDS = {"truncated": TRUNCATED, "truncated, fixed": f"{TRUNCATED}:epsilon=2", "best": f"{BEST}:number=7"}


def made(kind, rounds=4):
    return make_run("digits", KINDS[kind], 0.04, 0, rounds=rounds, every=2)


@pytest.mark.parametrize("kind", KINDS)
def test_row_of_a_run_is_that_of_its_selection(kind, tmp_path):
    run, store = made(kind, rounds=6), Store(tmp_path)
    problem, policy, chosen = decided(run)
    row, history = store.run(run)
    gain = run.channel.draw(10, 6, 0).gain
    pd.testing.assert_frame_equal(store.finished(run).history, history)
    np.testing.assert_array_equal(chosen.eta, policy.select(run.scenario, gain).eta)
    assert (row["participation"], row["participation_min"]) == (chosen.participation.mean(), chosen.participation.min())
    assert row["participation"] < 1  # the control: not all send
    assert (row["epsilon"], row["epsilon_max"]) == pytest.approx(chosen.device_epsilons(RenyiAccountant()))
    cost = float(chosen.total - problem.min_noise_energy.mean())
    assert row["cost"] == pytest.approx(cost)
    assert (cost == pytest.approx(0.04)) == ("fixed" not in kind)


def test_training_of_a_selection_resumes_and_a_round_without_senders_leaks_nothing():
    """That a step averages the senders: tests/learning/test_fedsgd.py."""
    run = made("truncated")
    problem, _, chosen = decided(run)
    chosen = chosen._replace(senders=chosen.senders.copy(), eta=chosen.eta.copy())
    chosen.senders[:, 1], chosen.eta[1] = False, 0.0
    given, kept = (problem, chosen, run.training, data.load("digits"), 0), []
    whole = train(*given, every=2, keep=lambda state, rows: kept.append((state, [*rows])))
    state, rows = kept[1]
    resumed = train(*given, every=2, resume=Trained(state, pd.DataFrame(rows)))
    assert torch.equal(resumed.state.parameters, whole.state.parameters)
    pd.testing.assert_frame_equal(resumed.history, whole.history)
    assert whole.history.noise_energy[1] == np.inf
    before = Selection(replace(run.scenario), chosen.eta[:2], chosen.senders[:, :2])
    assert whole.history.epsilon[1] == pytest.approx(before.device_epsilons(RenyiAccountant())[0])
