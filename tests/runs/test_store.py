"""The store: what is killed resumes to the same history, and what was tampered with is refused."""

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from filelock import FileLock

from adascale.runs import store as module
from adascale.runs.execution import perform
from adascale.runs.specification import make_run
from adascale.runs.store import MAGIC, Busy, Checkpoint, NotCompared, OtherVersion, Store
from adascale.runs.sweep import Entry, sweep, tables

from .stopping import Stopped, begin

RUN = make_run("digits", "EqualAlloc", 0.5, 0, rounds=8, every=3, momentum=0.9)
whole = cache(lambda: perform(RUN))  # in a test, where PyTorch has one thread


def assert_same(found):
    expected = whole()
    pd.testing.assert_frame_equal(found.history, expected.history, check_exact=True)
    timeless = [name for name in expected.row if name not in ("wall_seconds", "commit")]
    assert {name: found.row[name] for name in timeless} == {name: expected.row[name] for name in timeless}


def begun(folder, *given):
    """A store whose only run was stopped after four rounds, and its checkpoint."""
    store = Store(folder)
    return store, begin(store, RUN, *(given or [4]))


@pytest.mark.parametrize(
    ("rounds", "stopped", "save_seconds"),
    [(1, Stopped, 0), (3, Stopped, 0), (4, KeyboardInterrupt, 1e9), (8, Stopped, 0)],
)
def test_a_stopped_run_resumes_to_the_same_history(tmp_path, monkeypatch, rounds, stopped, save_seconds):
    store, checkpoint = begun(tmp_path, rounds, stopped, save_seconds)
    (store.place(RUN) / ".checkpoint.half").write_bytes(b"what a signal can leave")
    trained, seconds = checkpoint.read()
    checkpoint.write(trained, seconds + 1000)
    ran = []

    def watched(run, keep, **options):
        return perform(run, keep=lambda state, rows: (ran.append(state.round), keep(state, rows)), **options)

    monkeypatch.setattr(module, "perform", watched)
    found = store.run(RUN, save_seconds=0)
    assert_same(found)
    assert found.row["wall_seconds"] > 1000  # the time of all of it
    assert ran == list(range(rounds + 1, 9))  # and only the rest was run
    assert {path.name for path in store.place(RUN).iterdir()} == {"spec.json", "row.json", "history.csv", "lock"}


def test_checkpoint_that_holds_a_pickle_is_not_unpickled(tmp_path):
    np.save(content := io.BytesIO(), np.array([{}], dtype=object), allow_pickle=True)
    whole = MAGIC + hashlib.sha256(content.getvalue()).digest() + content.getvalue()
    (tmp_path / "checkpoint").write_bytes(whole)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Checkpoint(tmp_path / "checkpoint", RUN, "cpu").read()


def test_a_checkpoint_of_another_run_or_made_otherwise_is_refused(tmp_path, monkeypatch):
    store, checkpoint = begun(tmp_path)
    other = make_run("digits", "EqualAlloc", 0.5, 1, rounds=8)
    with pytest.raises(ValueError, match=f"was made with run '{RUN.address}', not '{other.address}'"):
        Checkpoint(checkpoint.path, other, "cpu").read()
    torch.set_num_threads(2)
    with pytest.raises(ValueError, match="was made with threads 1, not 2; continue it so, or delete it"):
        store.run(RUN)
    torch.set_num_threads(1)
    for owner, what in ((torch, "torch"), (module, "version")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "__version__", "0.1")
            with pytest.raises(ValueError, match=f"was made with {what} '.+', not '0.1'"):
                store.run(RUN)


def test_a_result_without_a_file_is_refused_and_one_of_another_version_is_noted(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.run(RUN)
    for file in ("history.csv", "spec.json", "row.json"):
        path = store.place(RUN) / file
        content = path.read_bytes()
        path.unlink()
        if file == "row.json":
            assert store.finished(RUN) is None
        else:
            with pytest.raises(ValueError, match="is not a result as it was written"):
                store.run(RUN)
        path.write_bytes(content)
    monkeypatch.setattr(module, "__version__", "9.9")
    with pytest.warns(OtherVersion, match=r"was made by adascale 0\.\S+, this is 9\.9; delete the folder"):
        assert_same(store.finished(RUN))


def test_a_run_that_another_process_works_on_is_left_to_it(tmp_path):
    store = Store(tmp_path)
    store.place(RUN).mkdir()
    code = "import filelock, sys; held = filelock.FileLock(sys.argv[1]); held.acquire(); print(flush=True); input()"
    lock = store.place(RUN) / "lock"
    with subprocess.Popen([sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(Busy, match="another process is working on"):
            store.run(RUN, wait=False)
        os.kill(other.pid, signal.SIGKILL)  # whose lock goes with it
    assert_same(store.run(RUN, wait=False))


def test_a_run_that_was_finished_while_its_lock_was_awaited_is_read(tmp_path, monkeypatch):
    store, locked = Store(tmp_path), module.locked_folder

    def late(*given):
        monkeypatch.setattr(module, "locked_folder", locked)
        store.run(RUN)
        monkeypatch.setattr(module, "perform", None)
        return locked(*given)

    monkeypatch.setattr(module, "locked_folder", late)
    assert_same(store.run(RUN))


@pytest.mark.parametrize("failures", [1, 100])
def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(tmp_path, monkeypatch, failures):
    store, calls = Store(tmp_path), []

    def lock(*given, **options):
        calls.append(given)
        if len(calls) <= failures:
            store.place(RUN).rmdir()
            raise FileNotFoundError
        return FileLock(*given, **options)

    monkeypatch.setattr(module, "FileLock", lock)
    if failures == 1:
        assert_same(store.run(RUN))
    else:
        with pytest.raises(OSError, match="lock cannot be made"):
            store.run(RUN)


def stop_at(stopping, task):
    """Do it, and raise KeyboardInterrupt at a line of NumPy's or of what it packs with; how many lines there are."""
    lines, before = 0, sys.gettrace()

    def traced(frame, event, _):
        nonlocal lines
        lines += event == "line" and any(name in frame.f_code.co_filename for name in ("numpy", "zipfile"))
        if lines == stopping:
            sys.settrace(None)
            raise KeyboardInterrupt
        return traced

    sys.settrace(traced)
    try:
        task()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.fuzz)])
def test_a_stop_anywhere_while_a_checkpoint_is_packed_is_a_stop(tmp_path, step):
    """What holds a handle may turn it into an error of its own, as zip files do."""
    _, checkpoint = begun(tmp_path)
    trained, seconds = checkpoint.read()
    checkpoint.write(trained, seconds)  # the first time there are more lines
    before = checkpoint.path.read_bytes()
    lines = stop_at(None, lambda: checkpoint.write(trained, seconds))
    for stopping in range(1, lines + 1, step):
        with pytest.raises(KeyboardInterrupt):
            stop_at(stopping, lambda: checkpoint.write(trained, seconds))
        assert checkpoint.path.read_bytes() == before


# What a run is made from: where it has changed, a store refuses the result instead of giving it -----------------------

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
        return super().schedule(problem) * 4 / given()

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
def test_store_refuses_checkpoint_and_result_of_changed_input(kind, own, tmp_path):
    run, store = made(**KINDS[kind]), Store(tmp_path / "store")
    path = begin(store, run).path
    assert len(store.under_way(run)) == 1
    own("3")
    checkpoint = path.read_bytes()
    assert_changed(store.run, run)
    assert_changed(store.under_way, run)
    assert path.read_bytes() == checkpoint
    own("2")
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


def test_result_without_digests_is_read_with_a_note(own, tmp_path):
    *runs, package = [made(**KINDS["images"], nu=nu) for nu in (0.5, 1.0)] + [made()]
    store = Store(tmp_path / "store")
    expected = [store.run(run) for run in (*runs, package)][1]
    for path in store.folder.glob("*/row.json"):  # as it was before there were digests
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({"row": stored["row"], "history_sha256": stored["history_sha256"]}))
    with pytest.warns(NotCompared, match="has no digest of what own_inputs:images gave"):
        assert store.run(runs[1]).row == expected.row
    with pytest.warns(NotCompared, match=r"\(2 of 2 rows are such\)") as noted:
        tables([Entry("x", run) for run in runs], store)
    assert len(noted) == 1
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
