"""The store: what is killed resumes to the same history, and what was tampered with is refused."""

import hashlib
import io
import os
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
from adascale.runs.store import MAGIC, Busy, Checkpoint, OtherVersion, Store

from .stopping import Stopped, begin

RUN = make_run("digits", "EqualAlloc", 0.5, 0, rounds=8, every=3, momentum=0.9)


@cache
def reference():
    """The run in one go; in a test, where PyTorch has one thread."""
    return perform(RUN)


def assert_same(found, expected=None):
    expected = expected or reference()
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
    store, _ = begun(tmp_path, rounds, stopped, save_seconds)
    (store.place(RUN) / ".checkpoint.half").write_bytes(b"what a signal can leave")
    ran = []
    monkeypatch.setattr(
        module,
        "perform",
        lambda run, **options: perform(
            run, **options | {"keep": lambda state, rows: (ran.append(state.round), options["keep"](state, rows))}
        ),
    )
    assert_same(store.run(RUN, save_seconds=0))
    assert ran == list(range(rounds + 1, 9))  # and only the rest was run
    assert {path.name for path in store.place(RUN).iterdir()} == {"spec.json", "row.json", "history.csv", "lock"}


def test_the_time_of_a_resumed_run_is_all_of_it(tmp_path):
    store, checkpoint = begun(tmp_path)
    trained, seconds = checkpoint.read()
    checkpoint.write(trained, seconds + 1000)
    assert store.run(RUN).row["wall_seconds"] > 1000


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


def test_a_result_without_a_file_is_refused_or_unfinished(tmp_path):
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


def test_a_result_of_another_version_says_so_where_it_is_read(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.run(RUN)
    monkeypatch.setattr(module, "__version__", "9.9")
    with pytest.warns(OtherVersion, match=r"was made by adascale 0\.\S+, this is 9\.9; delete the folder"):
        assert_same(store.finished(RUN))
