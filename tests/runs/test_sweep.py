"""Sweeps: every run once, wherever it is run and whoever is killed."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from adascale.errors import PolicyFailed
from adascale.runs import sweep as module
from adascale.runs.execution import perform
from adascale.runs.specification import make_run
from adascale.runs.store import Store
from adascale.runs.sweep import Entry, read_sweep, sweep

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
        result, expected = store.finished(run), perform(run)
        pd.testing.assert_frame_equal(
            result.history, expected.history, check_exact=True
        )
        assert result.row["test_accuracy"] == expected.row["test_accuracy"]


def test_a_list_stands_for_its_values_and_the_last_changes_fastest(file):
    one = partial(make_run, "digits", rounds=6, every=3)
    first, second = ("as stated", "budget times 10")
    assert read_sweep(file) == [
        Entry(first, one("EqualAlloc", 0.5, 0)),
        Entry(first, one("EqualAlloc", 2, 0)),
        Entry(first, one("Optimal", 0.5, 0)),
        Entry(first, one("Optimal", 2, 0)),
        Entry(second, one("EqualAlloc", 0.5, 0, budget_factor=10)),
        Entry(second, one("EqualAlloc", 0.5, 1, budget_factor=10)),
    ]


def test_only_a_policy_that_guarantees_epsilon_needs_no_nu(file):
    text = SWEEP.replace("nu = [0.5, 2]\n", "")
    file.write_text(text.replace('["EqualAlloc", "Optimal"]', '"Truncated:epsilon=2"'))
    first, *_ = runs_of(file)
    assert first == make_run(
        "digits", "Truncated:epsilon=2", None, 0, rounds=6, every=3
    )
    file.write_text(text)
    with pytest.raises(ValueError, match="block 1: nu must be a number"):
        read_sweep(file)


def test_finished_runs_are_skipped_and_doubles_are_run_once(
    file, tmp_path, monkeypatch
):
    runs, store = runs_of(file), Store(tmp_path / "store")
    assert not sweep([*runs, *runs], store)
    assert_results(store, runs)
    monkeypatch.setattr(module, "resume", None)  # nothing is run again
    assert not sweep(runs, store)


POLICY = """
import adascale
class Once(adascale.policies.EqualAlloc):
    fails = True
    def schedule(self, problem):
        if Once.fails:
            Once.fails = False
            raise RuntimeError("out of luck")
        return super().schedule(problem)
"""


def test_failed_runs_are_reported_and_the_others_go_on(file, tmp_path, monkeypatch):
    (tmp_path / "own_once.py").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    once = make_run("digits", "own_once:Once", 0.5, 0, rounds=6)
    diverges = make_run("digits", "EqualAlloc", 0.5, 0, rounds=5, learning_rate=1e38)
    runs, store = [diverges, once, runs_of(file)[0]], Store(tmp_path / "store")
    failures = sweep(runs, store)
    assert [*failures] == [diverges.address, once.address]
    assert "Diverged: the training diverged in round" in failures[diverges.address]
    assert failures[once.address] == (
        "PolicyFailed: Once failed in its schedule: RuntimeError: out of luck"
    )
    assert [*sweep(runs, store)] == [diverges.address]


TWO = """
from adascale.errors import BudgetNotReached
from adascale.policies import Policy
class Short(Policy):
    def __init__(self, level): pass
    def schedule(self, problem): raise BudgetNotReached
class Fails(Short):
    def schedule(self, problem): raise ZeroDivisionError
"""


def test_own_policy_that_fails_is_refused_when_the_file_is_read(tmp_path, monkeypatch):
    """A wrong parameter is found before the first run; a round that cannot reach the budget is no error."""
    monkeypatch.chdir(tmp_path)
    block = '[[runs]]\nreading = "x"\ndataset = "digits"\nnu = 0.5\nseed = 0\n'
    Path("own_too.py").write_text(TWO)
    Path("s.toml").write_text(f'{block}policy = "own_too:Short:level=1"\n')
    assert len(read_sweep("s.toml")) == 1
    Path("s.toml").write_text(f'{block}policy = "own_too:Fails:level=1"\n')
    with pytest.raises(PolicyFailed, match="Fails failed in its schedule"):
        read_sweep("s.toml")


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
    file, tmp_path, monkeypatch, options
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


def test_a_whole_table_takes_the_place_of_a_partial_one(file, tmp_path, capsys):
    store, runs = Store(tmp_path / "store"), runs_of(file)
    sweep(runs[:2], store)
    begin(store, runs[2], 4)
    assert adascale("sweep", file, "--store", store.folder, "--report") == 0
    lines = capsys.readouterr().out.splitlines()[1:7]
    done = [line.split()[-2:] for line in lines]
    assert done == [["6", "6"]] * 2 + [["4", "6"]] + [["0", "6"]] * 3
    assert len(pd.read_csv(tmp_path / "sweep-partial.csv")) == 2
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
    assert not sweep(runs, store)
