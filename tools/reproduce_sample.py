"""Make a few committed results again and compare them: ``python tools/reproduce_sample.py NUMBER STORE``

Drawn are tables of ``results/tables.csv``, by a fixed seed (``--seed N`` draws others): of a sweep one run that took
less than ten minutes, of a study the whole command.  Tables whose data set is not here are left out, and named.
What is computed from the channel must agree to the tolerance of the tuning.  What a training ends in depends on the
order in which a processor adds up single precision, so accuracy and loss have room; provenance may differ.

``python tools/reproduce_sample.py --compare MADE COMMITTED`` compares two tables of a sweep, row by row.
"""

import csv
import random
from pathlib import Path

import numpy as np
import pandas as pd

from adascale.cli.options import Parser
from adascale.learning import data
from adascale.runs.store import Store
from adascale.runs.sweep import read_sweep, sweep, tables
from companion.__main__ import RESULTS, make

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "results" / "tables.csv"
LONGEST = 600  # seconds, by the row's own wall time

EXACT = (
    "reading",
    "run",
    "dataset",
    "model",
    "policy",
    "seed",
    "rounds",
    "shortened",
    "floor_max_round",
)
# Relative. Twice the largest relative deviation of a tuned cost from its budget.
COMPUTED = dict.fromkeys(
    (
        "nu",
        "budget",
        "penalty",
        "cost",
        "order",
        "rdp",
        "delta",
        "epsilon",
        "floor_mean",
        "floor_max",
    ),
    2e-9,
)
# Absolute. Another processor moved an accuracy by 0.0048 at most.
TRAINED = {"test_accuracy": 0.01, "test_loss": 0.05}
STUDY = 1e-4  # relative: seven digits are stored, and the method of Shi et al. is tuned to 1e-4 of the cost
DATASETS = {"MNIST": "mnist", "CIFAR-10": "cifar10"}


def present(name):
    """Whether a data set of the list can be read here."""
    if name not in DATASETS:
        return True
    try:
        data.load(DATASETS[name])
    except FileNotFoundError:
        return False
    return True


def candidate(entry, has):
    """Return what can be made again of an entry: rows of a sweep, or a study (None); and the data that is not here."""
    name = entry["command"].split()[-1]
    if entry["again"] == "whole":
        absent = {entry["data"]} - {*filter(has, [entry["data"]])}
        return [] if absent else [(name, None)], absent
    table = pd.read_csv((ROOT / name).with_suffix(".csv"), dtype={"run": str})
    table = table[table["wall_seconds"] < LONGEST]
    keys = {*table["dataset"]}
    absent = {
        title for title, key in DATASETS.items() if key in keys and not has(title)
    }
    table = table[~table["dataset"].isin([DATASETS[title] for title in absent])]
    return [(ROOT / name, table)] if len(table) else [], absent


def draw(number, seed, listed, has=present):
    """Return ``number`` pairs of a command of the list and, of a sweep, a committed row; and the data not here."""
    entries = [
        candidate(entry, has) for entry in listed if entry["again"] in ("runs", "whole")
    ]
    candidates = [pair for pairs, _ in entries for pair in pairs]
    chance = random.Random(seed)
    drawn = [
        (file, table if table is None else table.iloc[chance.randrange(len(table))])
        for file, table in chance.choices(candidates, k=number)
    ]
    return drawn, set().union(*(absent for _, absent in entries))


def differences(made, committed):
    """Return the columns in which two rows differ by more than they may, each with both values."""
    found = [
        f"{name}: {made[name]} for {committed[name]}"
        for name in EXACT
        if made[name] != committed[name]
    ]
    for name in (*COMPUTED, *TRAINED):
        new, old = (
            np.nan if (value := row.get(name)) is None else float(value)
            for row in (made, committed)
        )
        if not np.isclose(
            new, old, COMPUTED.get(name, 0), TRAINED.get(name, 0), equal_nan=True
        ):
            found.append(f"{name}: {new!r} for {old!r}")
    return found


def cells_that_differ(made, committed):
    """Return the first cells in which two tables of a study differ: numbers by 1e-4, accuracy and loss as TRAINED."""
    new, old = (
        [*csv.reader(path.read_text().splitlines())] for path in (made, committed)
    )
    if [*map(len, new)] != [*map(len, old)]:
        return [f"{len(new)} rows for {len(old)}, or other columns"]
    found = []
    for line, (ours, theirs) in enumerate(zip(new, old, strict=True), 1):
        for name, one, other in zip(old[0], ours, theirs, strict=True):
            room = next(
                (
                    room
                    for key, room in TRAINED.items()
                    if key.removeprefix("test_") in name
                ),
                0.0,
            )
            try:
                same = np.isclose(float(one), float(other), STUDY, room, equal_nan=True)
            except ValueError:
                same = one == other
            if not same:
                found.append(f"line {line}, {name}: {one} for {other}")
    return found


def compare(made, committed):
    """Compare two tables of one sweep, row by row."""
    new, old = (
        pd.read_csv(path, dtype={"run": str}).set_index(["reading", "run"], drop=False)
        for path in (made, committed)
    )
    if {*new.index} != {*old.index}:
        raise SystemExit(f"{made} has other runs than {committed}")
    wrong = [
        f"run {key[1]}: {each}"
        for key in old.index
        for each in differences(new.loc[key], old.loc[key])
    ]
    if wrong:
        raise SystemExit("\n".join([*wrong, f"{made} is not {committed}"]))
    print(f"all {len(old)} runs have the committed values")


def remake(file, row, store, jobs):
    """Make one drawn result again; return what it is called and how it differs."""
    if row is None:
        made = make(file, store.parent / f"{store.name}-{file}")
        pairs = [(path, ROOT / RESULTS[file].folder / path.name) for path in made]
        return ", ".join(path.name for path in made), [
            each for pair in pairs for each in cells_that_differ(*pair)
        ]
    entry = next(
        each
        for each in read_sweep(file)
        if (each.reading, each.run.address) == (row["reading"], row["run"])
    )
    (outcome,) = sweep([entry.run], Store(store), jobs=jobs, progress=True)
    if outcome.state != "finished":
        raise SystemExit(f"run {outcome.address}: {outcome.message}")
    made = tables([entry], Store(store))[0].iloc[0]
    name = f"{file.relative_to(ROOT).with_suffix('.csv')}, run {entry.run.address} ({entry.reading})"
    return name, differences(made, row)


def main():
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", help="how many results")
    parser.add_argument(
        "store", type=Path, nargs="?", help="where finished runs are kept"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--compare",
        type=Path,
        nargs=2,
        metavar=("MADE", "COMMITTED"),
        help="two tables of one sweep",
    )
    given = parser.parse_args()
    if given.compare:
        compare(*given.compare)
        return
    if given.store is None:
        parser.error("give NUMBER and STORE, or --compare MADE COMMITTED")
    with LIST.open(newline="") as file:
        drawn, absent = draw(given.number, given.seed, [*csv.DictReader(file)])
    if absent:
        print(
            f"not here, so not drawn: results that need {' and '.join(sorted(absent))} (ADASCALE_DATA)"
        )
    wrong = 0
    for file, row in drawn:
        name, found = remake(file, row, given.store, given.jobs)
        wrong += bool(found)
        print(f"{name}: {'; '.join(found[:10]) or 'the committed values'}")
    if wrong:
        raise SystemExit(f"{wrong} of {len(drawn)} results are not the committed ones")
    print(f"all {len(drawn)} results are the committed ones")


if __name__ == "__main__":
    main()
