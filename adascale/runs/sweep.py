r"""Sweeps: many runs from one TOML file, on the cores of this machine or on the workers of a Dask cluster.

A sweep file is a list of blocks.  In each, ``reading`` is a name for what the block is about, and every other key is an
argument of :func:`~adascale.runs.specification.make_run`; a list stands for all of its values, and all combinations are
run::

    [[runs]]
    reading = "as stated"
    dataset = "mnist"
    policy = ["AdaScale", "Optimal"]
    nu = [0.01, 0.16]
    seed = [0, 1, 2]
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from adascale.accounting import OrdersTooFew
from adascale.files import read_toml
from adascale.learning import Diverged
from adascale.registry import FAILURES, naming_own_code, own_place
from adascale.runs.specification import Run, described, make_run
from adascale.runs.store import Busy, NotCompared, OtherVersion, Store
from adascale.runs.workers import work_on

NOTED_SECONDS, WORKERS_SECONDS = 5.0, 300.0
"""How long a Dask scheduler may be without workers before that is noted, and before the sweep ends."""


class Entry(NamedTuple):
    """A run of a sweep, and what it stands for."""

    reading: str
    run: Run


class Outcome(NamedTuple):
    """What came of a run in this sweep."""

    address: str
    state: str
    """``finished``, ``failed``, ``diverged``, or ``busy`` where another sweep on the same store has taken it."""
    message: str = ""
    orders: OrdersTooFew | None = None
    """Where an epsilon of the run is that of an end of the orders, and one beyond lowers it most."""


def read_sweep(path: str | os.PathLike[str]) -> list[Entry]:
    """The runs of a sweep file, in its order; the last list of a block changes fastest.

    Raises
    ------
    ValueError
        If the file is not TOML of the form above, names a run twice within a reading, or holds a value that
        :func:`~adascale.runs.specification.make_run` refuses; it names the file and the block.
    """
    content = read_toml(path)
    blocks = content.get("runs")
    if set(content) != {"runs"} or not isinstance(blocks, list) or not all(isinstance(each, dict) for each in blocks):
        raise ValueError(f"{path}: expected [[runs]] blocks and nothing else, got {', '.join(content) or 'nothing'}")
    entries = []
    for number, block in enumerate(blocks, 1):
        where = f"{path}, block {number}"
        if missing := [key for key in ("reading", "dataset", "policy", "nu", "seed") if key not in block]:
            raise ValueError(f"{where}: missing key {missing[0]!r}")
        if not isinstance(block["reading"], str):
            raise ValueError(f"{where}: reading must be a string, got {block['reading']!r}")
        if empty := [key for key, value in block.items() if value == []]:
            raise ValueError(f"{where}: {empty[0]} is an empty list; expected a value or a list of values")
        keys = [key for key in block if key != "reading"]
        choices = [block[key] if isinstance(block[key], list) else [block[key]] for key in keys]
        for values in itertools.product(*choices):
            try:
                with naming_own_code():
                    entries.append(Entry(block["reading"], make_run(**dict(zip(keys, values, strict=True)))))
            except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                raise ValueError(f"{where}: {' '.join(str(error).split())}") from None
    if not entries:
        raise ValueError(f"{path} holds no runs")
    seen = set()
    for entry in entries:
        if (each := (entry.reading, entry.run.address)) in seen:
            raise ValueError(f"{path}: reading {each[0]!r} has the run {each[1]} twice")
        seen.add(each)
    return entries


def sweep(
    runs: Iterable[Run],
    store: Store,
    *,
    jobs: int = 1,
    dask: str | None = None,
    device: str = "cpu",
    threads: int = 1,
    retries: int = 1,
    progress: bool = False,
) -> list[Outcome]:
    """Bring all runs into the store; what it holds already is not run again.

    A run that fails is tried again with the others that are missing, up to ``retries`` times; so are the runs of a
    worker that was killed, from their last checkpoints on.  A training that diverges is not: it would do so again.
    What another sweep on the store is working on is left to it and waited for at the end.

    Parameters
    ----------
    runs : iterable of Run
        What is wanted; doubles are run once.
    store : Store
        Where results lie.  Workers of a cluster must see the same folder.
    jobs : int
        Processes on this machine.  They end when this one does, however it ends.
    dask : str, optional
        Address of a Dask scheduler, ``tcp://host:port``; its workers take the place of the processes.
        Where it has none for :data:`WORKERS_SECONDS`, the sweep ends in a ``RuntimeError``.
    device : str
        ``cpu`` or ``cuda``.
    threads : int
        PyTorch's threads in each process.  One is the best use of the cores while there are as many runs.
    retries : int
        Passes after the first, >= 0.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    list of Outcome
        One for each different run, in their order: ``finished``, or ``failed`` or ``diverged`` with the last message.

    Warns
    -----
    OrdersTooFew
        Once, for the run in which orders beyond the accountant's lower an epsilon most.
    """
    store = store.session(shared=dask is not None)
    wanted = {run.address: run for run in runs}
    outcomes = {address: Outcome(address, "missing") for address in wanted}
    with tqdm(total=len(wanted), disable=not progress, unit="run") as bar:
        for attempt in range(retries + 1):
            missing = [
                wanted[address] for address, each in outcomes.items() if each.state not in ("finished", "diverged")
            ]
            if not missing:
                break
            work = partial(_one, store=store, device=device, threads=threads, wait=attempt > 0)
            done = _on_dask(work, missing, dask) if dask else _on_this_machine(work, missing, jobs, threads)
            with contextlib.closing(done):  # at once, if it is interrupted
                for outcome in done:
                    outcomes[outcome.address] = outcome
                    bar.update(outcome.state == "finished")
                    if progress and outcome.state in ("failed", "diverged"):
                        bar.write(f"run {outcome.address} failed: {outcome.message}", file=sys.stderr)
        for address, each in outcomes.items():
            if each.state == "busy":
                outcomes[address] = _one(wanted[address], store=store, device=device, threads=threads, wait=True)
                bar.update(outcomes[address].state == "finished")
    for address, each in outcomes.items():
        if each.state == "finished" and not (store.place(wanted[address]) / "row.json").exists():
            outcomes[address] = Outcome(address, "failed", f"its result is not in {store.folder}")
    if noted := [each.orders for each in outcomes.values() if each.orders]:
        warnings.warn(max(noted, key=_gain), stacklevel=2)
    return list(outcomes.values())


def tables(entries: Iterable[Entry], store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The results of a sweep and their learning curves, as far as the store holds them.

    Returns
    -------
    tuple of pandas.DataFrame
        The rows of :func:`~adascale.runs.execution.perform` with ``reading`` in front; and the evaluated rounds of
        every run's history: ``run, round, loss, test_loss, accuracy, epsilon``.  A run that has a checkpoint only has
        a row without results, and the rounds so far.
    """
    rows: list[dict[str, Any]] = []
    curves: dict[str, pd.DataFrame] = {}
    noted: list[NotCompared] = []
    store = store.session()
    for reading, run in entries:
        with _noting(NotCompared, noted):
            found = store.finished(run)
            under_way = store.under_way(run) if found is None else None
        if found is not None:
            row, history = found
        elif under_way is not None:
            row, history = described(run), under_way
        else:
            continue
        rows.append({"reading": reading} | row)
        evaluated = history.dropna(subset=["accuracy"])
        curves[run.address] = evaluated[["round", "loss", "test_loss", "accuracy", "epsilon"]]
    if noted:
        warnings.warn(f"{noted[0]} ({len(noted)} of {len(rows)} rows are such)", NotCompared, stacklevel=2)
    if not rows:
        return pd.DataFrame(), pd.DataFrame()
    table = pd.DataFrame(rows, columns=_columns(rows))
    if "test_accuracy" not in table:
        table["test_accuracy"] = np.nan  # no run is finished
    curve = pd.concat([curves[run].assign(run=run) for run in curves], ignore_index=True)
    return table, curve[["run", *curve.columns.drop("run")]]


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """The columns of all rows: those that every row starts with, tuned parameters in order of appearance, the rest."""
    longest = max(rows, key=len)
    known = [*longest][: [*longest].index("budget") + 1]
    rest = [*longest][[*longest].index("cost") :] if "cost" in longest else []
    tuned = dict.fromkeys(name for row in rows for name in row if name not in {*known, *rest})
    return [*known, *tuned, *rest]


def progress(entries: Iterable[Entry], store: Store) -> pd.DataFrame:
    """How far each run of a sweep has come: ``reading, run, policy, nu, seed, done, rounds``.

    ``done`` are the rounds that the store has kept of it.
    """
    rows = []
    store = store.session()
    for reading, run in entries:
        with _noting(NotCompared, []):
            history = found.history if (found := store.finished(run)) else store.under_way(run)
        known = described(run)
        rows.append(
            {"reading": reading}
            | {name: known[name] for name in ("run", "policy", "nu", "seed")}
            | {"done": 0 if history is None else len(history), "rounds": known["rounds"]}
        )
    return pd.DataFrame(rows)


def _one(run: Run, *, store: Store, device: str, threads: int, wait: bool) -> Outcome:
    """A run in a worker, where it has a name and no exception."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    noted: list[OrdersTooFew] = []
    try:
        with _noting(OrdersTooFew, noted):
            store.run(run, device=device, wait=wait)
    except Busy as busy:
        return Outcome(run.address, "busy", str(busy))
    except FAILURES as error:  # whatever it is, the others shall run
        state = "diverged" if isinstance(error, Diverged) else "failed"
        return Outcome(run.address, state, " ".join(f"{own_place(error)}{type(error).__name__}: {error}".split()))
    finally:
        torch.set_num_threads(before)
    return Outcome(run.address, "finished", orders=max(noted, key=_gain, default=None))


@contextlib.contextmanager
def _noting(kind: type[Warning], noted: list[Any]) -> Iterator[None]:
    """Keep what is said once a sweep, and show all other warnings at the end."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore", OtherVersion)  # the table has a column for it
            warnings.simplefilter("ignore", NotCompared)  # said of the table
            warnings.simplefilter("always", kind)
            yield
    finally:
        for each in caught:
            if isinstance(each.message, kind):
                noted.append(each.message)
            else:
                warnings.showwarning(each.message, each.category, each.filename, each.lineno)


def _gain(found: OrdersTooFew) -> float:
    """How many times smaller an epsilon is at an order beyond."""
    return found.epsilon / found.better if found.better else 1.0


def _on_this_machine(
    work: Callable[[Run], Outcome], runs: list[Run], jobs: int, threads: int
) -> Generator[Outcome, None, None]:
    if jobs == 1:
        yield from map(work, runs)
        return
    with contextlib.closing(work_on(work, runs, jobs, threads)) as done:
        for run, outcome in done:
            yield outcome or Outcome(run.address, "failed", "a worker process was killed")


def _on_dask(work: Callable[[Run], Outcome], runs: list[Run], address: str) -> Generator[Outcome, None, None]:
    from distributed import Client, wait

    with Client(address) as client:
        left = {client.submit(work, run, pure=False): run.address for run in runs}
        seen, noted = time.monotonic(), False
        while left:
            with contextlib.suppress(TimeoutError):
                wait([*left], timeout=NOTED_SECONDS, return_when="FIRST_COMPLETED")
            for future in [each for each in left if each.done()]:
                run = left.pop(future)
                if future.status == "finished":
                    yield future.result()
                else:
                    yield Outcome(run, "failed", " ".join(f"{future.exception()}".split()))
            if client.nthreads():
                seen, noted = time.monotonic(), False
            elif not noted:
                noted = True
                warnings.warn(f"no workers at {address} yet", RuntimeWarning, stacklevel=2)
            elif time.monotonic() - seen > WORKERS_SECONDS:
                raise RuntimeError(f"no workers at {address} for {WORKERS_SECONDS:g} seconds")
