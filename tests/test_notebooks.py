"""The committed notebooks: executed, and in step with their chapters (tests/book/test_executed.py runs them again)."""

import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.md"))

sys.path.append(str(ROOT / "tools"))
import notebooks as tool  # noqa: E402


def is_in_step(notebook, chapter):
    """Check that a notebook is its chapter: with the numbers of its own outputs in the prose, and outputs besides."""
    values = tool.glued(notebook)
    for cell in tool.code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    return notebook == tool.fill(tool.convert(chapter), values, chapter)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_notebook_is_its_chapter(path):
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    assert is_in_step(notebook, path), "the pair is out of step: run `make notebooks`"


def test_every_notebook_has_its_chapter():
    stems = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert stems == {path.stem for path in CHAPTERS}


CHAPTER = """---
kernelspec: {name: python3, display_name: Python 3}
jupytext: {text_representation: {extension: .md, format_name: myst}}
---
# A chapter

```{code-cell}
glue("half", "0.5")
```

Half is {glue:text}`half`.
"""
GLUE = {"name": "half", "mime_prefix": "application/papermill.record/"}


@pytest.fixture
def pair(tmp_path):
    """A small chapter and its notebook, as if executed."""
    chapter = tmp_path / "01_small.md"
    chapter.write_text(CHAPTER)
    notebook = tool.convert(chapter)
    cell = notebook.cells[-2]
    data = {"application/papermill.record/text/plain": "'0.5'"}
    output = nbformat.v4.new_output("display_data", data, metadata={"scrapbook": GLUE})
    cell.outputs, cell.execution_count = [output], 1
    return chapter, tool.write(notebook, chapter)


@pytest.mark.parametrize("where", ["is 0.5", "\"'0.5'\""])
def test_an_altered_number_is_out_of_step(pair, where):
    chapter, path = pair
    text = path.read_text()
    assert is_in_step(nbformat.reads(text, 4), chapter)
    altered = text.replace(where, where.replace("5", "6"))
    assert not is_in_step(nbformat.reads(altered, 4), chapter)


def test_outputs_of_other_code_are_not_kept(pair):
    chapter, path = pair
    stored = path.read_bytes()
    chapter.write_text(CHAPTER.replace('"0.5"', '"0.6"'))
    with pytest.raises(ValueError, match="its code cells have changed"):
        tool.keep_outputs(chapter)
    assert path.read_bytes() == stored
