"""Make a few committed runs again and hold them to their rows: ``python tools/reproduce_sample.py NUMBER STORE``

The runs are drawn from all tables of sweeps that took less than ten minutes each, by a fixed seed (``--seed N`` draws
others).  What is computed from the channel must agree to the tolerance of the tuning.  What a training ends in depends
on the order in which a processor adds up single precision, so accuracy and loss have room; provenance may differ.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import pandas as pd

from adascale.runs.store import Store
from adascale.runs.sweep import read_sweep, sweep, tables

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 600  # seconds, by the row's own wall time

EXACT = ("reading", "run", "dataset", "model", "policy", "seed", "rounds", "shortened", "floor_max_round")
# Relative. Twice the largest relative deviation of a tuned cost from its budget.
COMPUTED = dict.fromkeys(
    ("nu", "budget", "penalty", "cost", "order", "rdp", "delta", "epsilon", "floor_mean", "floor_max"), 2e-9
)
# Absolute. Another processor moved an accuracy by 0.0048 at most.
TRAINED = {"test_accuracy": 0.01, "test_loss": 0.05}


def draw(number, seed, tables_of_sweeps):
    """Return ``number`` pairs of a sweep file and a committed row."""
    rows = []
    for path in tables_of_sweeps:
        table = pd.read_csv(path, dtype={"run": str})
        rows += [(path.with_suffix(".toml"), row) for _, row in table[table["wall_seconds"] < LONGEST].iterrows()]
    return random.Random(seed).sample(rows, number)


def differences(made, committed):
    """Return the columns in which two rows differ by more than they may, each with both values."""
    found = [f"{name}: {made[name]} for {committed[name]}" for name in EXACT if made[name] != committed[name]]
    for name in (*COMPUTED, *TRAINED):
        new, old = (np.nan if (value := row.get(name)) is None else float(value) for row in (made, committed))
        if not np.isclose(new, old, COMPUTED.get(name, 0), TRAINED.get(name, 0), equal_nan=True):
            found.append(f"{name}: {new!r} for {old!r}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, help="how many runs")
    parser.add_argument("store", type=Path, help="where finished runs are kept")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    files = (path for path in sorted(ROOT.glob("results/*/*.toml")) if "[[runs]]" in path.read_text())
    drawn = draw(given.number, given.seed, [path.with_suffix(".csv") for path in files])
    entries = [
        next(entry for entry in read_sweep(file) if (entry.reading, entry.run.address) == (row["reading"], row["run"]))
        for file, row in drawn
    ]
    store, wrong = Store(given.store), 0
    for outcome in sweep([entry.run for entry in entries], store, jobs=given.jobs, progress=True):
        if outcome.state != "finished":
            raise SystemExit(f"run {outcome.address}: {outcome.message}")
    for entry, (file, committed) in zip(entries, drawn, strict=True):
        made = tables([entry], store)[0].iloc[0]
        found = differences(made, committed)
        wrong += bool(found)
        said = found or [f"{name} moved by {made[name] - committed[name]:.2g}" for name in TRAINED]
        table = file.relative_to(ROOT).with_suffix(".csv")
        print(f"{table}, run {entry.run.address} ({entry.reading}): {'; '.join(said)}")
    if wrong:
        raise SystemExit(f"{wrong} of {len(drawn)} runs are not the committed ones")
    print(f"all {len(drawn)} runs are the committed ones")


if __name__ == "__main__":
    main()
