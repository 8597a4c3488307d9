"""Worker processes that end with the process that started them."""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def work_on(
    work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int
) -> Generator[tuple[Task, Result | None], None, None]:
    """Yield each task and its result as they finish; None if the process was killed.

    Each of the ``jobs`` processes is a pool of its own, so one that is killed costs its task alone.  If the iterator
    is closed, the processes are stopped.
    """
    left = deque(tasks)
    idle = [_new_pool() for _ in range(min(jobs, len(left)))]
    running: dict[Future[Result], tuple[Task, ProcessPoolExecutor]] = {}
    others = active_children()
    try:
        while left or running:
            while left and idle:
                task, pool = left.popleft(), idle.pop()
                running[_submit(pool, work, task)] = task, pool
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                task, pool = running.pop(future)
                idle.append(pool)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    idle[-1], result = _new_pool(), None
                yield task, result
    finally:
        if running:
            for process in set(active_children()) - set(others):
                process.terminate()
        for pool in [*idle, *(pool for _, pool in running.values())]:
            pool.shutdown(cancel_futures=True)


def _new_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin)


def _submit(
    pool: ProcessPoolExecutor, work: Callable[[Task], Result], task: Task
) -> "Future[Result]":
    """Submit a task; a process that is started for it never gets the terminal's Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_call, work, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a worker process: find modules in the working directory, and end with the parent process."""
    sys.path.append(os.getcwd())

    def end_with_parent() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _call(work: Callable[[Task], Result], task: Task) -> Result:
    """Do a task in a worker process; SIGTERM interrupts it, so that it can save what it has, and ends the process."""

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignore a second signal
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        return work(task)
    except KeyboardInterrupt:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
