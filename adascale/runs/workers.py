"""Worker processes that exit with their parent and ignore terminal signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

CHECKED_SECONDS = 0.5
"""Interval at which a worker checks that its parent is alive."""

GRACE_SECONDS = 5.0
"""Time that a worker has to stop before it is killed."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def work_on(
    work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int, threads: int = 1
) -> Generator[tuple[Task, Result | None], None, None]:
    """Yield tasks and results as done by processes that end with the iterator; None for one that was killed."""
    left = deque(tasks)
    workers: dict[Connection, tuple[_Worker, Task]] = {}

    def give(worker: _Worker) -> None:
        workers[worker.end] = worker, left.popleft()
        worker.send(workers[worker.end][1])

    try:
        while left or workers:
            while left and len(workers) < jobs:
                give(_Worker(work, threads))
            for end in wait([*workers]):
                assert isinstance(end, Connection)
                worker, task = workers[end]
                try:
                    result, alive = end.recv(), True
                except (EOFError, ConnectionError):
                    result, alive = None, False
                if alive and left:
                    give(worker)
                else:
                    del workers[end]
                    worker.stop()
                yield task, result
    finally:
        for worker, _ in workers.values():
            worker.process.terminate()
        for worker, _ in workers.values():
            worker.stop()


class _Worker:
    """An idle process."""

    def __init__(self, work: Callable[..., Any], threads: int):
        self.end, there = Pipe()
        path = [*sys.path, os.getcwd()]  # a module of one's own may lie in the working directory
        code = f"import sys; sys.path[:] = {path!r}; from adascale.runs import workers; workers.serve({there.fileno()})"
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what begins here never sees Ctrl-C
        try:
            with there:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[there.fileno()],
                    env=os.environ | dict.fromkeys(_THREADS, str(threads)),
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.send(os.getpid())
        self.send(work)

    def send(self, task: Any) -> None:
        """Send a task; a killed process is noticed when the answer is read."""
        with contextlib.suppress(ConnectionError):
            self.end.send(task)

    def stop(self) -> None:
        """Stop the process and wait for its end."""
        self.end.close()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(descriptor: int) -> None:
    """Serve as a worker: do task after task until there is no other, or no parent."""

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError), Connection(descriptor) as end:
        follow(end.recv())
        work = end.recv()
        while True:
            end.send(work(end.recv()))


def follow(parent: int) -> None:
    """End this process within a second after its parent, however that one ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(CHECKED_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
