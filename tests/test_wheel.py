"""A notebook alone, as in Colab: without the repository, with nothing but the two wheels beside it."""

import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import matplotlib
import nbformat
import pytest

from companion import results

ROOT = Path(__file__).parents[1]
ALONE = "15_measured_links"  # reads several committed tables, and takes seconds

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


@pytest.fixture
def wheels(tmp_path):
    """The wheels of the library and the companion, from a checkout that is gone by the time they are used."""
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


@pytest.fixture
def python(tmp_path):
    """An interpreter that has everything but this package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "fresh"], check=True)
    others = tmp_path / "others"
    others.mkdir()
    for package in Path(site.getsitepackages()[0]).iterdir():
        if not {"adascale", "companion"} & {*re.split(r"[-_.]", package.name)} and package.suffix != ".pth":
            (others / package.name).symlink_to(package)
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    return tmp_path / "fresh" / "bin" / "python"


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
