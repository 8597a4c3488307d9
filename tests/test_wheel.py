"""A notebook alone, as in Colab: without the repository, with nothing but a wheel of the package beside it."""

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from adascale.paper import results

ROOT = Path(__file__).parents[1]
ALONE = "15_measured_links"  # reads several committed tables, and takes seconds

EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells.append(nbformat.v4.new_code_cell("import adascale.paper; adascale.paper.__file__"))
NotebookClient(notebook, timeout=300).execute()
print(notebook.cells[-1].outputs[0].data["text/plain"])
"""


@pytest.fixture
def wheel(tmp_path):
    """A wheel of a checkout that is gone by the time it is used."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "adascale", source / "adascale", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")):
        shutil.copy(path, source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True, capture_output=True)
    shutil.rmtree(source)
    (built,) = tmp_path.glob("*.whl")
    return built


@pytest.fixture
def python(tmp_path):
    """An interpreter that has everything but this package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "fresh"], check=True)
    others = tmp_path / "others"
    others.mkdir()
    for package in Path(site.getsitepackages()[0]).iterdir():
        if "adascale" not in package.name and package.suffix != ".pth":
            (others / package.name).symlink_to(package)
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    return tmp_path / "fresh" / "bin" / "python"


@pytest.mark.slow
def test_a_notebook_installs_the_wheel_beside_it_and_runs_where_nothing_else_is(wheel, python, tmp_path):
    folder = tmp_path / "alone"
    folder.mkdir()
    shutil.copy(wheel, folder)
    shutil.copy(ROOT / "notebooks" / f"{ALONE}.ipynb", folder)
    environment = {"HOME": str(tmp_path), "PATH": os.defpath, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [python, "-c", EXECUTE, f"{ALONE}.ipynb"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(tmp_path / "fresh") in done.stdout  # the wheel's, not this checkout's
    assert {path.name for path in folder.iterdir()} == {f"{ALONE}.ipynb", wheel.name}


def test_beside_its_repository_a_notebook_stays_where_it_is(monkeypatch):
    monkeypatch.chdir(ROOT / "notebooks")
    results.stand_in()
    assert Path.cwd() == ROOT / "notebooks"


def test_elsewhere_the_committed_results_stand_beside_an_empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    results.stand_in()
    assert list(Path.cwd().iterdir()) == []
    assert Path("../results/mnist/accuracy.csv").read_bytes() == (ROOT / "results/mnist/accuracy.csv").read_bytes()


def test_every_notebook_begins_its_code_with_that_step():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        first = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
        assert first.source.endswith("results.stand_in()"), path.name
