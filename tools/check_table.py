"""Hold a sweep's table to its file: ``python tools/check_table.py FILE.toml TABLE.csv``

The table must have one row for every run that the file asks for, in its order, each with a result; the learning curves
beside it must end in these results.
"""

import sys
from pathlib import Path

import pandas as pd

from adascale.runs.sweep import read_sweep


def main(file, path):
    """Print the numbers of rows and of shortened ones; SystemExit with one line if something is missing."""
    try:
        entries, table = read_sweep(file), pd.read_csv(path, dtype={"run": str, "reading": str})
        curves = path.with_name(f"{path.stem}-curves.csv")
        last = pd.read_csv(curves, dtype={"run": str}).groupby("run", sort=False)["accuracy"].last()
        runs = [*zip(table["reading"], table["run"], strict=True)]
        if runs != [(entry.reading, entry.run.address) for entry in entries]:
            raise ValueError(f"it has not the {len(entries)} runs, in their order")
        for column in ("test_accuracy", "test_loss", "epsilon"):
            if (missing := table[column].isna()).any():
                raise ValueError(f"run {table['run'][missing].iloc[0]} has no {column}")
        if not last.equals(table.groupby("run", sort=False)["test_accuracy"].first()):
            raise ValueError(f"{curves} does not end in its accuracies")
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(f"{path} is not the table of {file}: {error}") from None
    shortened = int(table["shortened"].sum())
    note = f"; {shortened} of them are shortened: no results to compare with the paper's" if shortened else ""
    print(f"{path}: all {len(table)} runs of {file}{note}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
