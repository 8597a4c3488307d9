"""The code of a chapter: imports first, parameters second, and visible cells that run without the hidden ones."""

import re
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

CHAPTERS = sorted((Path(__file__).parents[1] / "notebooks").glob("[01]*.md"))
HIDDEN = {"remove-cell", "remove-input"}


def code_of(path):
    """Return tags and source of each code cell."""
    return [
        (set(cell.metadata.get("tags", [])), cell.source)
        for cell in jupytext.read(path).cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_imports_first_and_then_has_its_parameters(path):
    (first, _), (second, _), *later = code_of(path)
    folded = {"hide-input", "setup"}  # on the page; open in the notebook
    assert first == folded
    assert second == {"parameters", *folded}
    for tags, source in later:
        is_module = "own-policy" in tags  # a module of its own
        assert is_module or not re.search(r"^(import|from) ", source, re.MULTILINE)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_number_in_the_prose_is_glued_once(path):
    text = path.read_text()
    for key in {*re.findall(r"\{glue:text\}`([^`:]+)(?::[^`:]+)?`", text)}:
        assert len(re.findall(rf'\bglue\(\s*"{re.escape(key)}"', text)) == 1, key


def unbound(folder, left_out):
    """Return the names that nothing binds, each with its chapter, where cells of some tags are left out."""
    folder.mkdir()
    for path in CHAPTERS:
        sources = [text for tags, text in code_of(path) if not tags & left_out]
        (folder / f"{path.stem}.py").write_text("\n".join(sources))
    options = ["--isolated", "--select=F821", "--output-format=concise"]
    command = [sys.executable, "-m", "ruff", "check", *options, folder]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    return {*re.findall(r"(\w+)\.py:.*`(\w+)`", output)}


def test_visible_cells_use_no_name_that_only_hidden_ones_bind(tmp_path):
    whole = unbound(tmp_path / "whole", set())
    assert unbound(tmp_path / "shown", HIDDEN) <= whole
    # the control: without the first two cells much is not bound
    assert not unbound(tmp_path / "less", {"setup"}) <= whole
