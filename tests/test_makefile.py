"""What `make` remakes after which change. Dry runs and stand-ins for what .venv holds: nothing is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from adascale.runs.sweep import read_sweep
from companion.__main__ import RESULTS

ROOT = Path(__file__).parents[1]
STAND_IN = """#!/bin/sh
mkdir -p _build/.jupyter_cache _build/html
[ -e _build/.jupyter_cache/executed ] && echo cached || echo executed
touch _build/.jupyter_cache/executed
"""


def copy_to(folder):
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)


@pytest.fixture
def checkout(tmp_path):
    """The Makefile over a small package; .venv is half made, its jupyter-book only says whether a cache is there."""
    copy_to(tmp_path)
    for path, text in {
        "adascale/policies/optimal.py": "level = 1\n",
        "companion/pyproject.toml": "[project]\n",
        "companion/tests/test_claims.py": "",
        "notebooks/01_system_model.md": "# System model\n",
        ".venv/bin/jupyter-book": STAND_IN,
    }.items():
        append(tmp_path / path, text)
    (tmp_path / ".venv/bin/jupyter-book").chmod(0o755)
    return tmp_path


def make(folder, *arguments, check=True):
    command, environment = (
        ["make", "--no-print-directory"],
        {"PATH": "/usr/bin:/bin", "PYTHON": shutil.which("python3")},
    )
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=check
    )


def planned(folder):
    """What `make venv` would do: nothing, install the project, or make the environment."""
    commands = make(folder, "-n", "venv").stdout
    if "-m venv .venv" in commands:
        assert "rm -rf .venv" in commands, "a half-made .venv stays under the new one"
        return "environment"
    return "project" if "--editable ." in commands else "nothing"


def finish(folder):
    """Leave what a finished `make venv` leaves."""
    for line in make(folder, "-n", "venv").stdout.splitlines():
        if made := re.search(r"echo '(.*)' > (\.venv/(?:made|installed)-from)", line):
            (folder / made[2]).write_text(made[1])


def append(path, text="# changed\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_venv_is_remade_if_the_lock_or_the_folder_changes(checkout, tmp_path):
    assert planned(checkout) == "environment"  # an interrupted attempt does not count
    finish(checkout)
    assert planned(checkout) == "nothing"
    append(checkout / "pyproject.toml")
    assert planned(checkout) == "project"
    finish(checkout)
    assert planned(shutil.copytree(checkout, tmp_path / "moved")) == "environment"
    append(checkout / "requirements.lock")
    assert planned(checkout) == "environment"


def test_wrong_python_is_one_line_and_touches_nothing(checkout):
    shutil.rmtree(checkout / ".venv")
    old = checkout / "old-python"
    old.write_text("#!/bin/sh\necho 3.9.18\n")
    old.chmod(0o755)
    for python, says in [(old, "is Python 3.9.18"), (checkout / "absent", "cannot be run")]:
        result = make(checkout, "-s", "venv", f"PYTHON={python}", check=False)
        assert result.returncode != 0
        complaint, *rest = [line for line in result.stderr.splitlines() if not line.startswith("make")]
        assert says in complaint
        assert "3.11, 3.12 or 3.13" in complaint
        assert not rest
        assert not (checkout / ".venv").exists()


def run_by(folder, *arguments):
    """What make would run, a line each, .venv being there."""
    finish(folder)
    return [line.partition(" -m ")[2] for line in make(folder, "-n", *arguments).stdout.splitlines()]


LINT = ["ruff check .", "ruff format --check .", "mypy"]


def test_check_and_test_lint_first_and_only_test_builds_the_book(checkout):
    *lint, check = run_by(checkout, "check")
    assert lint == LINT
    assert '-m "not slow and not book"' in check
    apart = re.findall(r"--ignore=(\S+)", check)
    for path in apart:
        assert (ROOT / path).exists(), path
    starting = {f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py") if '"pytest",' in path.read_text()}
    assert "tests/test_wheel.py" in starting  # which the pattern finds
    assert starting <= {*apart}
    *lint, test = run_by(checkout, "test")
    assert lint == LINT
    assert "--ignore" not in test
    assert "not book" not in test
    assert run_by(checkout, "test", "PYTEST=-m 'not book'")[-1] == f"{test.strip()} -m 'not book'"


# Jupyter's cache knows the cells of a chapter; what they call is in the Makefile's key.


def build(folder):
    finish(folder)
    return make(folder, "-s", "book").stdout.split()[-1]


NOT_CALLED = "notebooks/01_system_model.md _config.yml adascale/__pycache__/a.pyc results/coverage.txt"
NOT_CALLED = [*NOT_CALLED.split(), "companion/tests/test_claims.py"]
CALLED = ["adascale/policies/optimal.py", "companion/new.py", "results/a.csv", "requirements.lock"]


def test_only_a_change_in_what_the_chapters_call_executes_them(checkout):
    assert build(checkout) == "executed"
    for each in checkout.rglob("*.*"):
        each.touch()  # the times of files do not matter
    for path in NOT_CALLED + CALLED:
        append(checkout / path)
        assert build(checkout) == ("executed" if path in CALLED else "cached"), path
    assert build(checkout) == "cached"


def test_a_registered_or_renamed_module_executes_the_chapters_and_a_setting_of_a_tool_does_not(checkout):
    build(checkout)
    append(checkout / "pyproject.toml", "[tool.other]\nsetting = 1\n")
    assert build(checkout) == "cached"
    append(checkout / "pyproject.toml", '[project.entry-points."adascale.policies"]\nMine = "mine:Mine"\n')
    assert build(checkout) == "executed"
    (checkout / "adascale/policies/optimal.py").rename(checkout / "adascale/policies/best.py")
    assert build(checkout) == "executed"


def test_reproduce_makes_every_sweep_and_study_and_quick_a_shortened_one(checkout):
    for path in [ROOT / "tests/quick.toml", *ROOT.glob("results/*/*.toml")]:
        append(checkout / path.relative_to(ROOT), path.read_text())
    append(checkout / "results/another/sweep.toml", "[[runs]]\n")
    finish(checkout)
    planned = make(checkout, "-n", "reproduce", "JOBS=3").stdout.splitlines()
    files = [path for path in checkout.glob("results/*/*.toml") if "[[runs]]" in path.read_text()]
    assert len(files) > 7
    for file in (path.relative_to(checkout) for path in files):
        assert f".venv/bin/adascale sweep {file} --out {file.with_suffix('.csv')} --store runs --jobs 3" in planned
    studies = [line.partition("-m companion make ")[2] for line in planned if "companion make" in line]
    assert len(planned) == len(files) + len(studies)
    assert "adascale sweep tests/quick.toml --out _build/quick/" in make(checkout, "-n", "quick").stdout
    quick = [entry.run for entry in read_sweep(ROOT / "tests/quick.toml")]
    assert {run.policy for run in quick} == {"AdaScale", "Optimal", "EqualAlloc", "NoiseFree"}
    # what is small, needs other people's files or takes hours: book/reproducibility.md
    assert {*RESULTS} - {"explorer", "links", "published", "resnet"} == {*studies}
