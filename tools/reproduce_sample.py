"""Make a few committed results again and compare them: ``python tools/reproduce_sample.py NUMBER STORE``

Drawn are tables of ``results/tables.csv``, by a fixed seed (``--seed N`` draws others): of a sweep one run that took
less than ten minutes, of a study the whole command.  Tables whose data set is not here are left out, and named.
What is computed from the channel must agree to the tolerance of the tuning.  What a training ends in depends on the
order in which a processor adds up single precision, so accuracy and loss have room; provenance may differ.

``python tools/reproduce_sample.py --compare MADE COMMITTED`` compares two tables of a sweep.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import pandas as pd

from adascale.learning import data
from adascale.runs.store import Store
from adascale.runs.sweep import read_sweep, sweep, tables
from companion.__main__ import RESULTS, make

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 600  # seconds, by the row's own wall time
DATASETS = {"MNIST": "mnist", "CIFAR-10": "cifar10"}
PROVENANCE = {"wall_seconds", "device", "threads", "version", "commit", "machine"}
PROVENANCE |= {"python", "torch", "numpy"}
# Relative. Twice the largest relative deviation of a tuned cost from its budget.
RUN = 2e-9
# Relative. Seven digits are stored, and the method of Shi et al. is tuned to 1e-4 of the cost.
STUDY = 1e-4
# Absolute. Another processor moved an accuracy by 0.0048 at most.
TRAINED = {"accuracy": 0.01, "loss": 0.05}


def read(path):
    """Return a table; the address of a run may look like a number."""
    return pd.read_csv(path, dtype={"run": str})


def differences(made, committed, tolerance):
    """Return the cells in which two tables differ by more than they may."""
    if [*made] != [*committed] or len(made) != len(committed):
        return [f"{made.shape} rows and columns for {committed.shape}, or other names"]
    messages = []
    for name in committed.columns.difference(PROVENANCE, sort=False):
        new, old = (table[name].reset_index(drop=True) for table in (made, committed))
        room = sum(room for key, room in TRAINED.items() if key in name)
        numbers = (pd.to_numeric(column, errors="coerce") for column in (new, old))
        same = np.isclose(*numbers, rtol=tolerance, atol=room)
        same |= (new == old) | (new.isna() & old.isna())
        messages += [f"{name}: {new[k]} for {old[k]}" for k in np.flatnonzero(~same)]
    return messages


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
    if missing:
        print(f"not here, so not drawn: results that need {' and '.join(missing)}")
    commands = listed.command[~listed.data.isin(missing)]
    return random.Random(seed).choices([*commands.str.split().str[-1]], k=number)


def remake_run(file, seed, store):
    """Make one run of a sweep again; return what it is called and how it differs."""
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
    made = tables([entry], Store(store))[0]
    return f"{file}, run {key[1]} ({key[0]})", differences(made, row, RUN)


def remake_study(name, folder):
    """Make the tables of a study again; return what they are called and how they differ."""
    paths = make(name, folder)
    committed = ROOT / RESULTS[name].folder
    messages = []
    for path in paths:
        messages += differences(read(path), read(committed / path.name), STUDY)
    return ", ".join(path.name for path in paths), messages


def compare(made, committed):
    """Compare the columns that are committed of one sweep, whose rows may be in another order."""
    keys = ["reading", "run"]
    new, old = (read(path).sort_values(keys) for path in (made, committed))
    if messages := differences(new.reindex(columns=[*old]), old, RUN):
        raise SystemExit("\n".join([*messages, f"{made} is not {committed}"]))
    print(f"all {len(old)} runs have the committed values")


def sample(number, seed, store):
    """Make so many results again and compare them."""
    wrong = 0
    for k, command in enumerate(draw(number, seed)):
        if command.endswith(".toml"):
            name, messages = remake_run(command, 1000 * seed + k, store)
        else:
            folder = store.parent / f"{store.name}-{command}"
            name, messages = remake_study(command, folder)
        wrong += bool(messages)
        print(f"{name}: {'; '.join(messages[:10]) or 'the committed values'}")
    if wrong:
        raise SystemExit(f"{wrong} of {number} results are not the committed ones")
    print(f"all {number} results are the committed ones")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", help="how many results")
    parser.add_argument("store", type=Path, nargs="?", help="folder of finished runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("MADE", "COMMITTED"))
    options = parser.parse_args()
    if options.compare:
        compare(*options.compare)
    else:
        sample(options.number, options.seed, options.store)


if __name__ == "__main__":
    main()
