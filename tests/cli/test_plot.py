"""Figures and tables for a paper: what they show is the table, and the same table is the same file."""

import csv
import io
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from adascale.cli import report
from adascale.statistics import interval, log_interval

from ..command import refused, run

LEAKAGE = ["leakage", "--scenario", "my.toml", "--nu", 1e-3, "--nu", 4e-3, "--realisations", 3]
LEAKAGE += ["--policy", "optimal", "--policy", "equalalloc"]
TABLE = pd.DataFrame(
    [
        (policy, nu, seed, level * np.exp(seed) / nu)
        for policy, level in (("A", 1.0), ("_B$", 3.0))
        for nu in (0.01, 0.1)
        for seed in range(4)
    ],
    columns=["policy", "nu", "seed", "epsilon"],
)


def points(figure):
    """What each line of a figure shows: the level, the centre and the ends of the interval of every point."""
    found = []
    for drawn in figure.axes[0].containers:
        line, _, (bars,) = drawn
        ends = [bar[:, 1] if len(bar) else (np.nan, np.nan) for bar in bars.get_segments()]
        found.append(np.column_stack([*line.get_data(), np.array(ends).reshape(-1, 2)]))
    return found


@pytest.mark.parametrize(("linear", "mean"), [("x", log_interval), ("xy", interval)])
def test_axes_show_the_means_and_intervals_of_the_table(linear, mean):
    figure = report.draw(TABLE, linear=linear)
    groups = [TABLE[TABLE.policy == policy] for policy in ("A", "_B$")]
    expected = [[(nu, *mean(rows.epsilon[rows.nu == nu])) for nu in (0.01, 0.1)] for rows in groups]
    np.testing.assert_allclose(points(figure), expected, rtol=1e-12)  # ends are drawn as differences
    axes, (legend,) = figure.axes[0], figure.legends
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear" if "y" in linear else "log")
    assert [text.get_text().strip() for text in legend.get_texts()] == ["A", r"_B\$"]
    assert figure.get_figwidth() == 3.5


def test_lines_differ_without_colour():
    figure = report.draw(pd.DataFrame({"policy": [f"P{i}" for i in range(60)], "nu": 0.1, "epsilon": 1.0}))
    svg = report.picture(figure, ".svg").decode()
    dashes = [
        re.search(r"stroke-dasharray: ([\d.,\s]+)", each)
        for each in re.findall(r'<g id="line2d[^>]*>\s*<path[^>]*', svg)
    ]
    markers = {line.get_marker() for line, *_ in figure.axes[0].containers}
    looks = {(line.get_marker(), line.get_linestyle()) for line, *_ in figure.axes[0].containers}
    assert len(markers) == 12
    assert len({each[1] for each in dashes if each}) == 4  # and the solid line
    assert len(looks) == 48  # matplotlib calls the fifth style "--" too


def test_two_rows_have_no_interval():
    for shown in points(report.draw(TABLE[TABLE.seed < 2])):
        assert np.isfinite(shown[:, :2]).all()
        assert np.isnan(shown[:, 2:]).all()


def test_points_without_a_place_are_left_out_with_a_warning():
    table = TABLE.assign(epsilon=TABLE.epsilon.where(TABLE.seed > 0))
    table.loc[(table.policy == "A") & (table.nu == 0.1), "epsilon"] = np.inf
    with pytest.warns(UserWarning, match=r"^4 rows or points are not in the figure"):
        shown = points(report.draw(table))
    assert [each[:, 0].tolist() for each in shown] == [[0.01], [0.01, 0.1]]


PLOTS = """
import matplotlib, sys
from adascale.cli import main
matplotlib.rc("lines", linewidth=9)
sys.exit(max(main(["plot", "t.csv", f"b.{suffix}"]) for suffix in sys.argv[1:]))
"""


def test_command_writes_the_same_bytes_from_the_same_table(place):
    suffixes = "pdf", "png", "svg"
    assert run(*LEAKAGE, "--out", "t.csv", "--plot", "a.pdf") == 0
    assert [run("plot", "t.csv", f"a.{suffix}") for suffix in suffixes[1:]] == [0, 0]
    environment = {"SOURCE_DATE_EPOCH": "1", "PYTHONHASHSEED": "7", "TZ": "UTC"}
    command = [sys.executable, "-c", PLOTS, *suffixes]
    subprocess.run(command, check=True, env=os.environ | environment)  # another process, and settings of the user's
    for suffix in suffixes:
        first, second = (place / f"{name}.{suffix}" for name in "ab")
        assert first.read_bytes() == second.read_bytes()
        assert first.read_bytes()[:5] in (b"%PDF-", b"\x89PNG\r", b"<?xml")
        assert not re.search(rb"CreationDate|dc:date|tIME", first.read_bytes())
    pd.read_csv("t.csv").assign(epsilon=1.0).to_csv("t.csv", index=False)
    assert run("plot", "t.csv", second) == 0
    assert first.read_bytes() != second.read_bytes()  # the control


def cells(text, form):
    """The rows of a printed table, read back."""
    if form == "csv":
        return list(csv.reader(io.StringIO(text)))
    if form == "text":
        return [line.split() for line in text.splitlines()]
    if form == "markdown":
        lines = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in text.splitlines()]
        assert all(re.fullmatch("---:?", each) for each in lines.pop(1))
        return [[re.sub(r"\\(.)", r"\1", each) for each in line] for line in lines]
    lines = text.splitlines()
    assert (lines[1], lines[3], lines[-2:]) == (r"\toprule", r"\midrule", [r"\bottomrule", r"\end{tabular}"])
    rows = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in (lines[2], *lines[4:-2])]
    assert re.fullmatch(rf"\\begin{{tabular}}{{[lr]{{{len(rows[0])}}}}}", lines[0])
    return [[untex(each) for each in row] for row in rows]


def untex(cell):
    cell = re.sub(r"\$(?:([-\d.]+) \\times )10\^{(-?\d+)}\$", lambda found: f"{found[1]}e{int(found[2]):+03d}", cell)
    cell = cell.replace(r"$\infty$", "inf").replace("--", " .. ")
    names = {"backslash": "\\", "asciitilde": "~", "asciicircum": "^"}
    cell = re.sub(r"\\text(\w+){}", lambda found: f"\0{ord(names[found[1]])}\0", cell)
    cell = re.sub(r"{([][])}", r"\1", re.sub(r"\\([&%$#_{}])", r"\1", cell))
    return re.sub("\0(\\d+)\0", lambda found: chr(int(found[1])), cell)


HARD = [
    ["policy", "95 %", "n"],
    ["[28], a_b & c~d^e", "0.96 .. 6.67", "3"],
    [r"\$#{x}|", "1.5e-05 .. inf", "2"],
    ["Mine(k=1)", "", "1"],
]


@pytest.mark.parametrize("form", ["csv", "markdown", "latex"])
def test_table_is_read_back_from_every_form(form):
    assert cells(report.format_table(pd.DataFrame(HARD[1:], columns=HARD[0]), form), form) == HARD


def test_latex_has_no_character_with_a_meaning():
    row = report.format_table(pd.DataFrame(HARD[1:], columns=HARD[0]), "latex").splitlines()[4]
    assert row == r"{[}28{]}, a\_b \& c\textasciitilde{}d\textasciicircum{}e & 0.96--6.67 & 3 \\"


def test_command_prints_the_same_table_in_every_form(place, capsys):
    found = []
    for form in ("text", "latex"):
        assert run(*LEAKAGE, "--format", form) == 0
        found.append(cells(capsys.readouterr().out.rstrip("\n"), form))
    assert found[0] == [" ".join(row).split() for row in found[1]]  # in a text, blanks separate words too
    assert len(found[0]) == 5


@pytest.mark.parametrize("command", [["plot", "t.csv", "f.pdf"], [*LEAKAGE, "--plot", "f.pdf"]])
def test_missing_matplotlib_names_the_extra(place, monkeypatch, capsys, command):
    TABLE.to_csv("t.csv", index=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'adascale[plot]'" in refused(capsys, *command)
    assert not (place / "f.pdf").exists()
