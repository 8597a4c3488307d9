"""The one execution of the chapters: nbval compares it with the stored notebooks; pages offer them; a status page."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest
from jupyter_cache import get_cache

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
QUICKEST = "A15_measured.ipynb"
NBVAL = [sys.executable, "-m", "pytest", "--nbval", "-q"]
NBVAL += ["-p", "no:cacheprovider", "-p", "no:xdist"]

pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def executed(html, tmp_path_factory):
    """A folder of the chapters as the build executed them."""
    folder = tmp_path_factory.mktemp("executed")
    cache = get_cache(html.parent / ".jupyter_cache")
    for path in NOTEBOOKS:
        record = cache.match_cache_notebook(jupytext.read(path.with_suffix(".md")))
        nbformat.write(cache.get_cache_bundle(record.pk).nb, folder / path.name)
    cache.db.dispose()
    return folder


def call(command, folder, environment):
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )


def compare(executed, *notebooks):
    """Compare stored notebooks with an execution, as ``pytest --nbval`` does."""
    folders = {"EXECUTED": str(executed), "PYTHONPATH": str(Path(__file__).parent)}
    return call([*NBVAL, "-p", "replay", *notebooks], ROOT, os.environ | folders)


def test_execution_reproduces_the_stored_outputs(executed):
    result = compare(executed, *NOTEBOOKS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_one_altered_digit_of_a_stored_output_is_noticed(executed, tmp_path):
    path = tmp_path / "01_system_model.ipynb"
    notebook = nbformat.read(ROOT / "notebooks" / path.name, as_version=4)
    output = next(
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if re.search(r"\d", output.get("text", ""))
    )
    digit = re.search(r"\d", output.text)[0]
    output.text = output.text.replace(digit, str((int(digit) + 1) % 10), 1)
    nbformat.write(notebook, path)
    result = compare(executed, path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "mismatch 'stdout'" in result.stdout


def test_a_reader_s_rerun_in_a_copied_folder_reproduces_the_stored_outputs(tmp_path):
    """``pytest --nbval`` and nothing else: no make, no variable, an empty home, no repository around it."""
    for name in ("notebooks", "results"):
        shutil.copytree(ROOT / name, tmp_path / name)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    environment = {"HOME": str(tmp_path), "PATH": path}
    # matplotlib's font cache, whose first making would speak up inside a notebook
    fonts = [sys.executable, "-c", "import matplotlib.font_manager"]
    call(fonts, tmp_path, environment).check_returncode()
    result = call([*NBVAL, QUICKEST], tmp_path / "notebooks", environment)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_chapter_offers_its_executed_notebook(book, html):
    for path in NOTEBOOKS:
        page = book[f"notebooks/{path.stem}"]
        (link,) = page.select(".dropdown-download-buttons a[href$='.ipynb']")
        offered = (html / "notebooks" / link["href"]).read_bytes()
        assert offered == path.read_bytes()
        assert any(cell.get("outputs") for cell in json.loads(offered)["cells"])
    assert not book["book/notation"].select('a[href$=".ipynb"]')
