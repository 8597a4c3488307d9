"""Sweeps of many runs from one TOML file.

Each block has a label ``reading`` and arguments of :func:`~adascale.runs.specification.make_run`; all
combinations of lists are run::

    [[runs]]
    reading = "as stated"
    dataset = "mnist"
    policy = ["AdaScale", "Optimal"]
    nu = [0.01, 0.16]
    seed = [0, 1, 2]

A block has no ``nu`` if its policies guarantee an epsilon, as in ``policy = "PrivacyBudget:epsilon=2"``.
"""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from tqdm import tqdm

from adascale.accounting import OrdersTooFew
from adascale.errors import PolicyFailed, collected
from adascale.files import read_toml
from adascale.learning.devices import find_device
from adascale.runs.execution import Finished, decided
from adascale.runs.specification import Run, described, make_run
from adascale.runs.store import Store, resume
from adascale.workers import run_tasks


class Entry(NamedTuple):
    """A run of a sweep and its label."""

    reading: str
    run: Run


def read_sweep(path: str | os.PathLike[str]) -> list[Entry]:
    """Read the runs of a sweep file in its order; the last list of a block changes fastest."""
    entries: dict[tuple[str, str], Entry] = {}
    content = read_toml(path)
    blocks = content.get("runs")
    if not (isinstance(blocks, list) and len(content) == 1):
        got = ", ".join(content) or "nothing"
        raise ValueError(
            f"{path}: expected [[runs]] blocks and nothing else, got {got}"
        )
    for number, block in enumerate(blocks, 1):
        where = f"{path}, block {number}"
        _check_block(where, block)
        reading = block.pop("reading")
        block.setdefault("nu", None)
        choices = [
            value if isinstance(value, list) else [value] for value in block.values()
        ]
        for values in itertools.product(*choices):
            try:
                run = make_run(**dict(zip(block, values, strict=True)))
                _try_parameters(run)
            except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                raise ValueError(f"{where}: {' '.join(str(error).split())}") from None
            if (reading, run.address) in entries:
                raise ValueError(
                    f"{path}: reading {reading!r} has the run {run.address} twice"
                )
            entries[reading, run.address] = Entry(reading, run)
    if not entries:
        raise ValueError(f"{path} holds no runs")
    return list(entries.values())


def _check_block(where: str, block: Any) -> None:
    """Refuse a block that lacks a key or a value."""
    if not isinstance(block, dict):
        raise ValueError(f"{where}: expected a table [[runs]], got {block!r}")
    for name, value in block.items():
        if value == []:
            raise ValueError(
                f"{where}: {name} is an empty list; expected a value or a list of values"
            )
    reading = block.get("reading")
    if not isinstance(reading, str):
        raise ValueError(f"{where}: reading must be a text, got {reading!r}")


def _try_parameters(run: Run) -> None:
    """Refuse parameters of a policy, in one round, before hours of other runs."""
    if "=" in run.policy:
        scenario = replace(run.scenario, num_rounds=1)
        try:
            decided(replace(run, scenario=scenario))
        except PolicyFailed:
            raise
        except RuntimeError:
            pass  # one round may not reach the budget


def sweep(
    runs: Iterable[Run],
    store: Store,
    executor: Executor | None = None,
    *,
    device: str = "cpu",
    progress: bool = False,
) -> dict[str, str]:
    """Run what the store lacks, and return why runs failed, by address; nothing if all are finished.

    Results come back to this process, which alone writes the store.  Only checkpoints are written by the workers, if
    they see its folder: a run whose worker is lost is given once more, and goes on from there.

    Parameters
    ----------
    runs, store
    executor : concurrent.futures.Executor, optional
        Where to run, for example :class:`~adascale.workers.Processes` or
        ``dask.distributed.Client(...).get_executor()``.  By default, in this process.
    device : str
        ``cpu``, or ``cuda`` or ``cuda:N``, which all jobs share.
    """
    find_device(device)
    distinct = {run.address: run for run in runs}
    missing = [run for run in distinct.values() if not store.has(run)]
    failures: dict[str, str] = {}
    if not missing:
        return failures
    folder = store.folder.resolve()
    work = partial(_train, folder=folder, device=device)
    with (
        store.locked(),
        tqdm(total=len(missing), disable=not progress, unit="run") as bar,
        contextlib.closing(run_tasks(work, missing, executor)) as results,
    ):
        for number, result in results:
            run = missing[number]
            if isinstance(result, Finished):
                store.write(run, result)
                bar.update()
                continue
            reason = " ".join(f"{type(result).__name__}: {result}".split())
            failures[run.address] = reason
            if progress:
                bar.write(f"run {run.address} failed: {reason}", file=sys.stderr)
    return failures


def _train(run: Run, *, folder: Path, device: str) -> Finished:
    """Do a run, wherever this is, in one thread of PyTorch's, as every process may do one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with collected(OrdersTooFew, []):  # the table has the epsilon of any orders
            return resume(run, folder, device=device)
    finally:
        torch.set_num_threads(before)


def tables(entries: Iterable[Entry], store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of the finished runs, ``reading`` first, and one of their learning curves."""
    rows: list[dict[str, Any]] = []
    curves: dict[str, pd.DataFrame] = {}
    for reading, run in entries:
        finished = store.finished(run)
        if finished is not None:
            rows.append({"reading": reading} | finished.row)
            evaluated = finished.history.dropna(subset=["accuracy"])
            columns = ["round", "loss", "test_loss", "accuracy", "epsilon"]
            curves[run.address] = evaluated[columns]
    if not rows:
        return pd.DataFrame(), pd.DataFrame()
    # rows differ in the tuned parameters, which stand before the cost, and in the participation, which stands after it
    longest = [*max(rows, key=len)]
    last = longest[longest.index("cost") :]
    every = dict.fromkeys(name for row in rows for name in row)
    first = [name for name in every if name not in last]
    curve_table = pd.concat(curves, names=["run"]).reset_index("run")
    table = pd.DataFrame(rows, columns=[*first, *last])
    return table, curve_table.reset_index(drop=True)


def progress(entries: Iterable[Entry], store: Store) -> pd.DataFrame:
    """Return a table of how many rounds of each run are done: ``reading, run, policy, nu, seed, done, rounds``."""
    rows = [
        {"reading": reading} | described(run) | {"done": store.rounds_done(run)}
        for reading, run in entries
    ]
    columns = ["reading", "run", "policy", "nu", "seed", "done", "rounds"]
    return pd.DataFrame(rows, columns=columns)
