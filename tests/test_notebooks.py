"""The committed notebooks: executed, and in step with their chapters (tests/book/test_executed.py runs them again)."""

import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.md"))
NOTEBOOKS = [chapter.with_suffix(".ipynb") for chapter in CHAPTERS]

sys.path.append(str(ROOT / "tools"))
import notebooks as tool  # noqa: E402


def code_cells(notebook):
    """Those of the chapter: before them is the one that installs the package."""
    cells = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.strip()
    ]
    return [cell for cell in cells if cell.id != "install"]


def test_every_chapter_has_its_notebook_and_every_notebook_its_chapter():
    assert CHAPTERS
    assert sorted((ROOT / "notebooks").glob("*.ipynb")) == NOTEBOOKS


def in_step(notebook, chapter):
    """Whether a notebook is its chapter: with the numbers of its own outputs in the prose, and outputs besides."""
    values = tool.glued(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook == tool.fill(tool.convert(chapter), values)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_notebook_is_its_chapter(path):
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    assert not any("{glue:text}`" in cell.source for cell in notebook.cells)
    assert in_step(notebook, path), "the pair is out of step: run `make notebooks`"


CHAPTER = """---
kernelspec: {name: python3, display_name: Python 3}
jupytext: {text_representation: {extension: .md, format_name: myst}}
---
# A chapter

```{code-cell}
glue("half", "0.5")
```

```{code-cell}
glue("its", "one's")
```

Half is {glue:text}`half`, and not {glue:text}`its` {cite}`own` ({eq}`eq:half`).
"""


@pytest.fixture
def pair(tmp_path):
    """A small chapter and its notebook, as if executed."""
    chapter = tmp_path / "notebooks" / "01_small.md"
    chapter.parent.mkdir()
    chapter.write_text(CHAPTER)
    notebook = tool.convert(chapter)
    glued = [("half", "0.5"), ("its", "one's")]
    for cell, (name, value) in zip(code_cells(notebook), glued, strict=True):
        cell.execution_count = 1
        glue = {
            "scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}
        }
        data = {"application/papermill.record/text/plain": repr(value)}
        cell.outputs = [nbformat.v4.new_output("display_data", data, metadata=glue)]
    tool.write(notebook, chapter)
    return chapter, chapter.with_suffix(".ipynb")


def test_outputs_are_kept_where_the_prose_alone_has_changed(pair):
    chapter, path = pair
    assert in_step(nbformat.read(path, as_version=4), chapter)
    for where in (
        "is 0.5,",
        "\"'0.5'\"",
    ):  # an altered number, in the prose or in the output that it came from
        assert not in_step(
            nbformat.reads(path.read_text().replace(where, where.replace("5", "6")), 4),
            chapter,
        )
    before = [
        (cell.outputs, cell.execution_count)
        for cell in code_cells(nbformat.read(path, as_version=4))
    ]
    chapter.write_text(CHAPTER.replace("Half is", "One half is"))
    assert not in_step(nbformat.read(path, as_version=4), chapter)
    tool.keep_outputs(chapter)
    after = nbformat.read(path, as_version=4)
    assert [
        (cell.outputs, cell.execution_count) for cell in code_cells(after)
    ] == before
    assert after.cells[-1].source.startswith("One half is 0.5,")
    assert in_step(after, chapter)
    chapter.write_text(CHAPTER.replace('"0.5"', '"0.6"'))  # another code
    stored = path.read_bytes()
    with pytest.raises(
        ValueError, match="no output is stored for the code cell that begins with"
    ):
        tool.keep_outputs(chapter)
    assert path.read_bytes() == stored
