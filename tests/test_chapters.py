"""The code of a chapter: imports first, parameters second, and visible cells that run without the hidden ones."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted(
    (Path(__file__).parents[1] / "notebooks").glob("*.ipynb")
)  # each in step: tests/test_notebooks.py
CODE = {
    path.stem: [
        (set(cell["metadata"].get("tags", [])), "".join(cell["source"]))
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == "code" and cell.get("id") != "install"
    ]
    for path in NOTEBOOKS
}


CHAPTERS = [name for name in CODE if name[0] in "01"]


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_imports_first_and_then_has_its_parameters(name):
    (first, _), (second, _), *later = CODE[name]
    assert not first, "the first code cell shows the imports"
    assert second == {"parameters"}
    sources = [
        source for tags, source in later if "own-policy" not in tags
    ]  # a module of its own
    assert not [
        source
        for source in sources
        if re.search(r"^(import|from) ", source, re.MULTILINE)
    ]
    text = (NOTEBOOKS[0].parent / f"{name}.md").read_text()
    for key in set(re.findall(r"\{glue:text\}`([^`:]+)(?::[^`:]+)?`", text)):
        assert len(re.findall(rf'\bglue\(\s*"{re.escape(key)}"', text)) == 1, key


def complaints(folder, rule):
    """The names of which ruff complains, each with its module."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        f"--select={rule}",
        "--output-format=concise",
        folder,
    ]
    return set(
        re.findall(
            r"(\w+)\.py:.*`(\w+)`",
            subprocess.run(command, capture_output=True, text=True).stdout,
        )
    )


def test_cells_use_no_private_name_and_visible_ones_no_name_that_only_hidden_ones_bind(
    tmp_path,
):
    for folder, hidden in (
        ("whole", set()),
        ("shown", {"remove-cell", "remove-input"}),
    ):
        (tmp_path / folder).mkdir()
        for name, cells in CODE.items():
            text = "\n".join(source for tags, source in cells if not tags & hidden)
            (tmp_path / folder / f"{name}.py").write_text(text)
    (tmp_path / "shown/control.py").write_text("b = 1\nprint(a + b._c)\n")
    shown, whole = (
        complaints(tmp_path / folder, "F821") for folder in ("shown", "whole")
    )
    assert {each for each in shown - whole if each[0] in [*CHAPTERS, "control"]} == {
        ("control", "a")
    }
    assert complaints(tmp_path, "SLF001") == {("control", "_c")}
