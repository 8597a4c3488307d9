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

from companion import results

ROOT = Path(__file__).parents[1]
ALONE = "A15_measured"  # reads several committed tables, and takes seconds

EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:3]  # that, imports, and tables
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
    options = [
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        source,
        source / "companion",
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(source)
    return sorted(tmp_path.glob("*.whl"))


def linked(folder, kept):
    """A folder with those of the packages installed here that are kept, by name."""
    folder.mkdir()
    for package in Path(site.getsitepackages()[0]).iterdir():
        if (
            kept(re.split(r"[-.]", package.name)[0].lower())
            and package.suffix != ".pth"
        ):
            (folder / package.name).symlink_to(package)
    return folder


@pytest.fixture
def python(tmp_path):
    """An interpreter of its own that has everything but this package."""
    others = linked(
        tmp_path / "others",
        lambda name: name.split("_")[0] not in ("adascale", "companion", ""),
    )
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "fresh"], check=True
    )
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    absent = (
        packages / "rfc3987_syntax-1.1.0.dist-info"
    )  # pip asks for it, and the lock leaves it out on purpose
    absent.mkdir()
    (absent / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rfc3987-syntax\nVersion: 1.1.0\n"
    )
    return tmp_path / "fresh" / "bin" / "python"


@pytest.mark.slow
def test_a_notebook_installs_the_wheel_beside_it_and_begins_where_nothing_else_is(
    wheels, python, tmp_path
):
    names = {
        name
        for name in zipfile.ZipFile(wheels[0]).namelist()
        if ".dist-info/" not in name
    }
    files = (
        path.relative_to(ROOT)
        for path in (ROOT / "adascale").rglob("*")
        if path.is_file()
    )
    assert names == {
        path.as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert wheels[0].stat().st_size < 300_000
    folder = tmp_path / "alone"
    folder.mkdir()
    for wheel in wheels:
        shutil.copy(wheel, folder)
    shutil.copy(ROOT / "notebooks" / f"{ALONE}.ipynb", folder)
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
    }
    environment |= {
        "MPLCONFIGDIR": matplotlib.get_configdir()
    }  # has the fonts, whose list takes seconds to make
    command = [python, "-c", EXECUTE, f"{ALONE}.ipynb"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(tmp_path / "fresh") in done.stdout  # the wheel's, not this checkout's
    assert {path.name for path in folder.iterdir()} == {
        f"{ALONE}.ipynb",
        *(wheel.name for wheel in wheels),
    }


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
assert main(["accounting", "epsilon", "--event", "0.01,1.0,500", "--delta", "1e-5"]) == 0
assert not {"numba", "pandas", "tqdm", "torch", "matplotlib"} & set(sys.modules)
sys.exit(main(["leakage", "--scenario", "mnist", "--nu", "0.04"]))
"""


def test_accounting_works_with_numpy_and_scipy_alone(wheels, tmp_path):
    """The wheel without extras: a page of accounting, and the command."""
    folder = linked(tmp_path / "packages", lambda name: name in {"numpy", "scipy"})
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    told = metadata.PathDistribution(next(folder.glob("adascale-*.dist-info")))
    assert {
        re.match(r"\w+", each)[0] for each in told.requires if "extra ==" not in each
    } == {"numpy", "scipy"}
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        PAGE,
        folder,
    ]  # without the packages of this environment
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
    assert (
        Path("../results/mnist/accuracy.csv").read_bytes()
        == (ROOT / "results/mnist/accuracy.csv").read_bytes()
    )
