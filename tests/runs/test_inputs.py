"""What a run is made from: where it has changed, a store refuses the result instead of giving it."""

import json
import re
import sys

import pytest

from adascale.runs.execution import perform
from adascale.runs.specification import make_run
from adascale.runs.store import NotCompared, Store
from adascale.runs.sweep import Entry, sweep, tables

from .stopping import begin

OWN = """
from pathlib import Path
import numpy as np
from torch import nn
from adascale import accounting, channel, policies
from adascale.learning import data

def given():
    return float(Path("given.txt").read_text())

def changed(name, change):
    def read():
        raw = data.read_digits()
        return raw._replace(**{name: change(np.asarray(getattr(raw, name)))})
    return read

images = changed("images", lambda x: np.where(np.arange(x.size).reshape(x.shape) == 70_000, given() / 8, x))
test_labels = changed("test_labels", lambda y: np.where(np.arange(y.size) == 9, int(given()), y))
deviation = changed("deviation", lambda deviation: (given() / 8,))

class Network(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.register_buffer("scale", nn.Parameter(self[1].weight.new_tensor(given())), persistent=True)

class Recorded(channel.Rayleigh):
    def draw(self, num_devices, num_rounds, seed):
        drawn = super().draw(num_devices, num_rounds, seed)
        return drawn._replace(coefficient=drawn.coefficient * given())

class Scalings(policies.EqualAlloc):
    def schedule(self, problem):
        return super().schedule(problem) * given() / 4

class Factor(accounting.RenyiAccountant):
    def epsilon(self, *arguments):
        return given() * super().epsilon(*arguments)
"""
KINDS = {name: {"dataset": f"own_inputs:{name}"} for name in ("images", "test_labels", "deviation")} | {
    "network": {"model": "own_inputs:Network"},
    "channel": {"channel": "own_inputs:Recorded"},
    "policy": {"policy": "own_inputs:Scalings"},
    "accountant": {"accountant": "own_inputs:Factor"},
}
CHANGED = r"was made from other data: what own_inputs:\w+ gave had the digest (\w{16}), and has (\w{16}) now; delete"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of one's own in the working directory; the function that changes what its code reads."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_inputs.py").write_text(OWN)
    (tmp_path / "given.txt").write_text("2")
    yield (tmp_path / "given.txt").write_text
    sys.modules.pop("own_inputs", None)


def made(**changes):
    return make_run(**{"dataset": "digits", "policy": "EqualAlloc", "nu": 0.5, "seed": 0, "rounds": 2} | changes)


def assert_changed(ask, *arguments):
    with pytest.raises(ValueError, match=CHANGED) as refused:
        ask(*arguments)
    then, now = re.search(CHANGED, str(refused.value)).groups()
    assert then != now


@pytest.mark.parametrize("kind", KINDS)
def test_store_refuses_result_of_changed_input(kind, own, tmp_path):
    run, store = made(**KINDS[kind]), Store(tmp_path / "store")
    before = store.run(run)
    assert store.run(run).row == before.row
    own("3")
    assert made(**KINDS[kind]).address == run.address  # the control: the specification does not know
    assert_changed(store.run, run)
    assert_changed(store.finished, run)
    assert_changed(tables, [Entry("x", run)], store)
    (outcome,) = sweep([run], store)
    assert outcome.state == "failed"
    assert re.search(CHANGED, outcome.message)
    own("2")
    assert store.finished(run).row == before.row


@pytest.mark.parametrize("kind", ["images", "network"])
def test_store_refuses_checkpoint_of_changed_input(kind, own, tmp_path):
    run, store = made(**KINDS[kind]), Store(tmp_path / "store")
    path = begin(store, run).path
    assert len(store.under_way(run)) == 1
    own("3")
    before = path.read_bytes()
    assert_changed(store.run, run)
    assert_changed(store.under_way, run)
    assert path.read_bytes() == before
    own("2")
    assert len(store.run(run).history) == 2


def test_data_are_read_once_per_session(own, tmp_path, monkeypatch):
    from adascale.learning import data

    read, load = [], data.load
    monkeypatch.setattr(data, "load", lambda *given: read.append(given) or load(*given))
    (tmp_path / "own.toml").write_text('base = "digits"\ntraining = { dataset = "own_inputs:images" }\n')
    runs = [made(dataset="own.toml", seed=seed) for seed in range(3)]
    sweep(runs, Store(tmp_path / "store"))
    assert len(read) == 1
    sweep(runs, Store(tmp_path / "store"))
    assert len(read) == 2


def without_digests(store, run):
    """Make the result as it was before there were digests."""
    path = store.place(run) / "row.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({"row": stored["row"], "history_sha256": stored["history_sha256"]}))


def test_result_without_digests_is_read_with_a_note(own, tmp_path, capsys):
    runs = [made(**KINDS["images"], nu=nu) for nu in (0.5, 1.0)]
    store = Store(tmp_path / "store")
    for run in runs:
        expected = store.run(run)
        without_digests(store, run)
    with pytest.warns(NotCompared, match="has no digest of what own_inputs:images gave"):
        assert store.run(run).row == expected.row
    with pytest.warns(NotCompared, match=r"\(2 of 2 rows are such\)") as noted:
        tables([Entry("x", run) for run in runs], store)
    assert len(noted) == 1
    package = made()
    store.run(package)
    without_digests(store, package)
    store.finished(package)  # nothing of one's own: no note


@pytest.mark.parametrize("kind", ["images", "network", "channel", "policy"])
def test_changed_code_that_is_loaded_is_refused(kind, own, tmp_path):
    made(**KINDS[kind])
    (tmp_path / "own_inputs.py").write_text(OWN + "# changed\n")
    changed = made(**KINDS[kind])
    with pytest.raises(ValueError, match=r"the code of own_inputs:\w+ must have the digest .*; restart this process"):
        perform(changed)
    del sys.modules["own_inputs"]
    if kind != "channel":  # an object of the class that was loaded
        perform(made(**KINDS[kind]))


def test_checkpoint_without_digest_is_read_with_a_note(own, tmp_path):
    run, store = made(**KINDS["images"]), Store(tmp_path / "store")
    checkpoint = begin(store, run)
    trained, seconds = checkpoint.read()
    del checkpoint.conditions["version"], checkpoint.conditions["made"]  # as it was before
    checkpoint.write(trained, seconds)
    with pytest.warns(NotCompared, match="checkpoint has no digest"):
        assert len(store.run(run).history) == 2
    with pytest.warns(NotCompared, match="has no digest"):  # nor is it known of the first round
        store.finished(run)
