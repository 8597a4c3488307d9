"""The code of a chapter: imports first, parameters second, and visible cells that run without the hidden ones."""

import ast
import inspect
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell

from companion.figures.headline import headline

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
HIDDEN = {"remove-cell", "remove-input"}
CHAPTERS = sorted(NOTEBOOKS.glob("[01]*.md"))


def code(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


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


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_shows_its_finding_within_400_words(path):
    words = 0
    for cell in jupytext.read(path).cells:
        picture = "figure" in cell.metadata.get("mystnb", {})
        if picture:
            break
        words += len(re.findall(r"\w+", cell.source)) if cell.cell_type == "markdown" else 0
    assert picture, "no figure at all"
    assert words <= 400


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.md")), ids=lambda path: path.stem)
def test_alternative_text_of_a_figure_has_at_most_40_words(path):
    alts = [cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "") for cell in code(path)]
    assert [alt for alt in alts if len(alt.split()) > 40] == []


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.md")), ids=lambda path: path.stem)
def test_title_of_a_figure_states_its_finding(path):
    drawn = [cell.source for cell in code(path) if "figure" in cell.metadata.get("mystnb", {})]
    assert [source for source in drawn if "figures.say(" not in source and "headline(" not in source] == []
    assert "say(" in inspect.getsource(headline)


def largest_table(cell):
    texts = ["".join(output.get("data", {}).get("text/html", "")) for output in cell.outputs]
    return max((text.count("<td") for text in texts), default=0)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_table_above_40_cells_is_folded_and_a_chapter_shows_four(path):
    executed = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    cells = code(path.with_suffix(".md"))
    open_tables = [
        largest_table(run)
        for cell, run in zip(cells, executed[-len(cells) :], strict=True)
        if not tagged(cell, {"hide-output", "hide-cell", "remove-output", "remove-cell"})
    ]
    assert max(open_tables) <= 40
    if path.with_suffix(".md") in CHAPTERS:
        assert sum(size > 0 for size in open_tables) <= 4


def test_a_name_that_only_a_hidden_cell_binds_is_noticed():
    hidden = new_code_cell("a = b = 1", metadata={"tags": ["remove-cell"]})
    assert lost([hidden, new_code_cell("b = 2"), new_code_cell("print(a + b)")]) == {"a"}
