"""Run the trainings of a sweep file that the store lacks, and write the table of all.

The file is TOML: [[runs]] blocks with a reading (a name for the block), dataset, policy, nu, seed and changes to the
paper's settings; a list stands for all its values, and all combinations are run. Policies that guarantee an epsilon
(policy = "privacybudget:epsilon=2") need no nu. Runs that the store holds are not run again, and one that was stopped
or killed resumes at its last checkpoint. The runs are in --jobs processes of this machine, or on the workers of a Dask
scheduler (--scheduler); a run whose worker is lost is given once more. One sweep at a time can use a store. The
learning curves are written next to the table, to NAME-curves.csv.
During a sweep, --report in another process shows its progress, and writes the results so far. A table that lacks runs
is NAME-partial.csv until all are finished. This command needs the extra: pip install 'adascale[learn]'.

example:
  adascale sweep results/mnist/accuracy.toml --store runs --jobs 2
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adascale.cli import common
from adascale.cli.options import Parser
from adascale.files import read_toml, write_together

if TYPE_CHECKING:
    import pandas as pd


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("file", help="the sweep file", metavar="FILE.toml", type=Path)
    parser.share("device", "jobs", "scheduler")
    add(
        "--report",
        help="start no runs; show progress and write the results so far",
        action="store_true",
    )
    add(
        "--store",
        help="folder of the runs, used to resume",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
    )
    parser.share("out", more="the table (default: FILE.csv)")


def run(options: argparse.Namespace) -> None:
    """Run the missing trainings, and write the tables."""
    module = importlib.import_module("adascale.runs.sweep")
    entries = module.read_sweep(options.file)
    out = options.out or options.file.with_suffix(".csv")
    _check_files(options.file, out)
    store = module.Store(options.store)
    if options.report:
        print(module.progress(entries, store).to_string(index=False))
        _write(module.tables(entries, store), len(entries), out)
        return
    with common.open_executor(options) as executor:
        failures = module.sweep(
            [entry.run for entry in entries],
            store,
            executor,
            device=options.device,
            progress=sys.stderr.isatty(),
        )
    num_runs = len({entry.run.address for entry in entries})
    try:
        print(f"{num_runs - len(failures)} of {num_runs} runs finished")
    finally:  # even if standard output is closed
        _write(module.tables(entries, store), len(entries), out)
    if failures:
        raise RuntimeError(
            f"{len(failures)} of {num_runs} runs failed: {_reasons(failures)}"
        )


def _check_files(sweep_file: Path, out: Path) -> None:
    """Refuse to write a table over an input, or over another of the four tables that a sweep can write."""
    inputs: dict[str, Path | None] = {"the sweep file": sweep_file}
    common.check_outputs(inputs, {"--out": out})
    for block in read_toml(sweep_file)["runs"]:
        datasets = block["dataset"]
        for dataset in datasets if isinstance(datasets, list) else [datasets]:
            inputs |= common.input_files(f"dataset {dataset!r}", dataset)
    outputs: dict[str, Path | None] = {}
    tables = {"--out": out, "the partial table of --out": _beside(out, "partial")}
    for name, table in tables.items():
        outputs |= {name: table, f"the curves of {name}": _beside(table, "curves")}
    common.check_outputs(inputs, outputs)


def _reasons(failures: dict[str, str]) -> str:
    """List why runs failed, each reason with one of its runs."""
    addresses: dict[str, list[str]] = {}
    for address, reason in failures.items():
        addresses.setdefault(reason, []).append(address)
    reasons = []
    for reason, (first, *others) in addresses.items():
        more = f" and {len(others)} more" if others else ""
        reasons.append(f"{first}{more}: {reason}")
    return "; ".join(reasons)


def _beside(out: Path, what: str) -> Path:
    """Return the path of a file next to the table, as ``NAME-curves.csv``."""
    return out.with_name(f"{out.stem}-{what}{out.suffix}")


def _write(tables: tuple[pd.DataFrame, pd.DataFrame], num_rows: int, out: Path) -> None:
    """Write the tables to ``out``, or next to it if there are fewer rows than ``num_rows``, as runs are missing."""
    table, history = tables
    if not len(table):
        return
    partial = _beside(out, "partial")
    place = out if len(table) == num_rows else partial
    curves = _beside(place, "curves")
    write_together({curves: history, place: table})
    if place == out:
        for path in (_beside(partial, "curves"), partial):
            path.unlink(missing_ok=True)
    print(common.visible(f"{len(table)} rows in {place}, learning curves in {curves}"))
