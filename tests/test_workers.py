"""Tasks on executors: each done once, in order, whoever is killed, and by the same code."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children
from pathlib import Path

import pytest

from adascale import workers
from adascale.errors import OtherCode, WorkerLost
from adascale.workers import Processes, map_tasks, run_tasks

from .command import alive
from .command import run as adascale


def double(task):
    time.sleep(0.01 * (task % 3))  # so that they do not finish in their order
    return 2 * task


def warn_or_fail(task):
    if task == 3:
        raise ValueError("three")
    warnings.warn(f"task {task}", stacklevel=1)
    return task


class Remote(ThreadPoolExecutor):
    """A stand-in for an executor of other machines, to and from which all is pickled."""

    losses = 0
    code = workers.code()

    def submit(self, function, /, *arguments):
        self.losses -= 1
        if self.losses >= 0:
            return super().submit(int, "a lost worker")
        task = pickle.dumps((function, (self.code, *arguments[1:])))

        def call():
            function, arguments = pickle.loads(task)
            return pickle.dumps(function(*arguments))

        future, sent = super().submit(call), super().submit
        return sent(lambda: pickle.loads(future.result()))


@pytest.mark.parametrize("losses", [0, 5])
def test_map_tasks_keeps_the_order_of_the_tasks(losses, monkeypatch):
    monkeypatch.setattr(workers, "AHEAD", 5)
    with Remote(4) as executor:
        executor.losses = losses
        assert [*map_tasks(double, range(20), executor)] == [*range(0, 40, 2)]


def test_task_that_loses_two_workers_is_reported():
    with Remote(2) as executor:
        executor.losses = 2
        ((number, error),) = run_tasks(double, [7], executor)
    assert number == 0
    assert isinstance(error, WorkerLost)
    assert "ValueError: invalid literal for int()" in str(error)


def test_run_tasks_holds_few_tasks_at_a_time(monkeypatch):
    monkeypatch.setattr(workers, "AHEAD", 3)
    taken = []
    with Remote(2) as executor:
        results = run_tasks(double, (taken.append(n) or n for n in range(9)), executor)
        next(results)
        assert len(taken) == 3
        results.close()


@pytest.mark.parametrize("executor", [None, Remote(2)])
def test_warnings_and_errors_of_a_task_reach_the_caller(executor):
    with pytest.warns(UserWarning, match="task 1"):
        assert [*map_tasks(warn_or_fail, [1, 1], executor)] == [1, 1]
    with pytest.raises(ValueError, match="three"):
        next(map_tasks(warn_or_fail, [3], executor))


def test_worker_with_other_code_is_refused_by_name():
    with Remote(1) as executor:
        executor.code = "adascale 0.2"
        with pytest.raises(OtherCode, match=rf"worker .* \(process {os.getpid()}\)"):
            next(map_tasks(double, [1], executor))


# Worker processes -----------------------------------------------------------------------------------------------------

TASKS = """
import os, signal, time

def process_and_mask(task):
    return os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, [])

def killed_by_three(task):
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task

def sleep(seconds):
    time.sleep(seconds)
"""

PARENT = """
import tasks
from adascale.workers import Processes
print("ready", flush=True)
with Processes(2) as executor:
    for future in [executor.submit(tasks.sleep, 60) for _ in range(3)]:
        future.result()
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


def until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_a_worker_does_many_tasks_and_never_gets_ctrl_c(tasks):
    with Processes(2) as executor:
        results = [*executor.map(tasks.process_and_mask, range(6))]
    assert len({process for process, _ in results}) <= 2
    assert all(signal.SIGINT in blocked for _, blocked in results)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_worker_that_is_killed_costs_its_task_alone(tasks):
    with Processes(2) as executor:
        futures = [executor.submit(tasks.killed_by_three, n) for n in range(6)]
        errors = [type(future.exception()) for future in futures]
    assert errors[3] is BrokenProcessPool
    assert {*errors[:3], *errors[4:]} == {type(None)}


def test_an_executor_that_is_shut_down_stops_its_workers(tasks):
    start = time.monotonic()
    executor = Processes(2)
    for seconds in (0.01, 60, 60):
        executor.submit(tasks.sleep, seconds)
    assert until(lambda: len(active_children()) == 2, 30)
    executor.shutdown()
    assert active_children() == []
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_are_gone_seconds_after_the_one_that_began_them(tasks, number):
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    process.stdout.readline()
    # the control: two workers, their parent, and Python's resource tracker
    assert until(lambda: alive(process.pid) == 4, 30)
    time.sleep(3)  # until the workers have begun
    os.kill(process.pid, number)
    process.communicate()
    assert process.returncode == -number
    assert until(lambda: alive(process.pid) == 0, 10)


# A cluster ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def scheduler(tmp_path):
    """The address of a Dask scheduler with two workers, which share no folder with this process."""
    pytest.importorskip("distributed")
    file, folder = tmp_path / "scheduler.json", tmp_path / "elsewhere"
    folder.mkdir()
    usual = f"--host 127.0.0.1 --no-dashboard --scheduler-file {file}"
    commands = (
        f"scheduler {usual} --port 0",
        f"worker {usual} --nworkers 2 --nthreads 1",
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command.split()],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(workers.__file__).parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for command in commands
    ]
    try:
        assert until(file.exists, 60)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has begun
            process.wait(30)


@pytest.mark.slow
def test_scheduler_gives_the_table_of_this_process(scheduler, tmp_path):
    command = "leakage --scenario digits --nu 0.04 --policy optimal --policy learn"
    alone, together = tmp_path / "alone.csv", tmp_path / "together.csv"
    assert adascale(*command.split(), "--out", alone) == 0
    assert adascale(*command.split(), "--out", together, "--scheduler", scheduler) == 0
    assert alone.read_bytes() == together.read_bytes()


@pytest.mark.parametrize(
    ("address", "reason"),
    [("tcp://127.0.0.1:9", "Timed out"), ("localhost", "missing port number")],
)
def test_scheduler_without_an_answer_is_one_error(address, reason):
    """In a process of its own, as a client that is left open is told at its end."""
    pytest.importorskip("distributed")
    command = [sys.executable, "-m", "adascale", "leakage", "--nu", "1"]
    done = subprocess.run(
        [*command, "--scheduler", address],
        env=os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "100ms"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"scheduler {address}: {reason}" in line
