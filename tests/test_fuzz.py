"""What `pytest --fuzz` changes: how many examples, which ones, and which tests."""

import ast
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
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *options,
            "test_it.py",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1], (tmp_path / "seen").read_text().split()

    return outcome


def test_without_it_the_examples_are_few_and_the_same_and_long_tests_are_left_out(run):
    said, first = run()
    assert "1 passed, 1 deselected" in said
    assert len(first) == 60
    assert run()[1] == first


def test_with_it_the_examples_are_many_and_others_and_long_tests_run(run):
    said, first = run("--fuzz", "--fuzz-examples", "300", "--hypothesis-seed", "1")
    assert "2 passed" in said
    assert len(first) >= 300
    assert run("--fuzz", "--fuzz-examples", "300", "--hypothesis-seed", "1")[1] == first
    assert run("--fuzz", "--fuzz-examples", "300", "--hypothesis-seed", "2")[1] != first


def test_no_test_sets_its_number_of_examples():
    found = [
        f"{path.relative_to(HERE.parent)}:{each.lineno}"
        for path in [*HERE.rglob("*.py"), *(HERE.parent / "companion" / "tests").rglob("*.py")]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for each in getattr(node, "decorator_list", [])
        if any(isinstance(part, ast.keyword) and part.arg == "max_examples" for part in ast.walk(each))
    ]
    assert found == []
