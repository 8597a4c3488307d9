"""Workers: every task once, whoever is killed, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from adascale.runs import workers
from adascale.runs.workers import work_on

from ..command import alive

TASKS = """
import os, signal, time

def double(task):
    return 2 * task

def told(task):
    return os.getpid(), os.environ["OMP_NUM_THREADS"], signal.pthread_sigmask(signal.SIG_BLOCK, [])

def killed_by_three(task):
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task

def sleep(seconds):
    time.sleep(seconds)

def stubborn(task):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    time.sleep(task)
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
    assert sorted(work_on(tasks.double, range(7), 3)) == [(each, 2 * each) for each in range(7)]
    assert list(work_on(tasks.double, [], 3)) == []


def test_a_worker_does_many_tasks_with_the_threads_that_it_may_use_and_never_hears_ctrl_c(tasks):
    found = [result for _, result in work_on(tasks.told, range(6), 2, threads=3)]
    assert len({pid for pid, _, _ in found}) <= 2
    assert all(threads == "3" for _, threads, _ in found)
    assert all(signal.SIGINT in blocked for _, _, blocked in found)
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
    while alive("pgid", process.pid) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive("pgid", process.pid) == 3  # the control: they were there
    os.kill(process.pid, number)
    process.communicate()
    assert process.returncode == -number
    deadline = time.monotonic() + 10  # they look twice a second; ten for a machine that is busy
    while alive("pgid", process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive("pgid", process.pid) == 0


@pytest.mark.parametrize("work", ["sleep", "stubborn"])
def test_an_iterator_that_is_closed_takes_its_workers_along(tasks, monkeypatch, work):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.5)
    before = alive("ppid", os.getpid())
    working = work_on(getattr(tasks, work), [0.01, 60, 60], 2)
    next(working)
    assert alive("ppid", os.getpid()) == before + 2
    working.close()
    assert alive("ppid", os.getpid()) == before
