"""``adascale sweep``: many trainings, resumable."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adascale import __version__
from adascale.cli import common

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTION = """\
Bring every run of a sweep file into a store, and write their table.

The file is TOML: [[runs]] blocks with a reading (a name for the block), dataset, policy, nu, seed and whatever else is
to be changed of the paper's setting; a list stands for all of its values, and all combinations are run. Runs that the
store holds are not run again; a run that was stopped or killed goes on from its last checkpoint; failed ones are tried
again, and reported. Sweeps may share a store, and so may the workers of a Dask cluster. Beside the table lie the
learning curves, in NAME-curves.csv. While a sweep is under way, --report beside it shows how far it is, and writes
unfinished runs too: a row without results, and the learning curve so far.

Needs the extra: pip install 'adascale[sweep]'."""

EXAMPLE = "adascale sweep results/mnist/accuracy.toml --store runs --jobs 2"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("file", type=Path, metavar="FILE.toml", help="the sweep file")
    parser.add_argument("--store", type=Path, default=Path("runs"), metavar="DIR", help="the store (default: runs)")
    parser.add_argument("--out", type=Path, metavar="CSV", help="the table (default: FILE.csv)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes on this machine (default: 1)")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="a Dask scheduler, tcp://host:port, instead of processes here"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="PyTorch's threads a process (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument(
        "--retries", type=int, default=1, metavar="N", help="further passes over what failed (default: 1)"
    )
    parser.add_argument(
        "--report", action="store_true", help="run nothing: show how far the runs are, and write what the store holds"
    )


def run(options: argparse.Namespace) -> None:
    """Do it."""
    out = options.out or options.file.with_suffix(".csv")
    curves = out.with_name(f"{out.stem}-curves.csv")
    common.check_writable(out)
    for name, least in (("jobs", 1), ("threads", 1), ("retries", 0)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name} must be >= {least}, got {getattr(options, name)}")
    module = common.learning("adascale.runs.sweep")
    entries, store = module.read_sweep(options.file), module.Store(options.store)
    if options.report:
        print(module.progress(entries, store).to_string(index=False))
        table, history = module.tables(entries, store)
        _write(table, history, out, curves)
        return
    how = {name: getattr(options, name) for name in ("jobs", "dask", "device", "threads", "retries")}
    outcomes = module.sweep([entry.run for entry in entries], store, **how, progress=sys.stderr.isatty())
    finished = {each.address for each in outcomes if each.state == "finished"}
    table, history = module.tables([entry for entry in entries if entry.run.address in finished], store)
    print(f"{len(finished)} of {len(outcomes)} runs finished")
    _write(table, history, out, curves)
    failed: dict[str, list[str]] = {}
    for each in outcomes:
        if each.address not in finished:
            failed.setdefault(each.message, []).append(each.address)
    if failed:
        told = (f"{addresses[0]}{f' and {len(addresses) - 1} more' * (len(addresses) > 1)}: {message}"
                for message, addresses in failed.items())  # fmt: skip
        raise RuntimeError(f"{len(outcomes) - len(finished)} of {len(outcomes)} runs failed: {'; '.join(told)}")


def _write(table: pd.DataFrame, history: pd.DataFrame, out: Path, curves: Path) -> None:
    from adascale.files import write_atomically

    if not len(table):
        return
    write_atomically(out, table)
    write_atomically(curves, history)
    print(f"{len(table)} rows in {out}, learning curves in {curves}")
    others = table["version"].dropna()[table["version"] != __version__] if "version" in table else []
    if len(others):
        print(f"note: {len(others)} of {len(table)} rows were made by adascale {', '.join(sorted(set(others)))}, this "
              f"is {__version__}; delete their folders in the store to run them again", file=sys.stderr)  # fmt: skip
