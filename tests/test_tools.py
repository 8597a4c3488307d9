"""The tools that compare: what is the same passes, and what is not is named."""

import csv
import runpy
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from companion.__main__ import RESULTS
from companion.causal import growth as causal_growth

ROOT = Path(__file__).parents[1]
SAMPLE = SimpleNamespace(**runpy.run_path(str(ROOT / "tools/reproduce_sample.py")))
LISTED = list(csv.DictReader((ROOT / "results/tables.csv").read_text().splitlines()))
MADE = {
    f"{each.folder}/{file}": name
    for name, each in RESULTS.items()
    for file in each.files.split()
}


def test_each_committed_table_is_listed_once_with_its_command():
    listed = {
        Path("results", f"{name}.csv"): each["command"]
        for each in LISTED
        for name in each["tables"].split()
    }
    assert sorted(listed) == sorted(
        path.relative_to(ROOT) for path in ROOT.glob("results/*/*.csv")
    )
    assert len(listed) == sum(len(each["tables"].split()) for each in LISTED)
    for path, command in listed.items():
        if command.startswith("adascale sweep"):
            assert (
                command
                == f"adascale sweep {path.with_name(path.stem.removesuffix('-curves'))}.toml"
            )
        elif command.startswith("python"):
            assert command == f"python -m companion make {MADE[str(path)]}"
    assert {each["again"] for each in LISTED} == {
        "runs",
        "whole",
        "tests",
        "by hand",
        "timing",
    }
    for each in LISTED:
        if each["again"] == "whole":
            assert float(each["minutes"]) < SAMPLE.LONGEST / 60


def test_every_result_column_of_a_run_made_again_is_held_to_the_committed_row():
    runs = pd.read_csv(ROOT / "results/mnist/accuracy.csv", dtype={"run": str})
    row, silent = (
        runs[(runs.policy == "NoiseFree") == each].iloc[0].to_dict()
        for each in (False, True)
    )
    assert SAMPLE.differences(row, row) == []
    for column in (*SAMPLE.EXACT, *SAMPLE.COMPUTED, *SAMPLE.TRAINED):
        value = row[column]
        if isinstance(value, float):
            moved = value * (1 + 1e-6) + (0.2 if column.startswith("test_") else 0)
        else:
            moved = f"{value}1"
        (said,) = SAMPLE.differences(row | {column: moved}, row)
        assert said.startswith(f"{column}: ")
    provenance = {
        "wall_seconds",
        "device",
        "threads",
        "version",
        "commit",
        "machine",
        "python",
        "torch",
        "numpy",
    }
    assert {*SAMPLE.EXACT, *SAMPLE.COMPUTED, *SAMPLE.TRAINED} | provenance == {*runs}
    assert (
        SAMPLE.differences(
            silent | {"cost": None, "rdp": None, "penalty": None}, silent
        )
        == []
    )  # nothing is spent


def test_a_study_made_again_is_compared_number_by_number(tmp_path, monkeypatch):
    header, first, *rest = (ROOT / "results/causal/growth.csv").read_text().splitlines()
    *kept, last = first.split(",")
    for factor, count in [(1 + 1e-6, 0), (1.01, 1)]:
        text = "\n".join([header, ",".join([*kept, repr(float(last) * factor)]), *rest])
        monkeypatch.setattr(
            causal_growth, "committed", lambda text=text: iter([(text, {})])
        )
        name, found = SAMPLE.remake("growth", None, tmp_path / "store", 1)
        assert (name, len(found)) == ("growth.csv", count)


def test_without_a_tolerance_of_its_own_approx_is_relative():
    assert pytest.approx([2e-13, 1.0]) != [1e-13, 1.0]
