"""The map of the paper: complete, and every row leads to a derivation, a symbol and a test that exist."""

import ast
import importlib
import importlib.util
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

spec = importlib.util.spec_from_file_location("paper_map", ROOT / "tools" / "paper_map.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

ROWS = tool.read_rows()
# what the paper has, by the numbers of its source
COUNTS = {"Equation": 87, "Definition": 4, "Lemma": 5, "Theorem": 3, "Corollary": 2, "Proposition": 1, "Remark": 3,
          "Algorithm": 1, "Figure": 2}  # fmt: skip
PARTS = {16: "abcd", 28: "abc", 30: "ab", 52: "ab"}  # equations with lettered parts


def labels():
    """Everything in the chapters that a reference can lead to."""
    text = "\n".join(path.read_text() for path in (ROOT / "notebooks").glob("*.md"))
    return {
        *re.findall(r"^:label: (\S+)$", text, re.MULTILINE),
        *re.findall(r"^\((\S+)\)=$", text, re.MULTILINE),
        *re.findall(r"^ +name: (fig-\S+)$", text, re.MULTILINE),
    }


def resolve(dotted):
    """The object of a dotted name; a field of a dataclass or an attribute set in __init__ counts as one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for i, name in enumerate(parts[cut:], start=cut):
            if not hasattr(found, name) and i == len(parts) - 1 and f":{name}\n" in f"{_attributes(found)}":
                return name
            found = getattr(found, name)
        return found
    raise ImportError(dotted)


def _attributes(found):
    """The names that a numpy docstring lists, each as ``:name``."""
    return "".join(f":{name}\n" for name in re.findall(r"^ *(\w+) : ", found.__doc__ or "", re.MULTILINE))


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
    resolve(row["code"])
    path, test = row["test"].split("::")
    assert test.startswith("test_")
    assert test in functions(path)


def test_what_points_nowhere_is_noticed():
    for name in ("adascale.policies.Nothing", "adascale.ReceiveScalingProblem.nothing", "nothing.at.all"):
        with pytest.raises((AttributeError, ImportError)):
            resolve(name)
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
        "Definition 1", "Equation 1", "Equation 2", "Equation 3", "Equation 4", "Equation 4a", "Equation 4b",
        "Assumption A1", "Equation 5", "Figure 1", "Lemma 1",
    ]  # fmt: skip


@pytest.mark.skipif("ADASCALE_PAPER" not in os.environ, reason="the paper's source is not part of the project")
def test_the_inventory_is_that_of_the_paper():
    mapped = {item for row in ROWS for item in tool.items_of(row["paper"])}
    assert set(tool.inventory(Path(os.environ["ADASCALE_PAPER"]).read_text())) == mapped
