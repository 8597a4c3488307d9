"""What `make` remakes after which change. Dry runs and stand-ins for what .venv holds: nothing is installed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

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
    assert "tests/test_fuzz.py" in starting  # which the pattern finds
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


# Committed results: `make reproduce` is planned here, `make quick` is run, which takes the same path.


def with_results(folder):
    """Adds the sweep files, and a finished .venv whose commands run under this Python."""
    needed = ["tests/quick.toml", "tests/quick.csv", "tools/reproduce_sample.py"]
    for path in [*(ROOT / each for each in needed), *ROOT.glob("results/*/*.toml")]:
        append(folder / path.relative_to(ROOT), path.read_text())
    for name, module in {"python": "", "adascale": "-m adascale"}.items():
        command = folder / ".venv/bin" / name
        append(command, f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" {module} "$@"\n')
        command.chmod(0o755)
    finish(folder)
    return folder


def test_reproduce_makes_every_sweep_and_study(checkout):
    append(with_results(checkout) / "results/another/sweep.toml", "[[runs]]\n")
    planned = make(checkout, "-n", "reproduce", "JOBS=3").stdout.splitlines()
    files = [path for path in checkout.glob("results/*/*.toml") if "[[runs]]" in path.read_text()]
    assert len(files) > 7
    for file in (path.relative_to(checkout) for path in files):
        assert f".venv/bin/adascale sweep {file} --out {file.with_suffix('.csv')} --store runs --jobs 3" in planned
    studies = [line.partition("-m companion make ")[2] for line in planned if "companion make" in line]
    assert len(planned) == len(files) + len(studies)
    # what is small, needs other people's files or takes hours: book/reproducibility.md
    assert {*RESULTS} - {"explorer", "links", "published", "resnet"} == {*studies}


def test_bench_and_coverage_name_what_there_is(checkout):
    finish(checkout)
    scripts = re.findall(r"tools/(\S+)", make(checkout, "-n", "bench").stdout)
    assert sorted(scripts) == sorted(path.name for path in ROOT.glob("tools/bench*.py"))
    named = re.findall(r"(?:companion/)?tests/\S+", (ROOT / "Makefile").read_text().partition("UNCOMPILED =")[2][:600])
    assert len(named) > 6
    for path, _, test in (each.partition("::") for each in named):
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test


@pytest.mark.slow
def test_quick_makes_the_committed_shortened_runs(tmp_path):
    copy_to(folder := tmp_path)
    said = make(with_results(folder), "-s", "quick", "JOBS=1").stdout
    table = pd.read_csv(folder / "_build/quick/quick.csv")
    assert set(table.policy) == {"AdaScale", "Optimal", "EqualAlloc", "NoiseFree"}
    assert table.shortened.all()
    assert f"{len(table)} of {len(table)} runs finished" in said
    assert f"all {len(table)} runs have the committed values" in said
    assert not (folder / "runs").exists()  # nothing but _build is written
    assert not list(folder.glob("results/*/*.csv"))
