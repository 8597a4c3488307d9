"""Worker processes that exit with their parent and ignore terminal signals."""

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
"""Seconds between checks of a worker that its parent is alive."""

GRACE_SECONDS = 5.0
"""Seconds that a worker has to stop before it is killed."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def work_on(
    work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int, threads: int = 1
) -> Generator[tuple[Task, Result | None], None, None]:
    """Yield each task and its result as processes finish; None if a process was killed.  They end with the iterator."""
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
    """A worker process, idle until it gets a task."""

    def __init__(self, work: Callable[..., Any], threads: int):
        self.end, there = Pipe()
        path = [*sys.path, os.getcwd()]  # the user's modules may be in the working directory
        served = f"from adascale.runs import workers; workers.serve({there.fileno()}, {os.getpid()})"
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # processes started here never see Ctrl-C
        try:
            with there:
                command = [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {served}"]
                env = os.environ | dict.fromkeys(_THREADS, str(threads))
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], env=env)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.send(work)

    def send(self, task: Any) -> None:
        """Send a task; whether the process was killed shows when the answer is read."""
        with contextlib.suppress(ConnectionError):
            self.end.send(task)

    def stop(self) -> None:
        """Stop the process and wait until it has ended."""
        self.end.close()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(descriptor: int, parent: int) -> None:
    """Serve as a worker: do one task after the other until there are no more, or the parent process has gone."""

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignore a second signal
        raise KeyboardInterrupt

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(CHECKED_SECONDS)
        os._exit(1)

    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError), Connection(descriptor) as end:
        work = end.recv()
        while True:
            end.send(work(end.recv()))
