"""The PDF: what LaTeX lacks is said in one line, its faults are seen, and pages become what LaTeX can set.

The whole PDF is made once a month, by ``make pdf``; it fails by itself.
"""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docutils import nodes

ROOT = Path(__file__).parents[1]


@pytest.fixture(params=["pdf", "pdf_pages"])
def tool(request, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module(request.param)


@pytest.fixture
def pdf(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("pdf")


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("pdf_pages")


def test_examples_hold(tool):
    found = doctest.testmod(tool)
    assert found.attempted
    assert not found.failed


def test_without_latexmk_one_line_names_what_to_install(tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "pdf.py", "--check"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert "latexmk" in line
    assert "apt-get install" in line


def test_what_latex_lacks_is_named_and_nothing_where_all_is_there(pdf):
    assert pdf.missing(which=str, has_file=lambda name: True) == ""
    assert "needs tabulary.sty;" in pdf.missing(which=str, has_file=lambda name: name != "tabulary.sty")


@pytest.mark.parametrize(
    "line",
    [
        "! Undefined control sequence.\nl.7 \\nosuch",
        "LaTeX Warning: Reference `eq:a' on page 3 undefined on input line 7.",
        "LaTeX Warning: Hyper reference `chap-a' on page 3 undefined on input line 7.",
        "LaTeX Warning: Citation `a' on page 3 undefined on input line 7.",
        "LaTeX Warning: Label `a' multiply defined.",
        'Missing character: There is no ✓ (U+2713) in font "[lmroman10-regular]:mapping=tex-text;"!',
    ],
)
def test_a_fault_in_latex_s_log_is_seen(pdf, line):
    assert len(pdf.problems(f"This is XeTeX\n{line}\nOutput written on a.xdv (3 pages, 9 bytes).\n")) == 1


def test_a_log_without_faults_has_none(pdf):
    log = "LaTeX Font Warning: Some font shapes were not available\nOverfull \\hbox (3.0pt too wide) in paragraph\n"
    assert pdf.problems(log) == []
    assert pdf.sticking_out(log) == []


def test_a_label_that_latex_lacks_is_a_fault(pdf):
    aux = r"\newlabel{equation:a:eq:one}{{1.1}{9}{A title}{equation.1.1}{}}"
    assert pdf.differing({"equation:a:eq:one": "1.1"}, aux) == []
    assert pdf.differing({"a:fig-two": "1.2"}, aux) == ["a:fig-two: 1.2 on the pages, nothing in the PDF"]


def set_table(pages, html):
    """The letters of its columns, and its rows of texts."""
    *_, spec, table = pages.set_table(BeautifulSoup(f"<table>{html}</table>", "html.parser").table)
    return spec["spec"], [[entry.astext() for entry in row] for row in table.findall(nodes.row)]


def test_a_table_of_pandas_has_one_header_row_and_its_numbers_at_the_right(pages):
    head = "<thead><tr><th></th><th>cost</th></tr><tr><th>policy</th><th></th></tr></thead>"
    body = "<tbody><tr><th>AdaScale</th><td>1.02</td></tr><tr><th>Optimal</th><td>1</td></tr></tbody>"
    assert set_table(pages, head + body) == ("lr", [["policy", "cost"], ["AdaScale", "1.02"], ["Optimal", "1"]])


def test_a_cell_over_rows_and_columns_leaves_the_others_in_their_places(pages):
    rows = """<tr><th rowspan="2">RDP</th><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr>
              <tr><th colspan="2">both</th><td>3</td></tr>"""
    assert set_table(pages, rows)[1] == [["RDP", "a", "1"], ["", "b", "2"], ["both", "", "3"]]


def test_mathematics_in_a_cell_stays_mathematics(pages):
    assert [type(each) for each in pages.texts(r"at $\nu$ = 0.01")] == [nodes.Text, nodes.math, nodes.Text]


def test_a_wide_table_is_set_smaller_before_its_text_is_folded(pages):
    sizes = [pages.columns([width, 10], [False, True]) for width in (60, 85, 100, 200)]
    assert sizes == [("small", "lr"), ("footnotesize", "lr"), ("scriptsize", "lr"), ("scriptsize", "LR")]
