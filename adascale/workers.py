"""Tasks on an executor: processes of this machine, or workers on others."""

import contextlib
import hashlib
import os
import pickle
import platform
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import islice
from multiprocessing import (
    active_children,
    get_context,
    parent_process,
    resource_tracker,
)
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from adascale import __version__
from adascale.errors import InvalidInput, OtherCode, WorkerLost

Task = TypeVar("Task")
Result = TypeVar("Result")

AHEAD = 10_000
"""Tasks that an executor holds at most, as a scheduler may hold each in its memory."""

_ONE_TASK = threading.Lock()
"""Held by the thread that does a task, as threads share warnings and PyTorch's random numbers."""


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    executor: Executor | None = None,
) -> Generator[tuple[int, Result | BaseException], None, None]:
    """Yield the number of each task and what the function returns or raises, as they finish.

    A task whose worker is lost is given once more.  If the generator is closed early, tasks that have not
    begun are cancelled.

    Parameters
    ----------
    function, tasks
        A process does one task at a time.  If there is an executor, tasks and the function must be picklable.
    executor : concurrent.futures.Executor, optional
        By default, this thread does all.

    Raises
    ------
    OtherCode
        If a worker has other code of this package.
    """
    if executor is None:
        for number, task in enumerate(tasks):
            yield number, _attempt(function, task)
        return
    waiting: dict[Future[Any], tuple[int, Task, bool]] = {}
    done: SimpleQueue[Future[Any]] = SimpleQueue()

    def submit(number: int, task: Task, is_last: bool) -> None:
        future = executor.submit(_work, code(), pickle.dumps((function, task)))
        waiting[future] = number, task, is_last
        future.add_done_callback(done.put)

    remaining = enumerate(tasks)
    try:
        for number, task in islice(remaining, AHEAD):
            submit(number, task, is_last=False)
        while waiting:
            future = done.get()
            number, task, is_last = waiting.pop(future)
            result = _outcome(future)
            if isinstance(result, WorkerLost) and not is_last:
                submit(number, task, is_last=True)
                continue
            yield number, result
            for number, task in islice(remaining, 1):
                submit(number, task, is_last=False)
    finally:
        for future in waiting:
            future.cancel()


def map_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    executor: Executor | None = None,
) -> Iterator[Result]:
    """Return an iterator over what the function returns for each task, in their order; it raises the first error.

    The arguments are those of :func:`run_tasks`.
    """
    if executor is None:
        return map(function, tasks)
    return _in_order(run_tasks(function, tasks, executor))


def _in_order(
    numbered: Generator[tuple[int, Result | BaseException], None, None],
) -> Iterator[Result]:
    """Yield results in the order of their numbers, and raise the first error at once."""
    finished: dict[int, Result] = {}
    following = 0
    with contextlib.closing(numbered):
        for number, result in numbered:
            if isinstance(result, BaseException):
                raise result
            finished[number] = result
            while following in finished:
                yield finished.pop(following)
                following += 1


@cache
def code() -> str:
    """Return the version of this package and a digest of its code."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"adascale {__version__}, code {digest.hexdigest()[:8]}"


def _work(expected: str, pickled: bytes) -> tuple[Any, list[Warning | str]]:
    """Do a task in a worker, and return the result, or the error, and its warnings."""
    if code() != expected:
        worker = f"worker {platform.node()} (process {os.getpid()})"
        message = f"{worker} has {code()}; expected {expected}, as in this process"
        return OtherCode(message), []
    function, task = pickle.loads(pickled)
    with _ONE_TASK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _attempt(function, task)
    if isinstance(result, BaseException):
        # a pickle has the notes of an error, but not its traceback
        result.add_note("".join(traceback.format_exception(result)))
    return result, [warning.message for warning in caught]


def _attempt(function: Callable[[Task], Result], task: Task) -> Result | BaseException:
    """Return what the function returns, or the error that it raises."""
    try:
        return function(task)
    except (Exception, SystemExit) as error:
        return error


def _outcome(future: "Future[Any]") -> Any:
    """Return the result or the error of a task that is done, after its warnings."""
    if future.cancelled():
        return WorkerLost("its scheduler was lost, or cancelled it twice")
    cause = future.exception()
    if cause is not None:
        second = f"{type(cause).__name__}: {cause}"
        return WorkerLost(f"two workers were lost, the second with {second}")
    result, messages = future.result()
    for message in messages:
        warnings.warn(message, stacklevel=3)
    if isinstance(result, OtherCode):
        raise result
    return result


@contextlib.contextmanager
def open_executor(
    jobs: int = 1, scheduler: str | None = None
) -> Iterator[Executor | None]:
    """Open an executor of processes on this machine, or of the workers of a Dask scheduler, and close it.

    Parameters
    ----------
    jobs : int, >= 1
        Number of processes; 1 is none but this one.
    scheduler : str, optional
        Address, such as ``tcp://10.0.0.1:8786``; needs the extra ``cluster``.
    """
    if jobs < 1:
        raise InvalidInput(f"jobs must be >= 1, got {jobs}", "jobs")
    if scheduler is None:
        with Processes(jobs) if jobs > 1 else contextlib.nullcontext() as executor:
            yield executor
        return
    from dask.distributed import Client
    from distributed.comm.addressing import get_address_host_port

    try:
        # a client with a wrong address would take a minute to close
        get_address_host_port(scheduler)
        client = Client(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler {scheduler}: {error}") from error
    with client:
        yield client.get_executor()


class Processes(ThreadPoolExecutor):
    """An executor of worker processes, of which one that is killed costs its task alone.

    The ``ProcessPoolExecutor`` of the standard library gives up all its tasks when a process is killed.  So each of
    ``jobs`` threads has such a pool of a single process, and a new one when that breaks.  When the executor is shut
    down, its processes are stopped, whatever they are doing.
    """

    def __init__(self, jobs: int) -> None:
        if sys.platform == "win32":
            raise RuntimeError(
                "worker processes need signal masks, which this system lacks"
            )
        # a process inherits the signal mask of the thread that starts it, and so never gets the terminal's Ctrl-C;
        # a thread that has to start the resource tracker would lose its mask
        resource_tracker.ensure_running()
        blocked = (signal.SIG_BLOCK, {signal.SIGINT})
        super().__init__(jobs, initializer=signal.pthread_sigmask, initargs=blocked)
        self._others = {*active_children()}  # not to be ended here
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
        """Run the function in the process of this thread; make a new one if that was killed before."""
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
        """End the processes, also those that are doing a task; an idle one ends with its pool."""
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
