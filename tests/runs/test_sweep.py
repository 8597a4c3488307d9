"""Sweeps: every run once, wherever it is run and whoever is killed."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pandas as pd
import pytest

from adascale.runs import sweep as module
from adascale.runs.execution import perform
from adascale.runs.specification import make_run
from adascale.runs.store import Store
from adascale.runs.sweep import Entry, progress, read_sweep, sweep, tables
from adascale.workers import Processes

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


def states(outcomes):
    return [outcome.state for outcome in outcomes]


def assert_results(store, runs):
    """What the store holds is what each run gives by itself."""
    for run in runs:
        result, expected = store.finished(run), perform(run)
        pd.testing.assert_frame_equal(
            result.history, expected.history, check_exact=True
        )
        assert result.row["test_accuracy"] == expected.row["test_accuracy"]


def test_a_list_stands_for_its_values_and_the_last_changes_fastest(file):
    entries = read_sweep(file)
    first = make_run("digits", "EqualAlloc", 0.5, 0, rounds=6, every=3)
    assert entries[0] == Entry("as stated", first)
    settings = [
        (entry.reading, run.policy, run.nu, run.seed, run.budget_factor)
        for entry in entries
        for run in [entry.run]
    ]
    assert settings == [
        ("as stated", "EqualAlloc", 0.5, 0, 1),
        ("as stated", "EqualAlloc", 2, 0, 1),
        ("as stated", "Optimal", 0.5, 0, 1),
        ("as stated", "Optimal", 2, 0, 1),
        ("budget times 10", "EqualAlloc", 0.5, 0, 10),
        ("budget times 10", "EqualAlloc", 0.5, 1, 10),
    ]


def test_finished_runs_are_skipped_and_doubles_are_run_once(
    file, tmp_path, monkeypatch
):
    runs, store = runs_of(file), Store(tmp_path / "store")
    outcomes = sweep([*runs, *runs], store)
    assert states(outcomes) == ["finished"] * 6
    assert [outcome.address for outcome in outcomes] == [run.address for run in runs]
    assert_results(store, runs[:2])
    monkeypatch.setattr(module, "resume", None)  # nothing is run again
    assert states(sweep(runs, store)) == ["finished"] * 6


class Losing(ThreadPoolExecutor):
    """An executor that loses its first tasks."""

    def __init__(self, losses):
        super().__init__(1)
        self.losses = losses

    def submit(self, function, /, *arguments):
        self.losses -= 1
        if self.losses < 0:
            return super().submit(function, *arguments)
        return super().submit(int, "a lost worker")


@pytest.mark.parametrize(
    ("losses", "expected"), [(2, ["finished"] * 2), (3, ["failed", "finished"])]
)
def test_a_lost_worker_s_run_is_given_again_once(file, tmp_path, losses, expected):
    with Losing(losses) as pool:
        outcomes = sweep(runs_of(file)[:2], Store(tmp_path / "store"), pool)
    assert states(outcomes) == expected
    assert ("a lost worker" in outcomes[0].message) == (losses == 3)


def test_a_run_that_is_under_way_has_a_row_without_results_and_its_curve_so_far(
    file, tmp_path
):
    entries, store = read_sweep(file)[:3], Store(tmp_path / "store")
    store.run(entries[0].run)
    entries[1] = Entry("as stated", replace(entries[1].run, every=2))
    begin(store, entries[1].run, 4)
    rows, curves = tables(entries, store)
    assert rows.run.tolist() == [entry.run.address for entry in entries[:2]]
    assert rows.test_accuracy.notna().tolist() == [True, False]
    assert rows.rounds.tolist() == [6, 6]
    assert rows.budget.tolist() == [0.5, 2.0]
    curve = curves[curves.run == entries[1].run.address]
    history = perform(entries[1].run).history.dropna(subset=["accuracy"])
    assert curve["round"].tolist() == [1, 3]
    assert curve.accuracy.tolist() == history.accuracy.tolist()[:2]
    assert tables(entries[1:], store)[0].test_accuracy.isna().all()
    assert progress(entries, store).done.tolist() == [6, 4, 0]


POLICY = """
import os, pathlib, adascale
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


def test_failed_runs_are_reported_and_the_others_go_on(file, tmp_path, monkeypatch):
    fail = "raise RuntimeError('out of luck')"
    once = own_policy(tmp_path, monkeypatch, "Once", fail)
    diverges = make_run("digits", "EqualAlloc", 0.5, 0, rounds=5, learning_rate=1e38)
    runs, store = [diverges, once, runs_of(file)[0]], Store(tmp_path / "store")
    outcomes = sweep(runs, store)
    assert states(outcomes) == ["diverged", "failed", "finished"]
    assert "Diverged: the training diverged in round" in outcomes[0].message
    assert outcomes[1].message == "RuntimeError: out of luck"
    assert states(sweep(runs, store)) == ["diverged", "finished", "finished"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("always", "state"), [("", "finished"), ("marker.unlink(); ", "failed")]
)
def test_killed_worker_costs_its_run_alone_and_is_tried_twice(
    file, tmp_path, monkeypatch, always, state
):
    action = f"{always}os.kill(os.getpid(), 9)"
    killer = own_policy(tmp_path, monkeypatch, f"Kills{len(always)}", action)
    store, others = Store(tmp_path / "store"), runs_of(file)[:3]
    with Processes(2) as executor:
        outcomes = sweep([killer, *others], store, executor)
    assert states(outcomes) == [state, *["finished"] * 3]
    assert ("a worker process was killed" in outcomes[0].message) == bool(always)
    assert_results(store, others)


# The command ----------------------------------------------------------------------------------------------------------


def contents(folder):
    return {path.name: path.read_text() for path in folder.glob("*.csv")}


NO = """
import adascale
class No(adascale.policies.EqualAlloc):
    def schedule(self, problem):
        raise RuntimeError("no")
"""


@pytest.mark.parametrize("options", [(), ("--report",)])
def test_a_table_that_lacks_runs_never_replaces_one_that_has_them(
    file, tmp_path, monkeypatch, capsys, options
):
    command = ["sweep", file, "--store", tmp_path / "store", *options]
    assert adascale(*command[:4]) == 0
    before = contents(tmp_path)
    shutil.rmtree(Store(tmp_path / "store").place(runs_of(file)[2]))
    file.write_text(f"{SWEEP}num_parameters = 3\n")
    assert adascale(*command) == 2  # what is refused writes nothing
    assert contents(tmp_path) == before
    (tmp_path / "absent.py").write_text(NO)
    monkeypatch.chdir(tmp_path)
    old, new = ("[0.5, 2]", "[0.5, 2, 3]") if options else ('"Optimal"', '"absent:No"')
    file.write_text(SWEEP.replace(old, new))
    assert adascale(*command) == (0 if options else 1)
    after = contents(tmp_path)
    partial = after.pop("sweep-partial.csv")
    del after["sweep-partial-curves.csv"]
    assert after == before
    assert partial.count("\n") == 1 + (5 if options else 4)
    message = "sweep.csv has results of runs that are missing here, and is left as it"
    assert message in capsys.readouterr().err


def test_a_whole_table_alone_takes_the_place_of_any(file, tmp_path, capsys):
    store, runs = Store(tmp_path / "store"), runs_of(file)
    (tmp_path / "sweep.csv").write_text("something,of\nmy,own\n")
    sweep(runs[:2], store)
    assert adascale("sweep", file, "--store", store.folder, "--report") == 0
    lines = capsys.readouterr().out.splitlines()[1:7]
    done = [line.split()[-2:] for line in lines]
    assert done == [["6", "6"]] * 2 + [["0", "6"]] * 4
    assert len(pd.read_csv(tmp_path / "sweep-partial.csv")) == 2
    assert (tmp_path / "sweep.csv").read_text() == "something,of\nmy,own\n"
    assert adascale("sweep", file, "--store", store.folder) == 0
    assert sorted(contents(tmp_path)) == ["sweep-curves.csv", "sweep.csv"]
    addresses = [run.address for run in runs]
    assert pd.read_csv(tmp_path / "sweep.csv").run.tolist() == addresses


def test_an_interrupt_leaves_a_store_that_goes_on(file, tmp_path, monkeypatch):
    runs, store = runs_of(file)[:3], Store(tmp_path / "store")
    write = Store.write

    def interrupted(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(Store, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep(runs, store, pool)
    assert sum(store.finished(run) is not None for run in runs) == 1
    assert states(sweep(runs, store)) == ["finished"] * 3


def test_a_second_sweep_of_the_store_is_refused(file, tmp_path, capsys):
    with Store(tmp_path / "store").locked():
        assert adascale("sweep", file, "--store", tmp_path / "store") == 1
    assert "store' is in use by another process" in capsys.readouterr().err
