"""Worker processes that end with the process that started them."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import (
    active_children,
    get_context,
    parent_process,
    resource_tracker,
)
from typing import Any, TypeVar

Result = TypeVar("Result")


class Processes(ThreadPoolExecutor):
    """An executor of worker processes, of which one that is killed costs its task alone.

    The ``ProcessPoolExecutor`` of the standard library gives up all its tasks when a process is killed.  So each of
    ``jobs`` threads has such a pool of a single process, and a new one when that breaks.  When the executor is shut
    down, its processes are stopped, whatever they are doing.
    """

    def __init__(self, jobs: int) -> None:
        # a process inherits the signal mask of the thread that starts it, and so never gets the terminal's Ctrl-C;
        # a thread that has to start the resource tracker would lose its mask
        resource_tracker.ensure_running()
        blocked = (signal.SIG_BLOCK, {signal.SIGINT})
        super().__init__(jobs, initializer=signal.pthread_sigmask, initargs=blocked)
        self._others = {*active_children()}
        self._pools: dict[int, ProcessPoolExecutor] = {}
        self._running: set[Future[Any]] = set()
        self._starting, self._stopped = threading.Lock(), False

    def submit(
        self, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> "Future[Result]":
        """Run the function, which has to be importable, in one of the processes."""
        return super().submit(self._run, function, *args, **kwargs)

    def _run(
        self, function: Callable[..., Result], *args: Any, **kwargs: Any
    ) -> Result:
        thread = threading.get_ident()
        with self._starting:
            if self._stopped:
                raise BrokenProcessPool("the executor is shut down")
            if thread not in self._pools:
                self._pools[thread] = ProcessPoolExecutor(
                    1, mp_context=get_context("spawn"), initializer=_begin
                )
            future = self._pools[thread].submit(function, *args, **kwargs)
            self._running.add(future)
        try:
            return future.result()
        except BrokenProcessPool:
            self._pools.pop(thread).shutdown()
            raise BrokenProcessPool("a worker process was killed") from None
        finally:
            self._running.remove(future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, also those that are doing a task."""
        with self._starting:
            self._stopped = True
            if self._running:
                for process in {*active_children()} - self._others:
                    process.terminate()
        super().shutdown(wait, cancel_futures=True)
        for pool in [*self._pools.values()]:
            pool.shutdown(wait)


def _begin() -> None:
    """Prepare a worker process: find modules in the working directory, and end with the parent process."""
    sys.path.append(os.getcwd())

    def end_with_parent() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
