"""The code of a chapter: imports first, parameters second, and visible cells that run without the hidden ones."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import jupytext
import pytest

CHAPTERS = sorted((Path(__file__).parents[1] / "notebooks").glob("[01]*.md"))


@cache
def code(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


def tags(cell):
    return set(cell.metadata.get("tags", []))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_imports_first_and_then_has_its_parameters(path):
    first, second, *later = code(path)
    assert not tags(first), "the first code cell shows the imports"
    assert tags(second) == {"parameters"}
    sources = [cell.source for cell in later if "own-policy" not in tags(cell)]  # a module of its own
    assert not [source for source in sources if re.search(r"^(import|from) ", source, re.MULTILINE)]
    for key in set(re.findall(r"\{glue:text\}`([^`:]+)(?::[^`:]+)?`", text := path.read_text())):
        assert len(re.findall(rf'\bglue\(\s*"{re.escape(key)}"', text)) == 1, key


def undefined(folder):
    """The names that a module of a folder uses and does not define, each with its module."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "--output-format=concise", folder]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    return set(re.findall(r"(\w+)\.py:.*`(\w+)`", found))


def test_visible_cells_use_no_name_that_only_hidden_cells_bind(tmp_path):
    for folder, hidden in (("whole", set()), ("shown", {"remove-cell", "remove-input"})):
        (tmp_path / folder).mkdir()
        for path in CHAPTERS:
            cells = [cell.source for cell in code(path) if not tags(cell) & hidden]
            (tmp_path / folder / f"{path.stem}.py").write_text("\n".join(cells))
    (tmp_path / "shown/control.py").write_text("b = 1\nprint(a + b)\n")
    assert undefined(tmp_path / "shown") - undefined(tmp_path / "whole") == {("control", "a")}
