"""What `make` remakes after which change. Dry runs and stand-ins for what .venv holds: nothing is installed."""

import os
import re
import runpy
import shutil
import subprocess
import sys
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
    folder.mkdir(exist_ok=True)
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
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=check,
    )


def planned(folder, *arguments):
    """What `make venv` would do: nothing, install the project, or make the environment."""
    commands = make(folder, "-n", "venv", *arguments).stdout
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
    (complaint,) = [
        line for line in result.stderr.splitlines() if not line.startswith("make")
    ]
    assert "cannot be run; what is needed is Python 3.11, 3.12 or 3.13" in complaint
    assert not (checkout / ".venv").exists()


# Folders of any name, and the folders of others.

NAMES = [
    "a b",
    """it's 5\" wide""",
    "$HOME $(HOME) `x`",
    "a#b é 中",
    "(a, b); c & d",
    "-n a%b * ? \\",
]
EVERY = [
    "venv",
    "book",
    "notebooks",
    "check",
    "test",
    "variants",
    "reproduce",
    "quick",
    "bench",
    "lint",
]
EVERY += ["clean", "lock"]
PYTHON = """#!/bin/sh
# Stands in for every Python: it makes a .venv of itself, and anything else succeeds.
case "$1 $2" in
  "-c import sys"*) echo 3.12.0 ;;
  "-m venv") mkdir -p "$3/bin" && for name in python jupyter-book jcache adascale uv; do cp "$0" "$3/bin/$name"; done ;;
esac
"""


def files(folder):
    """What a folder has, by path."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def python(tmp_path_factory):
    path = tmp_path_factory.mktemp("an interpreter") / "python 3"
    append(path, PYTHON)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_target_works_in_a_folder_of_any_name_and_leaves_no_file_beside_it(
    name, tmp_path, python
):
    copy_to(tmp_path / name)
    append(tmp_path / name / "companion/pyproject.toml", "[project]\n")
    append(tmp_path / name / "results/mnist/accuracy.toml", "[[runs]]\n")
    make(tmp_path / name, "venv", f"PYTHON={python}")
    assert planned(tmp_path / name, f"PYTHON={python}") == "nothing"
    assert (
        tmp_path
        / name
        / ".venv/settings/ipython/profile_default/startup/in_one_piece.py"
    ).exists()
    make(tmp_path / name, *EVERY, f"PYTHON={python}")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    make(tmp_path / name, "clean")
    assert not (tmp_path / name / ".venv").exists()


def test_make_refuses_every_other_folder_in_one_line_and_touches_nothing_there(
    checkout, tmp_path_factory, python
):
    other = tmp_path_factory.mktemp("another project")
    for path in (
        ".venv/bin/python",
        "_build/kept",
        "build/kept",
        "src/__pycache__/kept",
        "requirements.lock",
    ):
        append(other / path)
    before = files(other)
    (other / "linked.mk").symlink_to(checkout / "Makefile")
    for file in (
        checkout / "Makefile",
        os.path.relpath(checkout / "Makefile", other),
        "linked.mk",
    ):
        for target in ("help", "venv", "clean"):
            result = make(other, "-f", file, target, f"PYTHON={python}", check=False)
            assert result.returncode != 0
            assert result.stderr.count("\n") == 1
            assert "-C" in result.stderr
    (other / "linked.mk").unlink()
    (other / "Makefile").symlink_to(
        checkout / "Makefile"
    )  # the .venv beside it is no more ours than before
    assert make(other, "clean", check=False).returncode != 0
    (other / "Makefile").unlink()
    assert files(other) == before
    for arguments in (
        ["-f", checkout / "Makefile"],
        ["-f", "./Makefile"],
        ["-C", checkout],
    ):
        append(checkout / ".venv/made")
        make(checkout, *arguments, "clean")
        assert not (checkout / ".venv").exists()


def test_a_script_of_pip_runs_from_a_folder_of_any_name(tmp_path):
    beside = runpy.run_path(str(ROOT / "tools/scripts.py"))["beside"]
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "python").symlink_to(sys.executable)
        by_path = f"""'''exec' "{folder}/python" "$0" "$@"\n' '''"""
        (folder / "script").write_bytes(
            beside(f"#!/bin/sh\n{by_path}\nimport sys\nprint(sys.argv[1])\n".encode())
        )
        (folder / "script").chmod(0o755)
        done = subprocess.run(
            [folder / "script", "an argument"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "an argument\n"
    assert beside(b"\x7fELF") == b"\x7fELF"


# Jupyter's cache knows the cells of a chapter; what they call is in the Makefile's key.


def build(folder):
    finish(folder)
    return make(folder, "-s", "book").stdout.split()[-1]


NOT_CALLED = "notebooks/01_system_model.md _config.yml adascale/__pycache__/a.pyc"
NOT_CALLED = [*NOT_CALLED.split(), "companion/tests/test_claims.py"]
CALLED = [
    "adascale/policies/optimal.py",
    "companion/new.py",
    "results/a.csv",
    "requirements.lock",
]


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
    (checkout / "adascale/policies/optimal.py").rename(
        checkout / "adascale/policies/best.py"
    )
    assert build(checkout) == "executed"
    assert build(checkout) == "cached"


def test_reproduce_makes_every_sweep_and_study_and_quick_a_shortened_one(checkout):
    for path in [ROOT / "tests/quick.toml", *ROOT.glob("results/*/*.toml")]:
        append(checkout / path.relative_to(ROOT), path.read_text())
    append(checkout / "results/another/sweep.toml", "[[runs]]\n")
    finish(checkout)
    planned = make(checkout, "-n", "reproduce", "JOBS=3").stdout.splitlines()
    files = [
        path
        for path in checkout.glob("results/*/*.toml")
        if "[[runs]]" in path.read_text()
    ]
    assert len(files) > 7
    for file in (path.relative_to(checkout) for path in files):
        assert (
            f".venv/bin/adascale sweep {file} --out {file.with_suffix('.csv')} --store runs --jobs 3"
            in planned
        )
    studies = [
        line.partition("-m companion make ")[2]
        for line in planned
        if "companion make" in line
    ]
    assert len(planned) == len(files) + len(studies)
    assert (
        "adascale sweep tests/quick.toml --out _build/quick/"
        in make(checkout, "-n", "quick").stdout
    )
    quick = [entry.run for entry in read_sweep(ROOT / "tests/quick.toml")]
    assert {run.policy for run in quick} == {
        "AdaScale",
        "Optimal",
        "EqualAlloc",
        "NoiseFree",
    }
    # what is small, needs other people's files or takes hours: book/reproducibility.md
    assert {*RESULTS} - {"explorer", "links", "published", "resnet"} == {*studies}
