"""The tools that compare: what is the same passes, and what is not is named."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

ROOT = Path(__file__).parents[1]


MNIST = pd.read_csv(ROOT / "results/mnist/accuracy.csv", dtype={"run": str})


def test_every_result_column_of_a_run_made_again_is_held_to_the_committed_row():
    sample = SimpleNamespace(**runpy.run_path(str(ROOT / "tools/reproduce_sample.py")))
    row, silent = (MNIST[(MNIST.policy == "NoiseFree") == each].iloc[0].to_dict() for each in (False, True))
    assert sample.differences(row, row) == []
    for column in (*sample.EXACT, *sample.COMPUTED, *sample.TRAINED):
        value = row[column]
        if isinstance(value, float):
            moved = value * (1 + 1e-6) + (0.2 if column.startswith("test_") else 0)
        else:
            moved = f"{value}1"
        (said,) = sample.differences(row | {column: moved}, row)
        assert said.startswith(f"{column}: ")
    provenance = {"wall_seconds", "device", "threads", "version", "commit", "machine", "python", "torch", "numpy"}
    assert {*sample.EXACT, *sample.COMPUTED, *sample.TRAINED} | provenance == set(MNIST.columns)
    assert sample.differences(silent | {"cost": None, "rdp": None, "penalty": None}, silent) == []  # nothing is spent
    assert sample.differences(silent | {"cost": 0.01}, silent)
