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

pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def executed(html, tmp_path_factory):
    """A folder of the chapters as the build executed them."""
    folder, cache = (
        tmp_path_factory.mktemp("executed"),
        get_cache(ROOT / "_build" / ".jupyter_cache"),
    )
    for path in NOTEBOOKS:
        record = cache.match_cache_notebook(jupytext.read(path.with_suffix(".md")))
        nbformat.write(cache.get_cache_bundle(record.pk).nb, folder / path.name)
    cache.db.dispose()
    return folder


NBVAL = [
    sys.executable,
    "-m",
    "pytest",
    "--nbval",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-q",
]


def nbval(*notebooks, executed):
    """Compare stored notebooks with an execution, as ``pytest --nbval`` does."""
    environment = os.environ | {
        "EXECUTED": str(executed),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [*NBVAL, "-p", "replay", *notebooks]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_execution_reproduces_the_stored_outputs(executed):
    result = nbval(*NOTEBOOKS, executed=executed)
    assert result.returncode == 0, result.stdout + result.stderr


def test_one_altered_digit_of_a_stored_output_is_noticed(executed, tmp_path):
    path = tmp_path / "01_system_model.ipynb"
    notebook = nbformat.read(ROOT / "notebooks" / path.name, as_version=4)
    printed = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("text")
    ]
    output = next(output for output in printed if re.search(r"\d", output.text))
    output.text = re.sub(
        r"\d", lambda digit: str((int(digit[0]) + 1) % 10), output.text, count=1
    )
    nbformat.write(notebook, path)
    result = nbval(path, executed=executed)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "mismatch 'stdout'" in result.stdout


def test_a_reader_s_rerun_in_a_copied_folder_reproduces_the_stored_outputs(tmp_path):
    """``pytest --nbval`` and nothing else: no make, no variable, an empty home, no repository around it."""
    for name in ("notebooks", "results"):
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns(".ipynb_checkpoints"),
        )
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
    }
    # matplotlib's font cache, whose first making would speak up inside a notebook
    subprocess.run(
        [sys.executable, "-c", "import matplotlib.font_manager"],
        env=environment,
        check=True,
    )
    command, folder = [*NBVAL, QUICKEST], tmp_path / "notebooks"
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_chapter_offers_its_executed_notebook(book, html):
    for path in NOTEBOOKS:
        page = book[f"notebooks/{path.stem}"]
        (link,) = (
            tag["href"]
            for tag in page.select(".dropdown-download-buttons a")
            if tag["href"].endswith(".ipynb")
        )
        offered = (html / "notebooks" / link).read_bytes()
        assert offered == path.read_bytes()
        assert any(cell.get("outputs") for cell in json.loads(offered)["cells"])
    assert not book["book/notation"].select('a[href$=".ipynb"]')


def test_the_status_page_has_every_chapter(book):
    (table,) = book["book/status"].select("table")
    shown = [row.find("td").get_text() for row in table.select("tbody tr")]
    assert sorted(shown) == [f"notebooks/{path.stem}" for path in NOTEBOOKS]


def test_the_times_of_a_build_are_not_searched(html):
    assert '"book/status"' in (html / "searchindex.js").read_text()
    terms = json.loads(
        (html / "searchindex.js")
        .read_text()
        .removeprefix("Search.setIndex(")
        .removesuffix(")")
    )
    page = terms["docnames"].index("book/status")
    assert not any(
        page in ([found] if isinstance(found, int) else found)
        for found in terms["terms"].values()
    )
