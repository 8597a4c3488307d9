"""The one execution of the chapters has the outputs of the stored notebooks, as has a reader's; pages offer them."""

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


def texts(path):
    """What each cell of a notebook shows but for pictures, unless it differs between machines, after its source."""
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        tags = cell.metadata.get("tags", [])
        if cell.get("outputs") and "nbval-ignore-output" not in tags:
            printed = "".join(output.get("text", "") for output in cell.outputs)
            found += [cell.source, printed]
            for data in (output.data for output in cell.outputs if "data" in output):
                found.append({k: v for k, v in data.items() if "image" not in k})
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_execution_reproduces_the_stored_outputs(executed, path):
    stored = texts(path)
    assert texts(executed / path.name) == stored
    assert re.search(r"0\.\d", str(stored))  # numbers are among what is compared


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
