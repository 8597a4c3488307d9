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
    """The Makefile over a small package; jupyter-book only says whether a cache is there, jcache does nothing."""
    copy_to(tmp_path)
    for path, text in {
        "adascale/policies/optimal.py": "level = 1\n",
        "companion/pyproject.toml": "[project]\n",
        "companion/tests/test_claims.py": "",
        "notebooks/01_system_model.md": "# System model\n",
        ".venv/bin/jupyter-book": STAND_IN,
        ".venv/bin/jcache": "#!/bin/sh\n",
    }.items():
        append(tmp_path / path, text)
    for name in ("jupyter-book", "jcache"):
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    return tmp_path


def make(folder, *arguments, check=True):
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": shutil.which("python3")}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=check)


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
    result = make(checkout, "-s", "venv", f"PYTHON={checkout / 'absent'}", check=False)
    assert result.returncode != 0
    (complaint,) = [line for line in result.stderr.splitlines() if not line.startswith("make")]
    assert "cannot be run; what is needed is Python 3.11, 3.12 or 3.13" in complaint
    assert not (checkout / ".venv").exists()


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
    for path in NOT_CALLED:
        append(checkout / path)
    append(checkout / "pyproject.toml", "[tool.other]\nsetting = 1\n")
    assert build(checkout) == "cached"
    for path in CALLED:
        append(checkout / path)
        assert build(checkout) == "executed", path
    append(checkout / "pyproject.toml", '[project.entry-points."adascale.policies"]\nMine = "mine:Mine"\n')
    assert build(checkout) == "executed"
    (checkout / "adascale/policies/optimal.py").rename(checkout / "adascale/policies/best.py")
    assert build(checkout) == "executed"
    assert build(checkout) == "cached"


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
