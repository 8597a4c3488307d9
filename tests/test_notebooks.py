"""The committed notebooks: executed, and in step with their chapters (tests/book/test_executed.py runs them again)."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.md"))
NOTEBOOKS = [chapter.with_suffix(".ipynb") for chapter in CHAPTERS]
UNCOMPARED = {"nbval-ignore-output", "nbval-skip"}

spec = importlib.util.spec_from_file_location("notebooks_tool", ROOT / "tools" / "notebooks.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def code_cells(notebook):
    """Those of the chapter: before them is the one that installs the package."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    return [cell for cell in cells if cell.id != "install"]


def compared(cell):
    return not UNCOMPARED & set(cell.metadata.get("tags", []))


def test_every_chapter_has_its_notebook_and_every_notebook_its_chapter():
    assert CHAPTERS
    assert sorted((ROOT / "notebooks").glob("*.ipynb")) == NOTEBOOKS


@each(NOTEBOOKS)
def test_notebook_is_executed_from_top_to_bottom_with_its_outputs(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(2, len(cells) + 2)), "run `make notebooks`"
    for cell in cells:
        assert not any(output.output_type == "error" for output in cell.outputs), cell.source
        if re.search(r"^print\(", cell.source, re.MULTILINE):
            assert any(output.output_type == "stream" for output in cell.outputs), cell.source
    assert any(cell.outputs and compared(cell) for cell in cells), "nbval would compare nothing here"


def in_step(notebook, chapter):
    """Whether a notebook is its chapter: with the numbers of its own outputs in the prose, and outputs besides."""
    values = tool.glued(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook == tool.fill(tool.convert(chapter), values)


@each(CHAPTERS)
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
        glue = {"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}}
        data = {"application/papermill.record/text/plain": repr(value)}
        cell.outputs = [nbformat.v4.new_output("display_data", data, metadata=glue)]
    tool.write(notebook, chapter)
    return chapter, chapter.with_suffix(".ipynb")


def prose(path):
    return nbformat.read(path, as_version=4).cells[-1].source


def test_numbers_are_in_the_prose_and_other_roles_are_left(pair):
    assert prose(pair[1]) == "Half is 0.5, and not one's {cite}`own` ({eq}`eq:half`)."


def test_an_altered_number_in_the_prose_or_in_the_output_that_it_came_from_is_noticed(pair):
    chapter, path = pair
    assert in_step(nbformat.read(path, as_version=4), chapter)
    for where in ("is 0.5,", "\"'0.5'\""):
        text = path.read_text()
        assert text.count(where) == 1
        altered = nbformat.reads(text.replace(where, where.replace("5", "6")), as_version=4)
        assert not in_step(altered, chapter)


def test_outputs_are_kept_where_the_prose_alone_has_changed(pair):
    chapter, path = pair
    before = [(cell.outputs, cell.execution_count) for cell in code_cells(nbformat.read(path, as_version=4))]
    chapter.write_text(CHAPTER.replace("Half is", "One half is"))
    assert not in_step(nbformat.read(path, as_version=4), chapter)
    tool.keep_outputs(chapter)
    after = nbformat.read(path, as_version=4)
    assert [(cell.outputs, cell.execution_count) for cell in code_cells(after)] == before
    assert after.cells[-1].source.startswith("One half is 0.5,")
    assert in_step(after, chapter)


@pytest.mark.parametrize(
    "change", [('"0.5"', '"0.6"'), ('```{code-cell}\nglue("its", "one\'s")\n```', ""), ("`half`", "`third`")]
)
def test_outputs_are_not_kept_where_they_are_of_another_code(pair, change):
    chapter, path = pair
    before = path.read_bytes()
    assert change[0] in CHAPTER
    chapter.write_text(CHAPTER.replace(*change))
    command = [sys.executable, ROOT / "tools" / "notebooks.py", "--keep-outputs", chapter]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert path.read_bytes() == before


# Code that a reader sees, or can unfold, fits the column, on the screen and on paper.

LONGEST_LINE = 96
UNSEEN = {"remove-cell", "remove-input"}


def long_lines(notebook):
    """Lines of code too long for the page, of the cells that the page shows or folds."""
    return [
        line
        for cell in code_cells(notebook)
        if not UNSEEN & set(cell.metadata.get("tags", []))
        for line in cell.source.splitlines()
        if len(line) > LONGEST_LINE
    ]


@each(CHAPTERS)
def test_code_that_a_reader_sees_fits_the_column(path):
    assert long_lines(tool.convert(path)) == []


def test_a_line_too_long_is_found_where_a_reader_would_see_it():
    long = "x = 1  # " + 90 * "x"
    cells = [nbformat.v4.new_code_cell(long, metadata={"tags": [tag]}) for tag in ("hide-input", *UNSEEN)]
    assert long_lines(nbformat.v4.new_notebook(cells=cells)) == [long]
