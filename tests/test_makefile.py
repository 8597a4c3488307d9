"""What `make` remakes after which change. Dry runs and a stand-in jupyter-book: nothing is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAND_IN = """#!/bin/sh
mkdir -p _build/.jupyter_cache _build/html
[ -e _build/.jupyter_cache/executed ] && echo cached || echo executed
touch _build/.jupyter_cache/executed
"""


@pytest.fixture
def checkout(tmp_path):
    """The Makefile over a small package; .venv is half made, its jupyter-book only says whether a cache is there."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for path, text in {
        "adascale/policies/optimal.py": "level = 1\n",
        "notebooks/01_system_model.md": "# System model\n",
        ".venv/bin/jupyter-book": STAND_IN,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / ".venv/bin/jupyter-book").chmod(0o755)
    return tmp_path


def make(folder, *arguments, check=True):
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHON": shutil.which("python3")},
        capture_output=True,
        text=True,
        check=check,
    )


def planned(folder):
    """What `make venv` would do: nothing, install the project, or make the environment."""
    commands = make(folder, "-n", "venv").stdout
    if "-m venv .venv" in commands:
        assert "rm -rf .venv" in commands, "a half-made .venv stays under the new one"
        return "environment"
    return "project" if "--editable ." in commands else "nothing"


def finish(folder):
    """Leave the stamps that a finished `make venv` leaves."""
    for stamp in re.findall(r"touch (\S+)", make(folder, "-n", "venv").stdout):
        (folder / stamp).touch()


def append(path, text="# changed\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_venv_is_remade_exactly_when_the_lock_changes(checkout):
    assert planned(checkout) == "environment"  # an interrupted attempt does not count
    finish(checkout)
    assert planned(checkout) == "nothing"
    append(checkout / "pyproject.toml")
    assert planned(checkout) == "project"
    finish(checkout)
    append(checkout / "requirements.lock")
    assert planned(checkout) == "environment"


def test_moved_folder_asks_for_a_new_venv(checkout, tmp_path):
    finish(checkout)
    moved = shutil.copytree(checkout, tmp_path / "moved")
    assert planned(moved) == "environment"


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


def test_help_lists_the_targets(checkout):
    listed = {line.split()[1] for line in make(checkout).stdout.splitlines()}
    assert {"help", "book", "notebooks", "test", "lint", "clean", "lock"} <= listed


# Jupyter's cache knows the cells of a chapter; what they call is in the Makefile's key.


def build(folder):
    finish(folder)
    return make(folder, "-s", "book").stdout.split()[-1]


def test_second_build_executes_nothing_whatever_the_file_times(checkout):
    assert build(checkout) == "executed"
    for path in checkout.rglob("*.*"):
        path.touch()
    assert build(checkout) == "cached"


@pytest.mark.parametrize("path", ["notebooks/01_system_model.md", "_config.yml", "adascale/__pycache__/a.pyc"])
def test_change_that_no_chapter_calls_executes_nothing(checkout, path):
    build(checkout)
    append(checkout / path)
    assert build(checkout) == "cached"


@pytest.mark.parametrize(
    "path", ["adascale/policies/optimal.py", "adascale/new.py", "results/a.csv", "requirements.lock"]
)
def test_change_in_what_the_chapters_call_executes_them(checkout, path):
    build(checkout)
    append(checkout / path)
    assert build(checkout) == "executed"


def test_renamed_module_executes_the_chapters(checkout):
    build(checkout)
    (checkout / "adascale/policies/optimal.py").rename(checkout / "adascale/policies/best.py")
    assert build(checkout) == "executed"
