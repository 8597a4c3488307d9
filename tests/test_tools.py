"""The tools that compare: what is the same passes, and what is not is named."""

import csv
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from companion.__main__ import RESULTS
from companion.causal import growth as causal_growth

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import reproduce_sample as tool  # noqa: E402


def test_each_committed_table_is_listed_once_with_its_command():
    listed, text = [], (ROOT / "results/tables.csv").read_text()
    for row in csv.DictReader(text.splitlines()):
        names = [f"results/{name}" for name in row["tables"].split()]
        listed += [f"{name}.csv" for name in names]
        *command, last = row["command"].split()
        if "sweep" in command:
            assert last.removesuffix(".toml") in names
        elif "companion" in command:
            result = RESULTS[last]
            made = {f"{result.folder}/{file}" for file in result.files.split()}
            assert {f"{name}.csv" for name in names} <= made
    tables = (path.relative_to(ROOT) for path in ROOT.glob("results/*/*.csv"))
    assert sorted(listed) == sorted(map(str, tables))


@pytest.mark.parametrize("factor", [1 + 1e-6, 1.01])
def test_a_study_made_again_is_compared_number_by_number(tmp_path, monkeypatch, factor):
    header, first, *rest = (ROOT / "results/causal/growth.csv").read_text().splitlines()
    *cells, last = first.split(",")
    changed = ",".join([*cells, repr(float(last) * factor)])
    text = "\n".join([header, changed, *rest])
    monkeypatch.setattr(causal_growth, "growth_table", lambda: text)
    differs = pytest.raises(AssertionError) if factor > 1.001 else nullcontext()
    with differs:
        tool.remake_study("growth", tmp_path / "store")


def test_without_a_tolerance_of_its_own_approx_is_relative():
    assert pytest.approx([2e-13, 1.0]) != [1e-13, 1.0]
