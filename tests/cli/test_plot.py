"""Figures and tables for a paper: what they show is the table, and the same table is the same file."""

import itertools
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest

from adascale.cli import report
from adascale.statistics import interval, log_interval

from ..command import run

ROWS = itertools.product((("A", 1.0), ("_B$", 3.0)), (0.01, 0.1), range(4))
TABLE = pd.DataFrame(
    [(name, nu, seed, level * np.exp(seed) / nu) for (name, level), nu, seed in ROWS]
)
TABLE.columns = ["policy", "nu", "seed", "epsilon"]


def points(figure):
    """What each line of a figure shows: the level, the centre and the ends of the interval of every point."""
    lines = []
    for line, _, (bars,) in figure.axes[0].containers:
        ends = [
            bar[:, 1] if len(bar) else (np.nan, np.nan) for bar in bars.get_segments()
        ]
        lines.append(np.column_stack([*line.get_data(), np.array(ends).reshape(-1, 2)]))
    return lines


@pytest.mark.parametrize(("linear", "mean"), [("x", log_interval), ("xy", interval)])
def test_axes_show_the_means_and_intervals_of_the_table(linear, mean):
    figure = report.draw(TABLE, linear=linear)
    groups = [TABLE[TABLE.policy == policy] for policy in ("A", "_B$")]
    expected = [
        [(nu, *mean(rows.epsilon[rows.nu == nu])) for nu in (0.01, 0.1)]
        for rows in groups
    ]
    np.testing.assert_allclose(
        points(figure), expected, rtol=1e-12
    )  # ends are drawn as differences
    axes, (legend,) = figure.axes[0], figure.legends
    assert (axes.get_xscale(), axes.get_yscale()) == (
        "linear",
        "linear" if "y" in linear else "log",
    )
    assert [text.get_text().strip() for text in legend.get_texts()] == ["A", r"_B\$"]
    assert figure.get_figwidth() == 3.5


def test_command_writes_the_same_bytes_from_the_same_table(place, monkeypatch):
    TABLE.to_csv("t.csv", index=False)
    TABLE.assign(epsilon=1.0).to_csv("other.csv", index=False)
    begins = {"pdf": b"%PDF-", "png": b"\x89PNG\r", "svg": b"<?xml"}
    for suffix, begin in begins.items():
        first, second = place / f"a.{suffix}", place / f"b.{suffix}"
        assert run("plot", "t.csv", first) == 0
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
        with matplotlib.rc_context({"lines.linewidth": 9}):  # the user's settings
            assert run("plot", "t.csv", second) == 0
        monkeypatch.delenv("SOURCE_DATE_EPOCH")
        content = first.read_bytes()
        assert content == second.read_bytes()
        assert content.startswith(begin)
        assert not re.search(rb"CreationDate|dc:date|tIME", content)
        assert run("plot", "other.csv", second) == 0
        assert content != second.read_bytes()  # the control


HARD = pd.DataFrame(
    [
        ["[28], a_b & c~d^e", "0.96 .. 6.67", "3"],
        [r"\$#{x}|", "1.5e-05 .. inf", "2"],
        ["Mine(k=1)", "", "1"],
    ],
    columns=["policy", "95 %", "n"],
)
FORMS = {
    "csv": r"""policy,95 %,n
"[28], a_b & c~d^e",0.96 .. 6.67,3
\$#{x}|,1.5e-05 .. inf,2
Mine(k=1),,1""",
    "markdown": r"""| policy | 95 % | n |
| --- | ---: | ---: |
| [28], a_b & c~d^e | 0.96 .. 6.67 | 3 |
| \\$#{x}\| | 1.5e-05 .. inf | 2 |
| Mine(k=1) |  | 1 |""",
    "latex": r"""\begin{tabular}{lrr}
\toprule
policy & 95 \% & n \\
\midrule
{[}28{]}, a\_b \& c\textasciitilde{}d\textasciicircum{}e & 0.96--6.67 & 3 \\
\textbackslash{}\$\#\{x\}| & $1.5 \times 10^{-5}$--$\infty$ & 2 \\
Mine(k=1) &  & 1 \\
\bottomrule
\end{tabular}""",
}


@pytest.mark.parametrize("form", FORMS)
def test_table_is_written_in_every_form_and_no_character_has_another_meaning(form):
    assert report.format_table(HARD, form) == FORMS[form]
