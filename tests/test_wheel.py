"""A notebook alone, as in Colab: without the repository, with nothing but the two wheels beside it."""

import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import matplotlib
import nbformat
import pytest

from companion import results

ROOT = Path(__file__).parents[1]
ALONE = "A15_measured"  # reads several committed tables, and takes seconds

EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
slow = "policies.", "chdir"  # what calls compiled code, which would be compiled for this place
notebook.cells = [cell for cell in notebook.cells if not any(word in cell.source for word in slow)]
notebook.cells.append(nbformat.v4.new_code_cell("import companion; companion.__file__"))
NotebookClient(notebook, timeout=300).execute()
print(notebook.cells[-1].outputs[0].data["text/plain"])
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the library and the companion, from a checkout that is gone by the time they are used."""
    tmp_path = tmp_path_factory.mktemp("wheels")
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "tests")
    for name in ("adascale", "companion", "results"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored, symlinks=True)
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")):
        shutil.copy(path, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    for each in (source, source / "companion"):
        subprocess.run([*command, each], check=True, capture_output=True)
    shutil.rmtree(source)
    return sorted(tmp_path.glob("*.whl"))


def interpreter(folder, kept):
    """An interpreter of its own with those of the packages installed here that are kept, by name."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "fresh"], check=True)
    others = folder / "others"
    others.mkdir()
    for package in Path(site.getsitepackages()[0]).iterdir():
        if kept(re.split(r"[-.]", package.name)[0].lower()) and package.suffix != ".pth":
            (others / package.name).symlink_to(package)
    (packages,) = (folder / "fresh").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    return folder / "fresh" / "bin" / "python"


@pytest.fixture
def python(tmp_path):
    """An interpreter that has everything but this package."""
    return interpreter(tmp_path, lambda name: name.split("_")[0] not in ("adascale", "companion", ""))


@pytest.mark.slow
def test_a_notebook_installs_the_wheel_beside_it_and_runs_where_nothing_else_is(wheels, python, tmp_path):
    names = {name for name in zipfile.ZipFile(wheels[0]).namelist() if ".dist-info/" not in name}
    files = (path.relative_to(ROOT) for path in (ROOT / "adascale").rglob("*") if path.is_file())
    assert names == {path.as_posix() for path in files if "__pycache__" not in path.parts}
    assert wheels[0].stat().st_size < 300_000
    folder = tmp_path / "alone"
    folder.mkdir()
    for wheel in wheels:
        shutil.copy(wheel, folder)
    shutil.copy(ROOT / "notebooks" / f"{ALONE}.ipynb", folder)
    environment = {"HOME": str(tmp_path), "PATH": os.defpath, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment |= {"MPLCONFIGDIR": matplotlib.get_configdir()}  # has the fonts, whose list takes seconds to make
    command = [python, "-c", EXECUTE, f"{ALONE}.ipynb"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(tmp_path / "fresh") in done.stdout  # the wheel's, not this checkout's
    assert {path.name for path in folder.iterdir()} == {f"{ALONE}.ipynb", *(wheel.name for wheel in wheels)}


PAGE = """
from adascale.accounting import advantage, beta, calibrate, delta, epsilon, schedule_epsilon
events = [(0.01, 1.0, 500), (0.02, 1.5, 500)]
found = epsilon(events, delta=1e-5)
assert found.certified and 0 < found.lower <= found.upper == float(found) < schedule_epsilon(0.02, [1.0] * 1000).epsilon
assert delta(events, epsilon=found.upper).lower <= 1e-5
assert calibrate(events, epsilon=2.0, delta=1e-5).epsilon.upper <= 2.0
assert float(beta(events, alpha=0.01)) + 0.01 >= 1 - float(advantage(events))
import sys
print(*sorted({"numba", "pandas", "tqdm", "torch", "matplotlib"} & set(sys.modules)))
"""


def test_accounting_works_with_numpy_and_scipy_alone(wheels, tmp_path):
    """The wheel without extras: a page of accounting, its tests in the folder of tests, and the command."""
    tools = {"pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "mpmath"}
    python = interpreter(tmp_path, lambda name: name in tools | {"numpy", "scipy", "pip"})
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True)
    for check in (["install", "--no-deps", "--no-index", "--quiet", wheels[0]], ["check"]):
        done = run([python, "-m", "pip", "--disable-pip-version-check", *check])
        assert done.returncode == 0, done.stdout + done.stderr
    done = run([python, "-c", PAGE])
    assert done.stdout == "\n", done.stderr
    shutil.copytree(ROOT / "tests" / "accounting", tmp_path / "tests" / "accounting")
    files = [f"tests/accounting/test_exact_{name}.py" for name in ("digits", "parts")]
    options = ["-q", "-p", "no:cacheprovider", "--noconftest", "--import-mode=importlib", "--rootdir", tmp_path]
    done = run([python, "-m", "pytest", *options, *files])
    assert done.returncode == 0, done.stdout[-3000:]
    command = [python.with_name("adascale"), "accounting", "epsilon", "--event", "0.01,1.0,500", "--delta", "1e-5"]
    assert "upper" in run(command).stdout
    done = run([*command[:1], "leakage", "--scenario", "mnist", "--nu", "0.04"])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "adascale[federated]" in done.stderr


def test_a_notebook_stays_in_its_repository_and_finds_the_results_elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT / "notebooks")
    results.stand_in()
    assert Path.cwd() == ROOT / "notebooks"
    monkeypatch.chdir(tmp_path)
    results.stand_in()
    assert list(Path.cwd().iterdir()) == []
    assert Path("../results/mnist/accuracy.csv").read_bytes() == (ROOT / "results/mnist/accuracy.csv").read_bytes()


def test_every_notebook_begins_its_code_with_that_step():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        first = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
        assert first.source.endswith("results.stand_in()"), path.name
