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
unfinished runs too: a row without results, and the learning curve so far. A table from which runs are missing does not
replace one that has results of them: it is NAME-partial.csv, until all are finished.

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
    for name, least in (("jobs", 1), ("threads", 1), ("retries", 0)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name} must be >= {least}, got {getattr(options, name)}")
    outputs = {
        name: path
        for table, of in ((out, "--out"), (_partial(out), "the partial table of --out"))
        for name, path in ((of, table), (f"the curves of {of}", _curves(table)))
    }
    common.check_outputs({"the sweep file": options.file}, outputs)
    module = common.learning("adascale.runs.sweep")
    entries = module.read_sweep(options.file)
    for dataset in _datasets(options.file):
        common.check_outputs(common.input_files(f"dataset {dataset!r}", dataset), outputs)
    store = module.Store(options.store)
    if store.owns(out):
        raise ValueError(f"--out {str(out)!r} lies in the folder of a run of --store")
    if options.report:
        with common.naming_own_code():
            table, history = module.tables(entries, store)
        _print_and_write(module.progress(entries, store).to_string(index=False), table, history, len(entries), out)
        return
    how = {name: getattr(options, name) for name in ("jobs", "dask", "device", "threads", "retries")}
    outcomes = module.sweep([entry.run for entry in entries], store, **how, progress=sys.stderr.isatty())
    finished = {each.address for each in outcomes if each.state == "finished"}
    table, history = module.tables([entry for entry in entries if entry.run.address in finished], store)
    _print_and_write(f"{len(finished)} of {len(outcomes)} runs finished", table, history, len(entries), out)
    failed: dict[str, list[str]] = {}
    for each in outcomes:
        if each.address not in finished:
            failed.setdefault(each.message, []).append(each.address)
    if failed:
        told = (
            f"{addresses[0]}{f' and {len(addresses) - 1} more' * (len(addresses) > 1)}: {message}"
            for message, addresses in failed.items()
        )
        raise RuntimeError(f"{len(outcomes) - len(finished)} of {len(outcomes)} runs failed: {'; '.join(told)}")


def stopped(options: argparse.Namespace) -> str:
    """What is left of it."""
    return f"the same command goes on from what {options.store} holds"


def _datasets(file: Path) -> list[str]:
    """What a sweep file that has been read calls its data sets."""
    from adascale.files import read_toml

    given = [block["dataset"] for block in read_toml(file)["runs"]]
    return sorted({name for each in given for name in (each if isinstance(each, list) else [each])})


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.stem}-partial{out.suffix}")


def _curves(out: Path) -> Path:
    return out.with_name(f"{out.stem}-curves.csv")


def _print_and_write(text: str, table: pd.DataFrame, history: pd.DataFrame, wanted: int, out: Path) -> None:
    """Say how far it is, and write the table of all runs in its place; of some, where nothing is lost by it."""
    try:
        print(text)
    finally:  # also where nobody reads it
        place = _write(table, history, wanted, out) if len(table) else None
    if place is None:
        return
    print(common.visible(f"{len(table)} rows in {place}, learning curves in {_curves(place)}"))
    if place != out:
        common.note(f"{out} has results of runs that are missing here, and is left as it is")
    others = table["version"].dropna()[table["version"] != __version__] if "version" in table else []
    if len(others):
        common.note(
            f"{len(others)} of {len(table)} rows were made by adascale {', '.join(sorted(set(others)))}, this "
            f"is {__version__}; delete their folders in the store to run them again"
        )


def _write(table: pd.DataFrame, history: pd.DataFrame, wanted: int, out: Path) -> Path:
    """The table of all runs in its place; of some, where nothing is lost by it; else beside it."""
    from adascale.files import in_turn, write_together

    whole = len(table) == wanted and bool(table["test_accuracy"].notna().all())
    partial = _partial(out)
    with in_turn(out.parent):
        place = out if whole or not _has_more(out, table) else partial
        write_together({_curves(place): history, place: table})
        if place == out and not _has_more(partial, table):  # what it was before
            for path in (_curves(partial), partial):
                path.unlink(missing_ok=True)
    return place


def _has_more(path: Path, table: pd.DataFrame) -> bool:
    """Whether a file holds what would be lost if the table replaced it: a result of another run, or no such table."""
    import pandas as pd

    try:
        before = pd.read_csv(path, dtype=str)
        kept = before[before["test_accuracy"].notna()]
        runs = set(zip(kept["reading"], kept["run"], strict=True))
    except FileNotFoundError:
        return False
    except (ValueError, KeyError):  # something else of the user's
        return path.stat().st_size > 0
    having = table[table["test_accuracy"].notna()]
    return not runs <= set(zip(having["reading"].astype(str), having["run"], strict=True))
