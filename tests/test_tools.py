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

RUNS = tool.read(ROOT / "results/mnist/accuracy.csv")


def test_each_committed_table_is_listed_once_with_its_command():
    with (ROOT / "results/tables.csv").open() as file:
        listed = {
            f"{name}.csv": row["command"].split()
            for row in csv.DictReader(file)
            for name in row["tables"].split()
        }
    tables = (path.relative_to(ROOT) for path in ROOT.glob("results/*/*.csv"))
    assert sorted(f"results/{name}" for name in listed) == sorted(map(str, tables))
    for name, command in listed.items():
        if "sweep" in command:
            stem = name.removesuffix(".csv").removesuffix("-curves")
            assert command[-1] == f"results/{stem}.toml"
        elif "companion" in command:
            result = RESULTS[command[-1]]
            files = [f"{result.folder}/{file}" for file in result.files.split()]
            assert f"results/{name}" in files


def test_provenance_and_another_processor_are_no_difference():
    other = RUNS.assign(machine="another", test_accuracy=RUNS.test_accuracy + 0.005)
    tool.check(other, RUNS, tool.RUN)
    for wrong in (other[:-1], RUNS.assign(cost=RUNS.cost * 1.001)):
        with pytest.raises(AssertionError):
            tool.check(wrong, RUNS, tool.RUN)


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
