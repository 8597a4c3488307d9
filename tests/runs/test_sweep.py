"""Sweeps: every run once, whoever runs it and whoever is killed."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pandas as pd
import pytest

from adascale.runs.execution import perform
from adascale.runs.specification import make_run
from adascale.runs.store import Store
from adascale.runs.sweep import Entry, progress, read_sweep, sweep, tables
from adascale.runs.workers import work_on
from companion.training.accuracy import accuracy_claims, accuracy_verdicts

from ..command import alive
from ..command import run as adascale
from .stopping import begin

SWEEP = """
[[runs]]
reading = "as stated"
dataset = "digits"
policy = ["EqualAlloc", "Optimal"]
nu = [0.5, 2]
seed = 0
rounds = 6
every = 3

[[runs]]
reading = "budget times 10"
dataset = "digits"
policy = "EqualAlloc"
budget_factor = 10
nu = 0.5
seed = [0, 1]
rounds = 6
every = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def runs_of(file):
    return [entry.run for entry in read_sweep(file)]


def assert_results(store, runs):
    """What the store holds is what each run gives by itself."""
    for run in runs:
        found, expected = store.finished(run), perform(run)
        pd.testing.assert_frame_equal(found.history, expected.history, check_exact=True)
        assert found.row["test_accuracy"] == expected.row["test_accuracy"]


def test_a_list_stands_for_its_values_and_the_last_changes_fastest(file):
    entries = read_sweep(file)
    found = [
        (e.reading, e.run.policy, e.run.nu, e.run.seed, e.run.budget_factor)
        for e in entries
    ]
    stated = [
        ("as stated", policy, nu, 0, 1)
        for policy in ("EqualAlloc", "Optimal")
        for nu in (0.5, 2)
    ]
    assert found == stated + [
        ("budget times 10", "EqualAlloc", 0.5, seed, 10) for seed in (0, 1)
    ]
    assert entries[0] == Entry(
        "as stated", make_run("digits", "EqualAlloc", 0.5, 0, rounds=6, every=3)
    )


def test_finished_runs_are_skipped_and_doubles_are_run_once(
    file, tmp_path, monkeypatch
):
    runs, store = runs_of(file), Store(tmp_path / "store")
    outcomes = sweep([*runs, *runs], store)
    assert [each.state for each in outcomes] == ["finished"] * 6
    assert [each.address for each in outcomes] == [run.address for run in runs]
    assert_results(store, runs[:2])
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}
    assert [each.state for each in sweep(runs, store)] == ["finished"] * 6
    assert {
        path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")
    } == before


@pytest.fixture
def half_way(file, tmp_path):
    """A store with one run finished and one stopped after 4 of its 6 rounds."""
    entries, store = read_sweep(file), Store(tmp_path / "store")
    store.run(entries[0].run)
    run = replace(entries[1].run, every=2)
    begin(store, run, 4)
    return [entries[0], Entry("as stated", run), entries[2]], store


def test_a_run_that_is_under_way_has_a_row_without_results_and_its_curve_so_far(
    half_way,
):
    entries, store = half_way
    rows, curves = tables(entries, store)
    assert rows.run.tolist() == [entry.run.address for entry in entries[:2]]
    assert rows.test_accuracy.notna().tolist() == [True, False]
    assert rows.rounds.tolist() == [6, 6]
    assert rows.budget.tolist() == [0.5, 2.0]
    found = curves[curves.run == entries[1].run.address]
    expected = perform(entries[1].run).history.dropna(subset=["accuracy"])
    assert found["round"].tolist() == [1, 3]
    assert found.accuracy.tolist() == expected.accuracy.tolist()[:2]
    unfinished, _ = tables(entries[1:], store)
    assert unfinished.test_accuracy.isna().all()
    assert progress(entries, store).done.tolist() == [6, 4, 0]
    claims = accuracy_claims(
        pd.concat([unfinished, unfinished.assign(nu=0.5)]),
        (0.9, 0.8),
        reference="EqualAlloc",
    )
    assert (set(claims.verdict), set(claims.realisations)) == ({"not settled"}, {0})
    assert accuracy_verdicts(claims).loc[("ends", "EqualAlloc"), "ν = 2"] == "?"


POLICY = """
import os, pathlib, signal, adascale
class {name}(adascale.policies.EqualAlloc):
    def schedule(self, problem):
        marker = pathlib.Path({marker!r})
        if not marker.exists():
            marker.touch()
            {action}
        return super().schedule(problem)
"""


def own_policy(tmp_path, monkeypatch, name, action):
    """A policy that does something bad the first time it is asked, in a module of the working directory."""
    text = POLICY.format(name=name, marker=str(tmp_path / name), action=action)
    (tmp_path / f"own_{name.lower()}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return make_run("digits", f"own_{name.lower()}:{name}", 0.5, 0, rounds=6)


def test_what_fails_is_tried_again_and_then_reported_but_what_diverges_is_not(
    file, tmp_path, monkeypatch
):
    always = own_policy(
        tmp_path,
        monkeypatch,
        "Always",
        "marker.unlink(); raise RuntimeError('out of luck')",
    )
    fails = own_policy(
        tmp_path, monkeypatch, "Fails", "raise RuntimeError('out of luck')"
    )
    diverges = make_run("digits", "EqualAlloc", 0.5, 0, rounds=5, learning_rate=1e38)
    store, asked, run = Store(tmp_path / "store"), [], Store.run
    monkeypatch.setattr(
        Store,
        "run",
        lambda self, each, **how: asked.append(each.address) or run(self, each, **how),
    )
    found = sweep([diverges, fails, always, runs_of(file)[0]], store)
    assert [each.state for each in found] == [
        "diverged",
        "finished",
        "failed",
        "finished",
    ]
    assert "Diverged: the training diverged in round" in found[0].message
    assert found[2].message == "RuntimeError: out of luck"
    assert [asked.count(each.address) for each in (diverges, fails)] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("times", "state"), [(1, "finished"), (2, "failed")])
def test_killed_worker_costs_its_run_alone_and_is_tried_twice(
    file, tmp_path, monkeypatch, times, state
):
    action = (
        "os.kill(os.getpid(), signal.SIGKILL)"
        if times == 1
        else "marker.unlink(); os.kill(os.getpid(), 9)"
    )
    killer = own_policy(tmp_path, monkeypatch, f"Kills{times}", action)
    store, others = Store(tmp_path / "store"), runs_of(file)[:3]
    outcomes = sweep([killer, *others], store, jobs=2)
    assert [outcome.state for outcome in outcomes] == [state, *["finished"] * 3]
    assert outcomes[0].message == ("" if times == 1 else "a worker process was killed")
    assert_results(store, others)


def test_run_that_is_not_in_the_store_is_not_finished(
    file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(Store, "run", lambda *_, **__: None)
    assert adascale("sweep", file, "--store", tmp_path / "store") == 1
    said = capsys.readouterr()
    assert said.out == "0 of 6 runs finished\n"
    assert f"its result is not in {tmp_path / 'store'}" in said.err


def test_what_all_runs_miss_is_said_once_and_nothing_is_written(
    file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("ADASCALE_DATA", str(tmp_path / "nothing"))
    file.write_text(SWEEP.replace('"digits"', '"mnist"'))
    assert adascale("sweep", file, "--store", tmp_path / "store") == 1
    said = capsys.readouterr()
    assert said.out == "0 of 6 runs finished\n"
    assert said.err.count("no usable mnist in") == 1
    assert "and 5 more" in said.err
    assert not list(tmp_path.glob("*.csv"))


def contents(folder):
    return {path.name: path.read_text() for path in folder.glob("*.csv")}


@pytest.mark.parametrize("options", [(), ("--report",)])
def test_a_table_that_lacks_runs_never_replaces_one_that_has_them(
    file, tmp_path, monkeypatch, capsys, options
):
    assert adascale("sweep", file, "--store", tmp_path / "store") == 0
    before = contents(tmp_path)
    shutil.rmtree(Store(tmp_path / "store").place(runs_of(file)[2]))
    file.write_text(
        SWEEP + "num_parameters = 3\n"
    )  # a control: what is refused writes nothing
    assert adascale("sweep", file, "--store", tmp_path / "store", *options) == 2
    assert contents(tmp_path) == before
    file.write_text(
        SWEEP.replace("[0.5, 2]", "[0.5, 2, 3]")
        if options
        else SWEEP.replace('"Optimal"', '"absent:No"')
    )
    if not options:
        (tmp_path / "absent.py").write_text(
            "import adascale\nclass No(adascale.policies.EqualAlloc):\n"
            "    def schedule(self, problem):\n        raise RuntimeError('no')\n"
        )
        monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert adascale("sweep", file, "--store", tmp_path / "store", *options) == (
        0 if options else 1
    )
    assert {
        name: text for name, text in contents(tmp_path).items() if "partial" not in name
    } == before
    assert len(pd.read_csv(tmp_path / "sweep-partial.csv")) == (5 if options else 4)
    assert (
        "sweep.csv has results of runs that are missing here, and is left as it is"
        in capsys.readouterr().err
    )


def test_a_report_runs_nothing_and_a_whole_table_alone_takes_the_place_of_any(
    file, tmp_path, capsys
):
    store, entries = Store(tmp_path / "store"), read_sweep(file)
    assert adascale("sweep", file, "--store", store.folder, "--report") == 0
    assert (
        contents(tmp_path),
        all(table.empty for table in tables(entries, store)),
    ) == ({}, True)
    (tmp_path / "sweep.csv").write_text("something,of\nmy,own\n")
    sweep([entry.run for entry in entries[:2]], store)
    capsys.readouterr()
    assert adascale("sweep", file, "--store", store.folder, "--report") == 0
    lines = capsys.readouterr().out.splitlines()[1:7]
    assert [line.split()[-2:] for line in lines] == [["6", "6"]] * 2 + [["0", "6"]] * 4
    assert (
        len(list(store.folder.iterdir()))
        == len(pd.read_csv(tmp_path / "sweep-partial.csv"))
        == 2
    )
    assert (tmp_path / "sweep.csv").read_text() == "something,of\nmy,own\n"
    assert adascale("sweep", file, "--store", store.folder) == 0
    assert sorted(contents(tmp_path)) == ["sweep-curves.csv", "sweep.csv"]
    assert pd.read_csv(tmp_path / "sweep.csv").run.tolist() == [
        entry.run.address for entry in entries
    ]


TASKS = """
import os, signal, time

def double(task):
    return 2 * task

def told(task):
    return os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, [])

def killed_by_three(task):
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task

def sleep(seconds):
    time.sleep(seconds)
"""

PARENT = """
import sys, tasks
from adascale.runs.workers import work_on
print("ready", flush=True)
for _ in work_on(tasks.sleep, [60, 60, 60], 2):
    pass
"""


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """A module of the working directory, where the workers find it as well."""
    (tmp_path / "tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import tasks

    yield tasks
    del sys.modules["tasks"]


def test_every_task_is_done_once(tasks):
    assert sorted(work_on(tasks.double, range(7), 3)) == [
        (each, 2 * each) for each in range(7)
    ]
    assert list(work_on(tasks.double, [], 3)) == []


def test_worker_does_many_tasks_and_never_gets_ctrl_c(tasks):
    found = [result for _, result in work_on(tasks.told, range(6), 2)]
    assert len({pid for pid, _ in found}) <= 2
    assert all(signal.SIGINT in blocked for _, blocked in found)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_worker_that_is_killed_costs_its_task_alone(tasks):
    found = dict(work_on(tasks.killed_by_three, range(6), 2))
    assert found == {0: 0, 1: 1, 2: 2, 3: None, 4: 4, 5: 5}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_are_gone_seconds_after_the_one_that_began_them(tasks, number):
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    process.stdout.readline()
    deadline = time.monotonic() + 30
    while alive("pgid", process.pid) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(3)  # until the workers have begun
    assert (
        alive("pgid", process.pid) == 4
    )  # the control: two workers, their parent, and Python's resource tracker
    os.kill(process.pid, number)
    process.communicate()
    assert process.returncode == -number
    deadline = (
        time.monotonic() + 10
    )  # they look twice a second; ten for a machine that is busy
    while alive("pgid", process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive("pgid", process.pid) == 0


def test_iterator_that_is_closed_stops_its_workers(tasks):
    working = work_on(tasks.sleep, [0.01, 60, 60], 2)
    next(working)
    begun = time.monotonic()
    assert len(multiprocessing.active_children()) == 2
    working.close()
    assert multiprocessing.active_children() == []
    assert time.monotonic() - begun < 20
