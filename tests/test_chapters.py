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


def complaints(folder, rule):
    """Return the names of which ruff complains, each with its module."""
    options = ["--isolated", f"--select={rule}", "--output-format=concise"]
    command = [sys.executable, "-m", "ruff", "check", *options, folder]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    return {*re.findall(r"(\w+)\.py:.*`(\w+)`", output)}


def test_cells_use_no_private_name_and_visible_ones_no_name_that_only_hidden_ones_bind(
    tmp_path,
):
    for folder, left_out in (("whole", set()), ("shown", HIDDEN)):
        (tmp_path / folder).mkdir()
        for path in CHAPTERS:
            sources = [text for tags, text in code_of(path) if not tags & left_out]
            (tmp_path / folder / f"{path.stem}.py").write_text("\n".join(sources))
    (tmp_path / "shown/control.py").write_text("b = 1\nprint(a + b._c)\n")
    unbound = complaints(tmp_path / "shown", "F821")
    assert unbound - complaints(tmp_path / "whole", "F821") == {("control", "a")}
    assert complaints(tmp_path, "SLF001") == {("control", "_c")}
