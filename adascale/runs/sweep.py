"""Sweeps of many runs from one TOML file; machines with the same store share the work.

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
from dataclasses import replace
from functools import partial
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
from adascale.runs.execution import decided
from adascale.runs.specification import Run, described, make_run
from adascale.runs.store import Busy, Store
from adascale.runs.workers import work_on


class Entry(NamedTuple):
    """A run of a sweep and its label."""

    reading: str
    run: Run


class Outcome(NamedTuple):
    """The outcome of a run in this sweep."""

    address: str
    state: str
    """``finished``, ``failed``, ``diverged``, or ``busy`` if another sweep on the same store is working on it."""
    message: str = ""


def read_sweep(path: str | os.PathLike[str]) -> list[Entry]:
    """Read the runs of a sweep file in its order; the last list of a block changes fastest."""
    content = read_toml(path)
    blocks = content.get("runs")
    if (
        set(content) != {"runs"}
        or not isinstance(blocks, list)
        or not all(isinstance(each, dict) for each in blocks)
    ):
        raise ValueError(
            f"{path}: expected [[runs]] blocks and nothing else, got {', '.join(content) or 'nothing'}"
        )
    entries: dict[tuple[str, str], Entry] = {}
    tried: set[str] = set()
    for number, block in enumerate(blocks, 1):
        where = f"{path}, block {number}"
        if missing := [
            key
            for key in ("reading", "dataset", "policy", "nu", "seed")
            if key not in block
        ]:
            raise ValueError(f"{where}: missing key {missing[0]!r}")
        if empty := [key for key, value in block.items() if value == []]:
            raise ValueError(
                f"{where}: {empty[0]} is an empty list; expected a value or a list of values"
            )
        if not isinstance(reading := block.pop("reading"), str):
            raise ValueError(f"{where}: reading must be a string, got {reading!r}")
        choices = [
            each if isinstance(each, list) else [each] for each in block.values()
        ]
        for values in itertools.product(*choices):
            try:
                run = make_run(**dict(zip(block, values, strict=True)))
                if (
                    "=" in run.policy and run.policy not in tried
                ):  # refuse its parameters before any run
                    tried.add(run.policy)
                    with contextlib.suppress(
                        RuntimeError
                    ):  # one round may not reach the budget
                        decided(
                            replace(run, scenario=replace(run.scenario, num_rounds=1))
                        )
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


def sweep(
    runs: Iterable[Run],
    store: Store,
    *,
    jobs: int = 1,
    device: str = "cpu",
    threads: int = 1,
    progress: bool = False,
) -> list[Outcome]:
    """Run what the store lacks, and return one outcome per distinct run, in their order.

    A run that failed, or whose process was killed, is tried once more from its last checkpoint; one that diverges is
    not.  With several jobs, a script needs the usual ``if __name__ == "__main__"`` around the call.

    Parameters
    ----------
    runs, store
    jobs, threads : int, >= 1
        Number of processes on this machine, and of PyTorch threads in each.
    device : str
        ``cpu``, or ``cuda`` or ``cuda:N``, which all jobs share.
    """
    find_device(device)
    wanted = {run.address: run for run in runs}
    outcomes = {address: Outcome(address, "missing") for address in wanted}
    with tqdm(total=len(wanted), disable=not progress, unit="run") as bar:

        def note(outcome: Outcome) -> None:
            outcomes[outcome.address] = outcome
            bar.update(outcome.state == "finished")
            if progress and outcome.state in ("failed", "diverged"):
                bar.write(
                    f"run {outcome.address} failed: {outcome.message}", file=sys.stderr
                )

        for again in (False, True):
            missing = [
                wanted[key]
                for key, each in outcomes.items()
                if each.state not in ("finished", "diverged")
            ]
            if not missing:
                break
            work = partial(
                _one, store=store, device=device, threads=threads, wait=again
            )
            done = (
                work_on(work, missing, jobs)
                if jobs > 1
                else ((run, work(run)) for run in missing)
            )
            with contextlib.closing(done):  # closes at once if interrupted
                for run, outcome in done:
                    note(
                        outcome
                        or Outcome(run.address, "failed", "a worker process was killed")
                    )
    for address, each in outcomes.items():
        if (
            each.state == "finished"
            and not (store.place(wanted[address]) / "row.json").exists()
        ):
            outcomes[address] = Outcome(
                address, "failed", f"its result is not in {store.folder}"
            )
    return list(outcomes.values())


def tables(entries: Iterable[Entry], store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of the stored results, with the column ``reading`` first, and one of the learning curves."""
    rows: list[dict[str, Any]] = []
    curves: dict[str, pd.DataFrame] = {}
    for reading, run in entries:
        row, history = _stored(run, store)
        if history is not None:
            rows.append({"reading": reading} | row)
            evaluated = history.dropna(subset=["accuracy"])
            curves[run.address] = evaluated[
                ["round", "loss", "test_loss", "accuracy", "epsilon"]
            ]
    if not rows:
        return pd.DataFrame(), pd.DataFrame()
    table = pd.DataFrame(rows, columns=_columns(rows))
    if "test_accuracy" not in table:
        table["test_accuracy"] = np.nan  # no run is finished
    return table, pd.concat(curves, names=["run"]).reset_index("run").reset_index(
        drop=True
    )


def progress(entries: Iterable[Entry], store: Store) -> pd.DataFrame:
    """Return a table of how many rounds of each run are done: ``reading, run, policy, nu, seed, done, rounds``."""
    rows = []
    for reading, run in entries:
        history = _stored(run, store)[1]
        known = described(run) | {
            "reading": reading,
            "done": 0 if history is None else len(history),
        }
        rows.append(
            {
                name: known[name]
                for name in ("reading", "run", "policy", "nu", "seed", "done", "rounds")
            }
        )
    return pd.DataFrame(rows)


def _stored(run: Run, store: Store) -> tuple[dict[str, Any], pd.DataFrame | None]:
    return store.finished(run) or (described(run), store.under_way(run))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns of all rows: the common first ones, tuned parameters in order of appearance, the rest."""
    longest = [*max(rows, key=len)]
    known = longest[: longest.index("budget") + 1]
    rest = longest[longest.index("cost") :] if "cost" in longest else []
    return [
        *known,
        *dict.fromkeys(
            name for row in rows for name in row if name not in {*known, *rest}
        ),
        *rest,
    ]


def _one(run: Run, *, store: Store, device: str, threads: int, wait: bool) -> Outcome:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with collected(OrdersTooFew, []):
            store.run(run, device=device, wait=wait)
    except Busy as busy:
        return Outcome(run.address, "busy", str(busy))
    except (Exception, SystemExit) as error:  # whatever the error, the other runs go on
        state = "diverged" if isinstance(error, Diverged) else "failed"
        return Outcome(
            run.address, state, " ".join(f"{type(error).__name__}: {error}".split())
        )
    finally:
        torch.set_num_threads(before)
    return Outcome(run.address, "finished")
