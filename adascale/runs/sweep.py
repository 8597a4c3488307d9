"""Sweeps of many runs from one TOML file.

Each block has a label ``reading`` and arguments of :func:`~adascale.runs.specification.make_run`; all
combinations of lists are run::

    [[runs]]
    reading = "as stated"
    dataset = "mnist"
    policy = ["AdaScale", "Optimal"]
    nu = [0.01, 0.16]
    seed = [0, 1, 2]
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

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from adascale.accounting import OrdersTooFew
from adascale.errors import collected
from adascale.files import read_toml
from adascale.learning import Diverged
from adascale.learning.devices import find_device
from adascale.runs.execution import Finished, decided
from adascale.runs.specification import Run, described, make_run
from adascale.runs.store import Store, resume
from adascale.workers import run_tasks

_REQUIRED = ("reading", "dataset", "policy", "nu", "seed")


class Entry(NamedTuple):
    """A run of a sweep and its label."""

    reading: str
    run: Run


class Outcome(NamedTuple):
    """The outcome of a run in this sweep."""

    address: str
    state: str
    """``finished``, ``failed`` or ``diverged``."""
    message: str = ""


def read_sweep(path: str | os.PathLike[str]) -> list[Entry]:
    """Read the runs of a sweep file in its order; the last list of a block changes fastest."""
    entries: dict[tuple[str, str], Entry] = {}
    for number, block in enumerate(_blocks(path), 1):
        where = f"{path}, block {number}"
        _check_block(where, block)
        reading = block.pop("reading")
        choices = {
            name: value if isinstance(value, list) else [value]
            for name, value in block.items()
        }
        for values in itertools.product(*choices.values()):
            try:
                run = make_run(**dict(zip(choices, values, strict=True)))
                _try_parameters(run)
            except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                raise ValueError(f"{where}: {' '.join(str(error).split())}") from None
            if (reading, run.address) in entries:
                raise ValueError(
                    f"{path}: reading {reading!r} has the run {run.address} twice"
                )
            entries[reading, run.address] = Entry(reading, run)
    return list(entries.values())


def _blocks(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    content = read_toml(path)
    blocks: list[dict[str, Any]] = content.get("runs", [])
    is_list = isinstance(blocks, list) and all(
        isinstance(block, dict) for block in blocks
    )
    if not (is_list and len(content) == 1):
        got = ", ".join(content) or "nothing"
        raise ValueError(
            f"{path}: expected [[runs]] blocks and nothing else, got {got}"
        )
    if not blocks:
        raise ValueError(f"{path} holds no runs")
    return blocks


def _check_block(where: str, block: dict[str, Any]) -> None:
    """Refuse a block that lacks a key or a value."""
    for name in _REQUIRED:
        if name not in block:
            raise ValueError(f"{where}: missing key {name!r}")
    for name, value in block.items():
        if value == []:
            raise ValueError(
                f"{where}: {name} is an empty list; expected a value or a list of values"
            )
    if not isinstance(block["reading"], str):
        raise ValueError(f"{where}: reading must be a string, got {block['reading']!r}")


def _try_parameters(run: Run) -> None:
    """Refuse parameters of a policy, in one round, before hours of other runs."""
    if "=" in run.policy:
        scenario = replace(run.scenario, num_rounds=1)
        with contextlib.suppress(RuntimeError):  # one round may not reach the budget
            decided(replace(run, scenario=scenario))


def sweep(
    runs: Iterable[Run],
    store: Store,
    executor: Executor | None = None,
    *,
    device: str = "cpu",
    threads: int = 1,
    progress: bool = False,
) -> list[Outcome]:
    """Run what the store lacks, and return one outcome per distinct run, in their order.

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
    threads : int, >= 1
        Number of PyTorch threads of each run.
    """
    find_device(device)
    distinct = {run.address: run for run in runs}
    outcomes = {address: Outcome(address, "finished") for address in distinct}
    missing = [run for run in distinct.values() if not store.has(run)]
    if not missing:
        return list(outcomes.values())
    folder = store.folder.resolve()
    work = partial(_train, folder=folder, device=device, threads=threads)
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
            state = "diverged" if isinstance(result, Diverged) else "failed"
            message = " ".join(f"{type(result).__name__}: {result}".split())
            outcomes[run.address] = Outcome(run.address, state, message)
            if progress:
                text = f"run {run.address} {state}: {message}"
                bar.write(text, file=sys.stderr)
    return list(outcomes.values())


def _train(run: Run, *, folder: Path, device: str, threads: int) -> Finished:
    """Do a run, wherever this is."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with collected(OrdersTooFew, []):
            return resume(run, folder, device=device)
    finally:
        torch.set_num_threads(before)


def tables(entries: Iterable[Entry], store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of runs that are finished or under way, ``reading`` first, and one of their learning curves."""
    rows: list[dict[str, Any]] = []
    curves: dict[str, pd.DataFrame] = {}
    for reading, run in entries:
        row, history = _stored(run, store)
        if history is not None:
            rows.append({"reading": reading} | row)
            evaluated = history.dropna(subset=["accuracy"])
            columns = ["round", "loss", "test_loss", "accuracy", "epsilon"]
            curves[run.address] = evaluated[columns]
    if not rows:
        return pd.DataFrame(), pd.DataFrame()
    table = pd.DataFrame(rows, columns=_columns(rows))
    if "test_accuracy" not in table:
        table["test_accuracy"] = np.nan  # no run is finished
    curve_table = pd.concat(curves, names=["run"]).reset_index("run")
    return table, curve_table.reset_index(drop=True)


def progress(entries: Iterable[Entry], store: Store) -> pd.DataFrame:
    """Return a table of how many rounds of each run are done: ``reading, run, policy, nu, seed, done, rounds``."""
    rows = []
    for reading, run in entries:
        _, history = _stored(run, store)
        done = 0 if history is None else len(history)
        rows.append({"reading": reading} | described(run) | {"done": done})
    columns = ["reading", "run", "policy", "nu", "seed", "done", "rounds"]
    return pd.DataFrame(rows, columns=columns)


def _stored(run: Run, store: Store) -> tuple[dict[str, Any], pd.DataFrame | None]:
    return store.finished(run) or (described(run), store.under_way(run))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns of all rows: the common first ones, tuned parameters in order of appearance, the rest."""
    longest = [*max(rows, key=len)]
    first = longest[: longest.index("budget") + 1]
    last = longest[longest.index("cost") :] if "cost" in longest else []
    every = dict.fromkeys(name for row in rows for name in row)
    tuned = [name for name in every if name not in {*first, *last}]
    return [*first, *tuned, *last]
