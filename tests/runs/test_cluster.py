"""Sweeps on a Dask cluster: what a killed worker costs, a cluster without workers, and a store that is not seen."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from adascale.runs import sweep as sweeps
from adascale.runs.specification import make_run
from adascale.runs.store import Store
from adascale.runs.sweep import sweep

from ..command import refused
from .test_sweep import SWEEP, assert_results

BARRIER = """
import os, pathlib, time, adascale
place = pathlib.Path({place!r})
class Meets(adascale.policies.EqualAlloc):
    def schedule(self, problem):
        (place / str(os.getpid())).touch()
        while not (place / "go").exists():
            time.sleep(0.01)
        return super().schedule(problem)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no workers at")  # on a machine that is busy
def test_on_a_cluster_a_killed_worker_costs_its_run_alone(tmp_path, monkeypatch):
    """A scheduler and two workers, three processes on loopback.

    Both workers wait at a barrier in the middle of their first run; one is killed there, then the other is let go.
    """
    place = tmp_path / "barrier"
    place.mkdir()
    (tmp_path / "meets.py").write_text(BARRIER.format(place=str(place)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    runs = [make_run("digits", "meets:Meets", 0.5, seed, rounds=3) for seed in range(3)]
    store = Store("store")  # of this folder, not of that of the workers
    contact, processes = tmp_path / "scheduler.json", []

    def begin(*command):
        command = [sys.executable, "-m", f"distributed.cli.dask_{command[0]}", *command[1:], "--no-dashboard"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes.append(subprocess.Popen([*command, "--scheduler-file", str(contact)], cwd=place, **silent))

    def wait_for(condition):
        """However slow the machine is; but not for a process that is gone."""
        while not condition():
            assert [process.poll() for process in processes] == [None] * len(processes)
            time.sleep(0.01)

    try:
        begin("scheduler", "--host", "127.0.0.1", "--port", "0")
        wait_for(contact.exists)
        for _ in range(2):
            begin("worker", "--no-nanny", "--nthreads", "1")
        address = re.search(r"tcp://[\d.:]+", contact.read_text())[0]
        with ThreadPoolExecutor(1) as beside:
            outcomes = beside.submit(sweep, runs, store, dask=address)
            pids = {str(each.pid) for each in processes[1:]}
            wait_for(lambda: outcomes.done() or {path.name for path in place.iterdir()} >= pids)
            assert not outcomes.done()
            processes[1].send_signal(signal.SIGKILL)
            processes[1].wait()
            (place / "go").touch()
            assert [each.state for each in outcomes.result()] == ["finished"] * len(runs)
        assert [process.poll() for process in processes] == [None, -signal.SIGKILL, None]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert_results(store, runs)


@pytest.fixture
def no_workers(monkeypatch):
    """The address of a Dask scheduler that has none."""
    from distributed import LocalCluster

    monkeypatch.setattr(sweeps, "NOTED_SECONDS", 0.2)
    monkeypatch.setattr(sweeps, "WORKERS_SECONDS", 1.0)
    with LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("ignore:Port")
def test_sweep_without_workers_says_so_and_ends(tmp_path, no_workers, capsys):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    command = ["sweep", tmp_path / "sweep.toml", "--store", tmp_path / "store", "--dask", no_workers]
    with pytest.warns(RuntimeWarning, match=f"^no workers at {no_workers} yet$") as noted:
        assert f"no workers at {no_workers} for 1 seconds" in refused(capsys, *command, code=1)
    assert len(noted) == 1


def test_worker_refuses_a_store_that_it_does_not_see(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, sent = make_run("digits", "EqualAlloc", 0.5, 0, rounds=3), Store("store").session(shared=True)
    assert sent.folder == tmp_path / "store"
    monkeypatch.chdir("/")
    (tmp_path / "store").rename(tmp_path / "other")
    refusal = re.escape(f"does not see the store {str(tmp_path / 'store')!r}")
    with pytest.raises(ValueError, match=refusal):
        sent.run(run)
    assert not (tmp_path / "store").exists()
    Store(tmp_path / "store").session(shared=True)  # another folder of that name
    with pytest.raises(ValueError, match=refusal):
        sent.run(run)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "other").rename(tmp_path / "store")
    Store(tmp_path / "store").session(shared=True)  # its word stays
    assert sent.run(run) is not None
