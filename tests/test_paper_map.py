"""The map of the paper: complete, and every row leads to a derivation and to a test; the book resolves the names."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(
    r"\| (.+?)<br>\*.+\* \| \{[a-z:]+\}`(.+?)` \| (?:\{py:obj\}`[\w.]+`<br>)+`(.+?)::(\w+)` \|"
)
CHECKLISTS = (ROOT / "book" / "checklists.md").read_text()
TABLE = (ROOT / "book" / "paper-map.md").read_text().partition("| --- |")[2]
LINES = [line for line in TABLE.splitlines()[1:] if line.startswith("| ")]
# what the paper has, by the numbers of its source
COUNTS = {
    "Equation": 87,
    "Definition": 4,
    "Lemma": 5,
    "Theorem": 3,
    "Corollary": 2,
    "Proposition": 1,
    "Remark": 3,
}
COUNTS |= {"Algorithm": 1, "Figure": 2}
PARTS = {16: "abcd", 28: "abc", 30: "ab", 52: "ab"}  # equations with lettered parts


@cache
def labels():
    """Everything in the chapters that a reference can lead to."""
    text = "\n".join(path.read_text() for path in (ROOT / "notebooks").glob("*.md"))
    return {
        *re.findall(r"^:label: (\S+)$", text, re.MULTILINE),
        *re.findall(r"^\((\S+)\)=$", text, re.MULTILINE),
        *re.findall(r"^ +name: (fig-\S+)$", text, re.MULTILINE),
    }


@cache
def functions(path):
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef)
    }


def items_of(name):
    """``Equations 4–5`` stands for Equation 4 and Equation 5."""
    span = re.fullmatch(r"(\w+)s (\d+)–(\d+)", name)
    return (
        [f"{span[1]} {i}" for i in range(int(span[2]), int(span[3]) + 1)]
        if span
        else [name]
    )


def test_every_item_of_the_paper_has_a_row_and_no_row_is_invented():
    mapped = [item for line in LINES for item in items_of(ROW.fullmatch(line)[1])]
    expected = [
        f"{kind} {i}" for kind, count in COUNTS.items() for i in range(1, count + 1)
    ]
    expected += [
        f"Equation {number}{letter}"
        for number, letters in PARTS.items()
        for letter in letters
    ]
    expected += [f"Assumption A{i}" for i in range(1, 5)]
    assert sorted(mapped) == sorted(expected)


def test_every_row_points_to_a_label_and_every_test_that_a_page_names_exists():
    for line in LINES:
        assert ROW.fullmatch(line)[2] in labels(), line
    named = re.findall(
        r"`((?:companion/)?tests/[\w/]+\.py)::(\w+)`", TABLE + CHECKLISTS
    )
    assert len(named) > len(LINES)
    for path, test in named:
        assert test in functions(path), f"{path}::{test}"
