"""Hold a sweep's table to its file: ``python tools/check_table.py FILE.toml TABLE.csv``

The table must have one row for every run that the file asks for, in its order, each with a result; the learning curves
beside it must end in these results.
"""

import sys
from pathlib import Path

import pandas as pd

from adascale.runs.sweep import read_sweep


def check(file, path):
    """The number of rows and of shortened ones among them; SystemExit with one line if something is missing."""
    entries, table = read_sweep(file), pd.read_csv(path, dtype={"run": str, "reading": str})
    expected = [(entry.reading, entry.run.address) for entry in entries]
    if list(zip(table["reading"], table["run"], strict=True)) != expected:
        raise SystemExit(f"{path} has not the {len(expected)} runs of {file}, in their order")
    for column in ("test_accuracy", "test_loss", "epsilon"):
        if (missing := table[column].isna()).any():
            raise SystemExit(f"{path}: run {table['run'][missing].iloc[0]} has no {column}")
    curves = path.with_name(f"{path.stem}-curves.csv")
    last = pd.read_csv(curves, dtype={"run": str}).groupby("run", sort=False)["accuracy"].last()
    if not last.equals(table.groupby("run", sort=False)["test_accuracy"].first()):
        raise SystemExit(f"{curves} does not end in the accuracies of {path}")
    return len(table), int(table["shortened"].sum())


def main(file, path):
    try:
        rows, shortened = check(file, path)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be held to {file}: {error}") from None
    except KeyError as missing:
        raise SystemExit(f"{path} or its learning curves have no column {missing}") from None
    note = f"; {shortened} of them are shortened: no results to compare with the paper's" if shortened else ""
    print(f"{path}: all {rows} runs of {file}{note}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
