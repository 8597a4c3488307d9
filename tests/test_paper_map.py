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
ROWS = [
    ROW.fullmatch(line).groups()
    for line in TABLE.splitlines()[1:]
    if line.startswith("| ")
]
# what the paper has, by the numbers of its source
COUNTS = {
    "Equation": 87,
    "Definition": 4,
    "Lemma": 5,
    "Theorem": 3,
    "Corollary": 2,
    "Proposition": 1,
    "Remark": 3,
    "Algorithm": 1,
    "Figure": 2,
    "Assumption A": 4,
}
LETTERED = "16a 16b 16c 16d 28a 28b 28c 30a 30b 52a 52b"


def items_of(name):
    """``Equations 4–5`` stands for Equation 4 and Equation 5."""
    if span := re.fullmatch(r"(\w+)s (\d+)–(\d+)", name):
        return [f"{span[1]} {n}" for n in range(int(span[2]), int(span[3]) + 1)]
    return [name]


def test_every_item_of_the_paper_has_a_row_and_no_row_is_invented():
    mapped = [item for name, *_ in ROWS for item in items_of(name)]
    expected = [f"Equation {number}" for number in LETTERED.split()]
    for kind, count in COUNTS.items():
        space = "" if kind.endswith(" A") else " "
        expected += [f"{kind}{space}{number}" for number in range(1, count + 1)]
    assert sorted(mapped) == sorted(expected)


def test_every_row_leads_to_a_label_of_a_chapter():
    text = "\n".join(path.read_text() for path in (ROOT / "notebooks").glob("*.md"))
    pattern = r"^:label: (\S+)$|^\((\S+)\)=$|^ +name: (fig-\S+)$"
    labels = {"".join(groups) for groups in re.findall(pattern, text, re.MULTILINE)}
    assert {label for _, label, *_ in ROWS} <= labels


@cache
def functions(path):
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_every_test_that_a_page_names_exists():
    named = r"`((?:companion/)?tests/[\w/]+\.py)::(\w+)`"
    tests = re.findall(named, TABLE + CHECKLISTS)
    assert len(tests) > len(ROWS)
    for path, test in tests:
        assert test in functions(path), f"{path}::{test}"
