"""The store: what is stopped resumes to the same history, and own data are part of the address."""

import importlib
import os
import shutil
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
from adascale.runs.sweep import sweep

from .stopping import begin

RUN = make_run("digits", "EqualAlloc", 0.5, 0, rounds=8, every=3, momentum=0.9)
expected = cache(lambda: perform(RUN))  # in a test, where PyTorch has one thread


def assert_same(result):
    row, history = expected()
    pd.testing.assert_frame_equal(result.history, history, check_exact=True)
    timeless = [name for name in row if name not in ("wall_seconds", "commit")]
    for name in timeless:
        assert result.row[name] == row[name], name


@pytest.mark.parametrize("rounds", [1, 3, 8])
def test_stopped_run_resumes_to_the_same_history(tmp_path, monkeypatch, rounds):
    store, rounds_run = Store(tmp_path), []
    path = begin(store, RUN, rounds)
    torch.save(torch.load(path, weights_only=True) | {"seconds": 1000.0}, path)

    def watched(run, keep, **options):
        def noting(state, rows):
            rounds_run.append(state.round)
            keep(state, rows)

        return perform(run, keep=noting, **options)

    monkeypatch.setattr(module, "perform", watched)
    result = store.run(RUN)
    assert_same(result)
    assert_same(store.finished(RUN))
    assert result.row["wall_seconds"] > 1000  # the time of all of it
    assert rounds_run == [*range(rounds + 1, 9)]  # and only the rest was run
    files = {path.name for path in store.place(RUN).iterdir()}
    assert files == {"spec.json", "row.json", "history.csv"}


def test_training_of_a_selection_resumes_to_the_same_history(tmp_path):
    run = make_run("digits", "Truncated:threshold=1e-11", 0.04, 0, rounds=4, every=2)
    begin(Store(tmp_path), run, 2)
    row, history = Store(tmp_path).run(run)
    pd.testing.assert_frame_equal(history, perform(run).history, check_exact=True)
    assert 0 < row["participation"] < 1


def test_checkpoint_made_under_other_conditions_is_refused(tmp_path, monkeypatch):
    store = Store(tmp_path)
    begin(store, RUN, 4)
    torch.set_num_threads(2)
    with pytest.raises(ValueError, match="was made with threads 1, not 2; continue"):
        store.run(RUN)
    torch.set_num_threads(1)
    for owner, name in ((torch, "torch"), (module, "version")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "__version__", "0.1")
            message = f"was made with {name} '.+', not '0.1'"
            with pytest.raises(ValueError, match=message):
                store.run(RUN)
    assert store.rounds_done(RUN) == 4  # which can still be shown


@pytest.mark.parametrize("file", ["row.json", "history.csv", "checkpoint"])
def test_damaged_file_is_named(tmp_path, file):
    store = Store(tmp_path)
    if file == "checkpoint":
        begin(store, RUN, 4)
    else:
        store.run(RUN)
    (store.place(RUN) / file).write_bytes(b"{")
    with pytest.raises(ValueError, match=rf"{RUN.address}.* cannot be read.* delete"):
        store.run(RUN)


LOCKING = """
import sys
from adascale.runs.store import Store
with Store(sys.argv[1]).locked():
    print(flush=True)
    input()
"""


def test_a_store_that_another_process_writes_is_refused_until_that_ends(tmp_path):
    store = Store(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdout.readline()
        with pytest.raises(Busy, match="is in use by another process"):
            store.run(RUN)
        with pytest.raises(Busy, match="is in use by another process"):
            sweep([RUN], store)
        os.kill(other.pid, signal.SIGKILL)  # whose lock goes with it
    assert_same(store.run(RUN))
    with store.locked():  # what is finished is read in any case
        assert_same(store.run(RUN))
        assert not sweep([RUN], store)


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
    def own_run():
        return make_run(f"own_inputs:{name}", "EqualAlloc", 0.5, 0, rounds=2)

    first, store = own_run(), Store(tmp_path / "store")
    result = store.run(first)
    assert own_run().address == first.address
    own("3")
    second = own_run()
    assert second.address != first.address
    assert store.finished(second) is None
    message = rf"data of own_inputs:{name} must have the digest \w+, got"
    with pytest.raises(ValueError, match=message):
        perform(first)
    own("2")
    assert store.run(own_run()).row == result.row


def test_code_that_is_not_that_of_the_run_is_refused(own, tmp_path):
    """As in a worker that was started after the module had changed."""
    first = make_run("own_inputs:images", "EqualAlloc", 0.5, 0, rounds=2)
    (tmp_path / "own_inputs.py").write_text(OWN + "# changed\n")
    again = make_run("own_inputs:images", "EqualAlloc", 0.5, 0, rounds=2)
    assert again.address == first.address  # what is loaded here is as before
    del sys.modules["own_inputs"]
    importlib.invalidate_caches()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    second = make_run("own_inputs:images", "EqualAlloc", 0.5, 0, rounds=2)
    assert second.address != first.address
    message = r"the code of own_inputs:images must have the digest \w+, got \w+"
    with pytest.raises(ValueError, match=message):
        perform(first)
