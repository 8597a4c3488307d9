"""A notebook alone, as in Colab: without the repository, with nothing but the two wheels beside it."""

import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import matplotlib
import pytest
import setuptools  # noqa: F401  # builds the wheels

from companion import results

ROOT = Path(__file__).parents[1]
ALONE = "A15_measured.ipynb"  # reads several committed tables, and takes seconds

# the cell that installs, imports, and tables
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:3]
notebook.cells.append(nbformat.v4.new_code_cell("import companion; companion.__file__"))
NotebookClient(notebook, timeout=300).execute()
print(notebook.cells[-1].outputs[0].data["text/plain"])
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the library and the companion, from a checkout that is gone by the time they are used."""
    folder = tmp_path_factory.mktemp("wheels")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "tests")
    for name in ("adascale", "companion", "results"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored, symlinks=True)
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")):
        shutil.copy(path, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command = [*pip, "--no-build-isolation", "-w", folder, source, source / "companion"]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(source)
    return sorted(folder.glob("*.whl"))


def link_packages(folder, is_wanted):
    """Link those of the packages installed here that are wanted, by name, into a folder."""
    folder.mkdir(exist_ok=True)
    for package in Path(site.getsitepackages()[0]).iterdir():
        name = re.split(r"[-._]", package.name)[0].lower()
        if is_wanted(name) and package.suffix != ".pth":
            (folder / package.name).symlink_to(package)


@pytest.fixture
def python(tmp_path):
    """An interpreter of its own that has everything but this package."""
    command = [sys.executable, "-m", "venv", "--without-pip", tmp_path / "fresh"]
    subprocess.run(command, check=True)
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    link_packages(packages, lambda name: name not in ("adascale", "companion", ""))
    # pip asks for it, and the lock leaves it out on purpose
    absent = packages / "rfc3987_syntax-1.1.0.dist-info"
    absent.mkdir()
    heading = "Metadata-Version: 2.1\nName: rfc3987-syntax\nVersion: 1.1.0\n"
    (absent / "METADATA").write_text(heading)
    return tmp_path / "fresh" / "bin" / "python"


@pytest.mark.slow
def test_a_notebook_installs_the_wheel_beside_it_and_begins_where_nothing_else_is(
    wheels, python, tmp_path
):
    folder = tmp_path / "alone"
    folder.mkdir()
    for path in (*wheels, ROOT / "notebooks" / ALONE):
        shutil.copy(path, folder)
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
        # has the fonts, whose list takes seconds to make
        "MPLCONFIGDIR": matplotlib.get_configdir(),
    }
    done = subprocess.run(
        [python, "-c", EXECUTE, ALONE],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(tmp_path / "fresh") in done.stdout  # the wheel's, not this checkout's
    names = {path.name for path in folder.iterdir()}
    assert names == {ALONE, *(wheel.name for wheel in wheels)}


def test_the_wheel_has_every_file_of_the_library_and_is_small(wheels):
    names = zipfile.ZipFile(wheels[0]).namelist()
    files = (
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "adascale").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    assert {name for name in names if ".dist-info/" not in name} == {*files}
    assert wheels[0].stat().st_size < 340_000


PAGE = """
import sys
sys.path.append(sys.argv.pop())
from adascale.accounting import advantage, beta, calibrate, delta, epsilon, schedule_epsilon
events = [(0.01, 1.0, 500), (0.02, 1.5, 500)]
found = epsilon(events, delta=1e-5)
assert found.certified and 0 < found.lower <= found.upper == float(found) < schedule_epsilon(0.02, [1.0] * 1000).epsilon
assert delta(events, epsilon=found.upper).lower <= 1e-5
assert calibrate(events, epsilon=2.0, delta=1e-5).epsilon.upper <= 2.0
assert float(beta(events, alpha=0.01)) + 0.01 >= 1 - float(advantage(events))
from adascale.cli import main
assert main(["epsilon", "--event", "0.01,1.0,500", "--delta", "1e-5"]) == 0
assert not {"numba", "pandas", "tqdm", "torch", "matplotlib"} & set(sys.modules)
sys.exit(main(["leakage", "--scenario", "mnist", "--nu", "0.04"]))
"""


def test_accounting_works_with_numpy_and_scipy_alone(wheels, tmp_path):
    """The wheel without extras: a page of accounting, and the command."""
    folder = tmp_path / "packages"
    link_packages(folder, lambda name: name in {"numpy", "scipy"})
    zipfile.ZipFile(wheels[0]).extractall(folder)
    (about,) = folder.glob("adascale-*.dist-info")
    needed = metadata.PathDistribution(about).requires
    core = [re.match(r"\w+", text)[0] for text in needed if "extra ==" not in text]
    assert {*core} == {"numpy", "scipy"}
    # without the packages of this environment
    command = [sys.executable, "-I", "-S", "-c", PAGE, folder]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "upper" in done.stdout, done.stderr
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "adascale[federated]" in done.stderr


def test_a_notebook_stays_in_its_repository_and_finds_the_results_elsewhere(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(ROOT / "notebooks")
    results.stand_in()
    assert Path.cwd() == ROOT / "notebooks"
    monkeypatch.chdir(tmp_path)
    results.stand_in()
    assert list(Path.cwd().iterdir()) == []
    committed = ROOT / "results/mnist/accuracy.csv"
    table = Path("../results/mnist/accuracy.csv")
    assert table.read_bytes() == committed.read_bytes()
