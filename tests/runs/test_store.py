"""The store: what is stopped resumes to the same history, and own data are part of the address."""

import os
import signal
import subprocess
import sys
from functools import cache

import pandas as pd
import pytest
import torch

from adascale.runs import store as module
from adascale.runs.execution import perform
from adascale.runs.specification import make_run
from adascale.runs.store import Busy, Store

from .stopping import Stopped, begin

RUN = make_run("digits", "EqualAlloc", 0.5, 0, rounds=8, every=3, momentum=0.9)
whole = cache(lambda: perform(RUN))  # in a test, where PyTorch has one thread


def assert_same(result):
    expected = whole()
    pd.testing.assert_frame_equal(result.history, expected.history, check_exact=True)
    timeless = [name for name in expected.row if name not in ("wall_seconds", "commit")]
    assert {name: result.row[name] for name in timeless} == {
        name: expected.row[name] for name in timeless
    }


@pytest.mark.parametrize(
    ("rounds", "stopped", "save_seconds"),
    [(1, Stopped, 0), (3, Stopped, 0), (4, KeyboardInterrupt, 1e9), (8, Stopped, 0)],
)
def test_stopped_run_resumes_to_the_same_history(
    tmp_path, monkeypatch, rounds, stopped, save_seconds
):
    store = Store(tmp_path)
    path = begin(store, RUN, rounds, stopped, save_seconds)
    torch.save(torch.load(path, weights_only=True) | {"seconds": 1000.0}, path)
    ran = []

    def watched(run, keep, **options):
        return perform(
            run,
            keep=lambda state, rows: (ran.append(state.round), keep(state, rows)),
            **options,
        )

    monkeypatch.setattr(module, "perform", watched)
    result = store.run(RUN, save_seconds=0)
    assert_same(result)
    assert result.row["wall_seconds"] > 1000  # the time of all of it
    assert ran == list(range(rounds + 1, 9))  # and only the rest was run
    assert {path.name for path in store.place(RUN).iterdir()} == {
        "spec.json",
        "row.json",
        "history.csv",
        "lock",
    }


def test_checkpoint_made_under_other_conditions_is_refused(tmp_path, monkeypatch):
    store = Store(tmp_path)
    begin(store, RUN, 4)
    torch.set_num_threads(2)
    with pytest.raises(
        ValueError, match="was made with threads 1, not 2; continue it so, or delete it"
    ):
        store.run(RUN)
    torch.set_num_threads(1)
    for owner, name in ((torch, "torch"), (module, "version")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "__version__", "0.1")
            with pytest.raises(
                ValueError, match=f"was made with {name} '.+', not '0.1'"
            ):
                store.run(RUN)
    assert len(store.under_way(RUN)) == 4  # which can still be shown


@pytest.mark.parametrize("file", ["row.json", "history.csv", "checkpoint"])
def test_damaged_file_is_named(tmp_path, file):
    store = Store(tmp_path)
    if file == "checkpoint":
        begin(store, RUN, 4)
    else:
        store.run(RUN)
    (store.place(RUN) / file).write_bytes(b"{")
    with pytest.raises(
        ValueError,
        match=rf"{RUN.address}.* cannot be read .*delete|cannot be read; delete",
    ):
        store.run(RUN)


def test_a_run_that_another_process_works_on_is_left_to_it(tmp_path):
    store = Store(tmp_path)
    store.place(RUN).mkdir()
    code = "import filelock, sys; held = filelock.FileLock(sys.argv[1]); held.acquire(); print(flush=True); input()"
    lock = store.place(RUN) / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", code, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdout.readline()
        with pytest.raises(Busy, match="another process is working on"):
            store.run(RUN, wait=False)
        os.kill(other.pid, signal.SIGKILL)  # whose lock goes with it
    assert_same(store.run(RUN, wait=False))


# Your own data are part of the address -------------------------------------------------------------------------------

OWN = """
from pathlib import Path
import numpy as np
from adascale.learning import data

def changed(name, change):
    def read():
        raw = data.read_digits()
        return raw._replace(**{name: change(np.asarray(getattr(raw, name)), int(Path("value.txt").read_text()))})
    return read

images = changed("images", lambda x, value: np.where(np.arange(x.size).reshape(x.shape) == 70_000, value / 8, x))
test_labels = changed("test_labels", lambda y, value: np.where(np.arange(y.size) == 9, value, y))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a module into the working directory, and return the function that changes what it reads."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_inputs.py").write_text(OWN)
    (tmp_path / "value.txt").write_text("2")
    yield (tmp_path / "value.txt").write_text
    sys.modules.pop("own_inputs", None)


@pytest.mark.parametrize("name", ["images", "test_labels"])
def test_changed_data_are_another_run(own, tmp_path, name):
    def made():
        return make_run(f"own_inputs:{name}", "EqualAlloc", 0.5, 0, rounds=2)

    first, store = made(), Store(tmp_path / "store")
    result = store.run(first)
    assert made().address == first.address
    own("3")
    second = made()
    assert second.address != first.address
    assert store.finished(second) is None
    with pytest.raises(
        ValueError, match=rf"data of own_inputs:{name} must have the digest \w+, got"
    ):
        perform(first)
    own("2")
    assert store.run(made()).row == result.row


def test_changed_code_that_is_loaded_is_refused(own, tmp_path):
    first = make_run("own_inputs:images", "EqualAlloc", 0.5, 0, rounds=2)
    (tmp_path / "own_inputs.py").write_text(OWN + "# changed\n")
    second = make_run("own_inputs:images", "EqualAlloc", 0.5, 0, rounds=2)
    assert second.address != first.address
    with pytest.raises(
        ValueError,
        match=r"the code of own_inputs:\w+ must have the digest .*; restart this process",
    ):
        perform(second)
