"""Processes that work for another one: they end when it does, and signals of the terminal are its alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

CHECKED_SECONDS = 0.5
"""How often a worker looks whether the process that began it is still there."""

GRACE_SECONDS = 5.0
"""How long a worker that is told to stop has for what it keeps."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def work_on(
    work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int, threads: int = 1
) -> Generator[tuple[Task, Result | None], None, None]:
    """Do all tasks in so many processes; they are gone when the iterator is exhausted, closed or interrupted.

    Parameters
    ----------
    work : callable
        What is done with a task.  It can be imported, and raises nothing.
    tasks : iterable
        What can be pickled.
    jobs : int
        Processes, >= 1.
    threads : int
        What numerical libraries may use in each, as far as they ask the environment.

    Yields
    ------
    tuple
        A task and its result, in the order in which they are done; None where the process was killed meanwhile.
    """
    left = deque(tasks)
    workers: dict[Connection, tuple[_Worker, Task]] = {}

    def give(worker: _Worker) -> None:
        task = left.popleft()
        workers[worker.end] = worker, task
        with contextlib.suppress(ConnectionError):
            worker.end.send(task)

    try:
        while left or workers:
            while left and len(workers) < jobs:
                give(_Worker(work, threads))
            for end in wait([*workers]):
                assert isinstance(end, Connection)
                worker, task = workers[end]
                try:
                    result = end.recv()
                except (EOFError, ConnectionError):
                    del workers[end]
                    worker.stop()
                    yield task, None
                    continue
                if left:
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
    """A process that is idle."""

    def __init__(self, work: Callable[..., Any], threads: int):
        self.end, there = Pipe()
        path = [*sys.path, os.getcwd()]  # a module of one's own may lie in the working directory
        code = f"import sys; sys.path[:] = {path!r}; from adascale.runs import workers; workers.serve({there.fileno()})"
        with there, _not_interrupted():  # nor is what begins here, for all its life
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env=os.environ | dict.fromkeys(_THREADS, str(threads)),
            )
        with contextlib.suppress(ConnectionError):  # it was killed at once: then its end is read
            self.end.send(os.getpid())
            self.end.send(work)

    def stop(self) -> None:
        """It is gone afterwards."""
        self.end.close()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(descriptor: int) -> None:
    """Be a worker: do task after task until there is no other, or no one who would ask."""
    signal.signal(signal.SIGTERM, _interrupt)
    with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError), Connection(descriptor) as end:
        follow(end.recv())
        work = end.recv()
        while True:
            end.send(work(end.recv()))


def follow(parent: int) -> None:
    """End this process within a second after the one that began it, however that one ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(CHECKED_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once
    raise KeyboardInterrupt


@contextlib.contextmanager
def _not_interrupted() -> Iterator[None]:
    """Ctrl-C comes after this."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
