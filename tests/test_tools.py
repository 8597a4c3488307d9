"""The tools that compare: what is the same passes, and what is not is named."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient

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


PRINTS = """
import sys, time
for i in range(3):
    sys.stdout.write(str(i))
    time.sleep(0.3)
    print()
"""


@pytest.mark.parametrize("ours", [True, False])
def test_what_a_cell_prints_is_one_piece_under_the_settings_of_the_environment(tmp_path, monkeypatch, ours):
    """Cut between a text and its end of line, it becomes two lines on a page: by default this happens every 0.2 s."""
    settings = ROOT / ".venv/settings/ipython"
    if not settings.is_dir():
        pytest.skip("the environment was not made by make")
    monkeypatch.setenv("IPYTHONDIR", str(settings if ours else tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PRINTS)])
    NotebookClient(notebook).execute()
    pieces = [output.text for output in notebook.cells[0].outputs]
    assert "".join(pieces) == "0\n1\n2\n"
    assert (len(pieces) == 1) == ours


def test_without_a_tolerance_of_its_own_approx_is_relative():
    """As conftest.py sets it: pytest's own would take any two numbers below 1e-12 for the same."""
    assert pytest.approx(2e-13) != 1e-13
    assert pytest.approx([1e-13]) != [2e-13]
    assert pytest.approx(1e-13) == 1e-13 * (1 + 1e-7)
    assert pytest.approx(1e-13, abs=1e-12) == 2e-13
