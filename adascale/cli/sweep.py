"""Run the trainings of a sweep file that the store lacks, and write the table of all.

The file is TOML: [[runs]] blocks with a reading (a name for the block), dataset, policy, nu, seed and changes to the
paper's settings; a list stands for all its values, and all combinations are run. Runs that the store holds are not run
again; a run that was stopped or killed resumes at its last checkpoint; a failed one is tried once more, and reported.
Sweeps may share a store, also on several machines that see the same folder: each runs what no other is running. The
learning curves are written next to the table, to NAME-curves.csv. During a sweep, --report in another process shows its
progress and includes unfinished runs: a row without results, and the learning curve so far. A table that lacks runs
does not replace one with their results; it is NAME-partial.csv until all runs are finished. This command needs the
extra: pip install 'adascale[learn]'.

example:
  adascale sweep results/mnist/accuracy.toml --store runs --jobs 2
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adascale import __version__
from adascale.cli import common
from adascale.files import in_turn, read_toml, write_together

if TYPE_CHECKING:
    import pandas as pd


def run(options: argparse.Namespace) -> None:
    """Run the missing trainings, and write the tables."""
    for name in ("jobs", "threads"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} must be >= 1, got {getattr(options, name)}")
    module = importlib.import_module("adascale.runs.sweep")
    entries = module.read_sweep(options.file)
    out = options.out or options.file.with_suffix(".csv")
    inputs: dict[str, Path | None] = {"the sweep file": options.file}
    common.check_outputs(inputs, {"--out": out})
    for given in [block["dataset"] for block in read_toml(options.file)["runs"]]:
        for dataset in given if isinstance(given, list) else [given]:
            inputs |= common.input_files(f"dataset {dataset!r}", dataset)
    outputs: dict[str, Path | None] = {}
    for table, of in (
        (out, "--out"),
        (_beside(out, "partial"), "the partial table of --out"),
    ):
        outputs |= {of: table, f"the curves of {of}": _beside(table, "curves")}
    common.check_outputs(inputs, outputs)
    store = module.Store(options.store)
    failed: dict[str, list[str]] = {}
    if options.report:
        table, history = module.tables(entries, store)
        text = module.progress(entries, store).to_string(index=False)
    else:
        how = {name: getattr(options, name) for name in ("jobs", "device", "threads")}
        outcomes = module.sweep(
            [entry.run for entry in entries], store, **how, progress=sys.stderr.isatty()
        )
        finished = {each.address for each in outcomes if each.state == "finished"}
        for each in outcomes:
            if each.address not in finished:
                failed.setdefault(each.message, []).append(each.address)
        table, history = module.tables(
            [entry for entry in entries if entry.run.address in finished], store
        )
        text = f"{len(finished)} of {len(outcomes)} runs finished"
    _print_and_write(text, table, history, len(entries), out)
    if failed:
        reasons = (
            f"{one}{f' and {len(more)} more' * bool(more)}: {why}"
            for why, (one, *more) in failed.items()
        )
        raise RuntimeError(
            f"{len(outcomes) - len(finished)} of {len(outcomes)} runs failed: {'; '.join(reasons)}"
        )


def _beside(out: Path, what: str) -> Path:
    return out.with_name(f"{out.stem}-{what}{out.suffix}")


def _print_and_write(
    text: str, table: "pd.DataFrame", history: "pd.DataFrame", wanted: int, out: Path
) -> None:
    """Print the text, and write the table: to ``out``, or next to it if ``out`` has results that the table lacks."""
    place, partial = out, _beside(out, "partial")
    try:
        print(text)
    finally:  # even if standard output is closed
        if len(table):
            whole = len(table) == wanted and bool(table["test_accuracy"].notna().all())
            with in_turn(out.parent):
                place = out if whole or not _has_more(out, table) else partial
                write_together({_beside(place, "curves"): history, place: table})
                if place == out and not _has_more(
                    partial, table
                ):  # a partial table from before
                    for path in (_beside(partial, "curves"), partial):
                        path.unlink(missing_ok=True)
    if len(table):
        print(
            common.visible(
                f"{len(table)} rows in {place}, learning curves in {_beside(place, 'curves')}"
            )
        )
        if place != out:
            common.note(
                f"{out} has results of runs that are missing here, and is left as it is"
            )
        others = (
            table["version"].dropna()[table["version"] != __version__]
            if "version" in table
            else []
        )
        if len(others):
            made = f"{len(others)} of {len(table)} rows were made by adascale {', '.join(sorted(set(others)))}"
            common.note(
                f"{made}, this is {__version__}; delete their folders in the store to run them again"
            )


def _has_more(path: Path, table: "pd.DataFrame") -> bool:
    """Return whether the table would replace results of other runs, or a file that is not such a table."""
    import pandas as pd

    def results(rows: "pd.DataFrame") -> set[tuple[str, str]]:
        finished = rows[rows["test_accuracy"].notna()]
        return set(zip(finished["reading"].astype(str), finished["run"], strict=True))

    try:
        return not results(pd.read_csv(path, dtype=str)) <= results(table)
    except FileNotFoundError:
        return False
    except (ValueError, KeyError):  # some other file of the user's
        return path.stat().st_size > 0
