"""The map of the paper: complete, and every row leads to a derivation, to lines of code and to a test that exist."""

import ast
import importlib.util
import os
import re
from functools import cache
from pathlib import Path

import pytest
from sphinx.pycode import ModuleAnalyzer

from . import api_page

ROOT = Path(__file__).parents[1]

spec = importlib.util.spec_from_file_location("paper_map", ROOT / "tools" / "paper_map.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

ROWS = tool.read_rows()
NAMES = sorted({name for row in ROWS for name in row["code"].split()})
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
}
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
    return {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_item_of_the_paper_has_a_row_and_no_row_is_invented():
    mapped = [item for row in ROWS for item in tool.items_of(row["paper"])]
    expected = [f"{kind} {i}" for kind, count in COUNTS.items() for i in range(1, count + 1)]
    expected += [f"Equation {number}{letter}" for number, letters in PARTS.items() for letter in letters]
    expected += [f"Assumption A{i}" for i in range(1, 5)]
    assert sorted(mapped) == sorted(expected)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["paper"])
def test_a_row_points_somewhere(row):
    assert row["chapter"] in labels()
    assert row["code"]
    for name in row["code"].split():
        tool.source_of(name)
    path, test = row["test"].split("::")
    assert test.startswith("test_")
    assert test in functions(path)


@pytest.mark.parametrize("name", NAMES)
def test_viewcode_has_the_lines_of_a_name(name):
    """Its page of a module has an anchor for what the API page documents; tests/book follows the link."""
    source = tool.source_of(name)
    analyzer = ModuleAnalyzer.for_module(source.module)
    analyzer.find_tags()
    assert source.name in analyzer.tags
    assert api_page.documented()[api_page.Home(source.module, source.name.split(".")[0])] == 1


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("adascale.policies.best_energy", "../_modules/adascale/policies/adascale.html#best_energy"),
        ("adascale.ReceiveScalingProblem.cost", "../_modules/adascale/problem.html#ReceiveScalingProblem.cost"),
        ("adascale.Scenario.x_max", "../_modules/adascale/scenario.html#Scenario.x_max"),  # a property
        ("adascale.Scenario.mnist", "../_modules/adascale/scenario.html#Scenario.mnist"),  # a class method
        ("adascale.Scenario.order", "../_modules/adascale/scenario.html#Scenario"),  # a field: its class
        ("adascale.ReceiveScalingProblem.floor", "../_modules/adascale/problem.html#ReceiveScalingProblem"),
    ],
)
def test_a_name_leads_to_where_it_is_defined(name, address):
    assert tool.source_of(name).address == address


def test_equation_30_leads_to_the_lines_that_compute_it():
    (row,) = [row for row in ROWS if row["paper"] == "Equation 30"]
    (line,) = [line for line in tool.page(ROWS).splitlines() if line.startswith("| Equation 30<")]
    assert row["code"] == "adascale.policies.best_energy"
    assert 'href="../_modules/adascale/policies/adascale.html#best_energy"' in line


def test_what_points_nowhere_is_noticed():
    for name in ("adascale.policies.Nothing", "adascale.ReceiveScalingProblem.nothing", "nothing.at.all", "adascale"):
        with pytest.raises((AttributeError, ImportError)):
            tool.source_of(name)
    assert "thm-nothing" not in labels()
    assert "test_nothing" not in functions("tests/test_paper_map.py")


def test_the_page_is_the_one_that_the_rows_make():
    assert tool.PAGE.read_text() == tool.page(ROWS), "run `python tools/paper_map.py`"


SOURCE = r"""
\begin{definition} d \begin{align} a \end{align} \end{definition}
% \begin{align} a comment \end{align}
\begin{align} a &= \begin{cases} b \\ c \end{cases} \\ \nonumber & d \\ e &= \text{f \\ g} \end{align}
\begin{subequations}\label{x}
\begin{align} a \\ b \nonumber \\ c \end{align}
\end{subequations}
\item[\textbf{A1.}] smooth
\begin{equation} a \end{equation} \begin{figure} \end{figure} \begin{lemma} l \end{lemma}
"""


def test_the_inventory_numbers_a_source_as_latex_does():
    assert tool.inventory(SOURCE) == [
        "Definition 1",
        "Equation 1",
        "Equation 2",
        "Equation 3",
        "Equation 4",
        "Equation 4a",
        "Equation 4b",
        "Assumption A1",
        "Equation 5",
        "Figure 1",
        "Lemma 1",
    ]


@pytest.mark.skipif("ADASCALE_PAPER" not in os.environ, reason="the paper's source is not part of the project")
def test_the_inventory_is_that_of_the_paper():
    mapped = {item for row in ROWS for item in tool.items_of(row["paper"])}
    assert set(tool.inventory(Path(os.environ["ADASCALE_PAPER"]).read_text())) == mapped
