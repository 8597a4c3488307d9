"""The tools that compare: what is the same passes, and what is not is named."""

import importlib.util
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def book(tmp_path):
    for build in ("one", "other"):
        (tmp_path / build / "_static").mkdir(parents=True)
        (tmp_path / build / "index.html").write_text("<p>the same</p>\n<p>and more</p>\n")
        (tmp_path / build / "_static/figure.svg").write_bytes(b"<svg>\xff</svg>")
    return tmp_path / "one", tmp_path / "other"


def test_two_builds_of_the_same_bytes_are_one_book(book, capsys):
    tool("compare_books").main(*book)
    assert capsys.readouterr().out == "all 2 files are the same\n"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda path: (path / "index.html").write_text("<p>the same</p>\n<p>and less</p>\n"), "index.html: line 2"),
        (lambda path: (path / "index.html").write_text("<p>the same</p>\n"), "index.html: 2 and 1 lines"),
        (lambda path: (path / "_static/figure.svg").unlink(), "figure.svg: not in"),
        (lambda path: (path / "more").touch(), "more: not in"),
    ],
)
def test_a_file_that_differs_is_named(book, capsys, change, named):
    change(book[1])
    with pytest.raises(SystemExit, match=r"1 of [23] files differ"):
        tool("compare_books").main(*book)
    assert named in capsys.readouterr().out


def test_the_seconds_of_the_chapters_may_differ_and_nothing_else_of_their_page(book, capsys):
    row = '<td><p>{}</p></td>\n<td class="text-right seconds"><p>{}</p></td>\n'
    for side, seconds in zip(book, (7, 12), strict=True):
        (side / "status.html").write_text(row.format("causal", seconds))
    tool("compare_books").main(*book)
    (book[0] / "status.html").write_text(row.format("mnist", 12))
    with pytest.raises(SystemExit, match="1 of 3 files differ"):
        tool("compare_books").main(*book)
    assert "status.html: line 1" in capsys.readouterr().out


def test_no_book_is_not_the_same_book(tmp_path):
    with pytest.raises(SystemExit, match="no book"):
        tool("compare_books").main(tmp_path, tmp_path)


MNIST = pd.read_csv(ROOT / "results/mnist/accuracy.csv", dtype={"run": str})


def moved(row, column):
    """The row with this value a little off, or another name or number."""
    value = row[column]
    return row | {
        column: value * (1 + 1e-6) + (0.2 if column.startswith("test_") else 0)
        if isinstance(value, float)
        else f"{value}1"
    }


def test_every_result_column_of_a_run_made_again_is_held_to_the_committed_row():
    sample = tool("reproduce_sample")
    row = MNIST.iloc[0].to_dict()
    assert sample.differences(row, row) == []
    for column in (*sample.EXACT, *sample.COMPUTED, *sample.TRAINED):
        (said,) = sample.differences(moved(row, column), row)
        assert said.startswith(f"{column}: ")
    provenance = {"wall_seconds", "device", "threads", "version", "commit", "machine", "python", "torch", "numpy"}
    assert {*sample.EXACT, *sample.COMPUTED, *sample.TRAINED} | provenance == set(MNIST.columns)


def test_a_run_without_noise_has_nothing_to_compare_where_nothing_is_spent():
    sample = tool("reproduce_sample")
    row = MNIST[MNIST["policy"] == "NoiseFree"].iloc[0].to_dict()
    assert sample.differences(row | {"cost": None, "rdp": None, "penalty": None}, row) == []
    assert sample.differences(row | {"cost": 0.01}, row)


def test_the_sample_is_drawn_by_its_seed():
    sample = tool("reproduce_sample")
    tables = [ROOT / "results/mnist/accuracy.csv", ROOT / "results/mnist/readings.csv"]

    def drawn(seed):
        return [(file.name, row["reading"], row["run"]) for file, row in sample.draw(4, seed, tables)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) == 4


PRINTS = """
import sys, time
for i in range(3):
    sys.stdout.write(str(i))
    time.sleep(0.3)
    print()
"""


@pytest.mark.parametrize("ours", [True, False])
def test_what_a_cell_prints_is_one_piece_under_the_settings_of_the_environment(tmp_path, monkeypatch, ours):
    """Cut between a text and its end of line, it becomes two lines on a page: by default this happens every 0.2 s."""
    settings = ROOT / ".venv/settings/ipython"
    if not settings.is_dir():
        pytest.skip("the environment was not made by make")
    monkeypatch.setenv("IPYTHONDIR", str(settings if ours else tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PRINTS)])
    NotebookClient(notebook).execute()
    pieces = [output.text for output in notebook.cells[0].outputs]
    assert "".join(pieces) == "0\n1\n2\n"
    assert (len(pieces) == 1) == ours


@pytest.mark.parametrize(
    ("column", "text", "seen"),
    [
        ("seconds", "0.024", "24 ms"),
        ("peer_seconds", "5.4e-04", "540 µs"),
        ("seconds", "4", "4.0 s"),
        ("ratio", "17000", "17,000"),
        ("ratio", "0.5", "0.50"),
        ("difference", "6e-14", "6·10⁻¹⁴"),
        ("difference", "0", "0"),
        ("name", "vmap(grad), union", "vmap(grad), union"),
        ("round", "cifar10", "CIFAR-10"),
        ("peer", "", "–"),
    ],
)
def test_a_committed_number_is_shown_as_the_chapters_show_theirs(column, text, seen):
    assert tool("executed").shown(column, text).replace("\N{NO-BREAK SPACE}", " ") == seen


def test_without_a_tolerance_of_its_own_approx_is_relative():
    """As conftest.py sets it: pytest's own would take any two numbers below 1e-12 for the same."""
    assert pytest.approx(2e-13) != 1e-13
    assert pytest.approx([1e-13]) != [2e-13]
    assert pytest.approx(1e-13) == 1e-13 * (1 + 1e-7)
    assert pytest.approx(1e-13, abs=1e-12) == 2e-13
