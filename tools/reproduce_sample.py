"""Make a few committed results again and compare them: ``python tools/reproduce_sample.py NUMBER STORE [SEED]``

Drawn are tables of ``results/tables.csv``, by a seed (0, if none is given): of a sweep one run that took
less than ten minutes, of a study the whole command.  Tables whose data set is not here are left out, and named.
What is computed from the channel must agree to the tolerance of the tuning.  What a training ends in depends on the
order in which a processor adds up single precision, so accuracy and loss have room; provenance may differ.

``python tools/reproduce_sample.py MADE COMMITTED`` compares two tables of a sweep.
"""

import random
import sys
from io import StringIO
from pathlib import Path

import pandas as pd

from adascale.learning import data
from adascale.runs.store import Store
from adascale.runs.sweep import read_sweep, sweep, tables
from companion.__main__ import RESULTS, make

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 600  # seconds, by the row's own wall time
DATASETS = {"MNIST": "mnist", "CIFAR-10": "cifar10"}
PROVENANCE = ["wall_seconds", "device", "threads", "version", "commit", "machine"]
PROVENANCE += ["python", "torch", "numpy"]
# Relative. Twice the largest relative deviation of a tuned cost from its budget.
RUN = 2e-9
# Relative. Seven digits are stored, and the method of Shi et al. is tuned to 1e-4 of the cost.
STUDY = 1e-4
# Absolute. Another processor moved an accuracy by 0.0048 at most.
TRAINED = {"accuracy": 0.01, "loss": 0.05}


def read(path):
    """Return a table; the address of a run may look like a number."""
    return pd.read_csv(path, dtype={"run": str})


def check(made, committed, tolerance):
    """Compare two tables, or raise an ``AssertionError`` that names a column which differs by more than it may."""
    for name in committed.columns.difference(PROVENANCE, sort=False):
        room = sum(own for key, own in TRAINED.items() if key in name)
        pd.testing.assert_series_equal(
            made[name].reset_index(drop=True),
            committed[name].reset_index(drop=True),
            obj=name,
            check_dtype=False,
            rtol=tolerance,
            atol=room,
        )


def is_present(dataset):
    """Check that a data set of the list can be read here."""
    try:
        return dataset not in DATASETS or bool(data.load(DATASETS[dataset]))
    except FileNotFoundError:
        return False


def draw(number, seed):
    """Return the last words of so many commands of the list, and print which data are not here."""
    listed = pd.read_csv(ROOT / "results" / "tables.csv")
    listed = listed[listed.again.isin(["runs", "whole"])]
    missing = [name for name in DATASETS if not is_present(name)]
    print("not here, so not drawn: results that need", " and ".join(missing) or "-")
    commands = listed.command[~listed.data.isin(missing)]
    return random.Random(seed).choices([*commands.str.split().str[-1]], k=number)


def remake_run(file, seed, store):
    """Make one run of a sweep again and compare it."""
    committed = read((ROOT / file).with_suffix(".csv"))
    row = committed[committed.wall_seconds < LONGEST].sample(1, random_state=seed)
    key = row.reading.item(), row.run.item()
    (entry,) = (
        entry
        for entry in read_sweep(ROOT / file)
        if (entry.reading, entry.run.address) == key
    )
    for address, reason in sweep([entry.run], Store(store), progress=True).items():
        raise SystemExit(f"run {address}: {reason}")
    text = tables([entry], Store(store))[0].to_csv(index=False)
    check(read(StringIO(text)), row, RUN)


def remake_study(name, folder):
    """Make the tables of a study again and compare them."""
    for path in make(name, folder):
        check(read(path), read(ROOT / RESULTS[name].folder / path.name), STUDY)


def compare(made, committed):
    """Compare the columns that are committed of one sweep, whose rows may be in another order."""
    order = ["reading", "run"]
    new, old = (read(path).sort_values(order) for path in (made, committed))
    check(new, old, RUN)
    print(f"all {len(old)} runs have the committed values")


def sample(number, seed, store):
    """Make so many results again and compare them."""
    wrong = 0
    for k, name in enumerate(draw(number, seed)):
        try:
            if name.endswith(".toml"):
                remake_run(name, 1000 * seed + k, store)
            else:
                remake_study(name, store.parent / f"{store.name}-{name}")
            print(f"{name}: the committed values")
        except AssertionError as difference:
            wrong += 1
            print(f"{name}: {difference}")
    print(f"{number - wrong} of {number} results are the committed ones")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    first, second, *seed = sys.argv[1:]
    if first.isdecimal():
        sample(int(first), int(*seed), Path(second))
    else:
        compare(first, second)
