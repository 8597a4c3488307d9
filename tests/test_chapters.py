"""The code of a chapter: imports first, parameters second, and visible cells that run without the hidden ones."""

import ast
import inspect
import re
from functools import cache
from itertools import takewhile
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell

from companion.figures.headline import headline

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
HIDDEN = {"remove-cell", "remove-input"}
CHAPTERS = sorted(NOTEBOOKS.glob("[01]*.md"))
ALL = sorted(NOTEBOOKS.glob("*.md"))


@cache
def all_cells(path):
    return jupytext.read(path).cells


def code(path):
    return [cell for cell in all_cells(path) if cell.cell_type == "code"]


def tagged(cell, tags):
    return bool(tags & set(cell.metadata.get("tags", [])))


def names(cell, context):
    """Return the names that a cell binds (``ast.Store``), functions and imports with them, or uses (``ast.Load``)."""
    found = set()
    for node in ast.walk(ast.parse(cell.source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            found.add(node.id)
        elif context is ast.Store and isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif context is ast.Store and isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def lost(cells):
    """Return the names that a visible cell uses and only a hidden one before it binds."""
    bound = {True: set(), False: set()}
    used = set()
    for cell in cells:
        hidden = tagged(cell, HIDDEN)
        if not hidden:
            used |= names(cell, ast.Load) & (bound[True] - bound[False] - names(cell, ast.Store))
        bound[hidden] |= names(cell, ast.Store)
    return used


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_code_of_a_chapter_can_be_read_and_traced(path):
    cells, text = code(path), path.read_text()
    first, second, *_ = cells
    assert not first.metadata.get("tags"), "the first code cell shows the imports"
    assert second.metadata.get("tags") == ["parameters"]
    later = [cell for cell in cells[1:] if not tagged(cell, {"own-policy"})]  # a module of its own
    assert not [cell.source for cell in later if re.search(r"^(import|from) ", cell.source, re.MULTILINE)]
    hidden = [cell for cell in cells if tagged(cell, HIDDEN)]
    assert sum(len(cell.source.splitlines()) for cell in hidden) <= 80
    functions = ast.FunctionDef | ast.Lambda | ast.ClassDef
    assert not [
        cell.source for cell in hidden if any(isinstance(n, functions) for n in ast.walk(ast.parse(cell.source)))
    ]
    assert not lost(cells)
    for key in set(re.findall(r"\{glue:text\}`([^`:]+)(?::[^`:]+)?`", text)):
        assert len(re.findall(rf'\bglue\(\s*"{re.escape(key)}"', text)) == 1, key


def test_chapter_shows_its_finding_within_400_words():
    for path in CHAPTERS:
        before = list(takewhile(lambda cell: "figure" not in cell.metadata.get("mystnb", {}), all_cells(path)))
        assert len(before) < len(all_cells(path)), f"{path.stem} has no figure at all"
        prose = " ".join(cell.source for cell in before if cell.cell_type == "markdown")
        assert len(re.findall(r"\w+", prose)) <= 400, path.stem


def test_figure_has_a_title_that_states_its_finding_and_at_most_40_words_of_alternative_text():
    for path in ALL:
        for cell in code(path):
            shown = cell.metadata.get("mystnb", {})
            assert len(shown.get("image", {}).get("alt", "").split()) <= 40, cell.source
            assert "figure" not in shown or re.search(r"figures\.say\(|headline\(", cell.source), cell.source
    assert "say(" in inspect.getsource(headline)


def largest_table(cell):
    texts = ["".join(output.get("data", {}).get("text/html", "")) for output in cell.outputs]
    return max((text.count("<td") for text in texts), default=0)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_table_above_40_cells_is_folded_and_a_chapter_shows_four(path):
    executed = [cell for cell in nbformat.read(path.with_suffix(".ipynb"), 4).cells if cell.cell_type == "code"]
    cells = code(path)
    open_tables = [
        largest_table(run)
        for cell, run in zip(cells, executed[-len(cells) :], strict=True)
        if not tagged(cell, {"hide-output", "hide-cell", "remove-output", "remove-cell"})
    ]
    assert max(open_tables) <= 40
    if path in CHAPTERS:
        assert sum(size > 0 for size in open_tables) <= 4


def test_a_name_that_only_a_hidden_cell_binds_is_noticed():
    hidden = new_code_cell("a = b = 1", metadata={"tags": ["remove-cell"]})
    assert lost([hidden, new_code_cell("b = 2"), new_code_cell("print(a + b)")]) == {"a"}
