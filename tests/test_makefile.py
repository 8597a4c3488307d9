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


def append(path, text="# changed\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def checkout(tmp_path):
    """The Makefile over a small package; jupyter-book only says whether a cache is there, jcache does nothing."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for path, text in {
        "adascale/policies/optimal.py": "level = 1\n",
        "companion/pyproject.toml": "[project]\n",
        "companion/tests/test_claims.py": "",
        "notebooks/01_system_model.md": "# System model\n",
        ".venv/bin/jupyter-book": STAND_IN,
        ".venv/bin/jcache": "#!/bin/sh\n",
    }.items():
        append(tmp_path / path, text)
    for script in (tmp_path / ".venv/bin").iterdir():
        script.chmod(0o755)
    return tmp_path


def make(folder, *arguments, check=True):
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": shutil.which("python3")}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=check,
    )


def finish(folder):
    """Leave what a finished `make venv` leaves."""
    written = r"echo '(.*)' > (\.venv/(?:made|installed)-from)"
    for text, path in re.findall(written, make(folder, "-n", "venv").stdout):
        (folder / path).write_text(text)


def test_make_refuses_every_other_folder_and_touches_nothing_there(
    checkout, tmp_path_factory
):
    other = tmp_path_factory.mktemp("another project")
    append(other / ".venv/bin/python")
    result = make(other, "-f", checkout / "Makefile", "clean", check=False)
    assert result.returncode != 0
    assert "-C" in result.stderr
    assert (other / ".venv/bin/python").exists()
    make(other, "-C", checkout, "clean")
    assert not (checkout / ".venv").exists()


# Jupyter's cache knows the cells of a chapter; what they call is in the Makefile's key.


def build(folder):
    finish(folder)
    return make(folder, "-s", "book").stdout.split()[-1]


CALLED = ["adascale/policies/optimal.py", "companion/new.py", "results/a.csv"]
CALLED += ["requirements.lock"]
NOT_CALLED = ["notebooks/01_system_model.md", "_config.yml"]
NOT_CALLED += ["adascale/__pycache__/a.pyc", "companion/tests/test_claims.py"]


def test_chapters_are_executed_where_what_they_call_has_changed_and_only_there(
    checkout,
):
    assert build(checkout) == "executed"
    for path in NOT_CALLED:
        append(checkout / path)
    append(checkout / "pyproject.toml", "[tool.other]\nsetting = 1\n")
    assert build(checkout) == "cached"
    for path in CALLED:
        append(checkout / path)
        assert build(checkout) == "executed", path
    code = checkout / CALLED[0]
    code.rename(code.with_stem("best"))
    assert build(checkout) == "executed"


# What is small, needs other people's files or takes hours: book/reproducibility.md
LEFT_OUT = {"explorer", "opening", "links", "published", "resnet"}


def test_reproduce_makes_every_sweep_and_study_and_quick_a_shortened_one(checkout):
    expected = {f"python -m companion make {name}" for name in {*RESULTS} - LEFT_OUT}
    for path in ROOT.glob("results/*/*.toml"):
        file, text = path.relative_to(ROOT), path.read_text()
        append(checkout / file, text)
        if "[[runs]]" in text:
            table = file.with_suffix(".csv")
            expected.add(f"adascale sweep {file} --out {table} --store runs --jobs 3")
    finish(checkout)
    commands = make(checkout, "-n", "reproduce", "JOBS=3").stdout
    assert {*commands.replace(".venv/bin/", "").splitlines()} == expected
    assert "sweep tests/quick.toml" in make(checkout, "-n", "quick").stdout
    quick = {entry.run.policy for entry in read_sweep(ROOT / "tests/quick.toml")}
    assert quick == {"AdaScale", "Optimal", "EqualAlloc", "NoiseFree"}
