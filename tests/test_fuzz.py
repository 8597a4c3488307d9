"""What `pytest --fuzz` changes: how many examples, which ones, and which tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import pytest
from hypothesis import given, strategies as st

@given(st.integers())
def test_property(x):
    with open("seen", "a") as file:
        print(x, file=file)

@pytest.mark.fuzz
def test_long():
    pass
"""


@pytest.fixture
def run(tmp_path):
    """Runs these two tests under the settings of this folder; the outcome in words, and the examples in their order."""
    shutil.copy(HERE.parent / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = fuzz: long\n")

    def outcome(*options):
        (tmp_path / "seen").unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
        alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # each plugin takes a second
        command += [*options, "test_it.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=alone)
        return done.stdout.splitlines()[-1], (tmp_path / "seen").read_text().split()

    return outcome


def test_fuzz_runs_many_and_other_examples_and_long_tests(run):
    said, first = run()
    assert "1 passed, 1 deselected" in said
    assert len(first) == 60
    assert run()[1] == first
    said, many = run("--fuzz", "--fuzz-examples", "80", "--hypothesis-seed", "1")
    assert "2 passed" in said
    assert len(many) >= 80
    assert many[:60] != first


def test_no_test_sets_its_number_of_examples():
    paths = [*HERE.rglob("*.py"), *(HERE.parent / "companion" / "tests").rglob("*.py")]
    assert [each for each in paths if re.search(r"^@.*max_examples=\d", each.read_text(), re.MULTILINE)] == []
