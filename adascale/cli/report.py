"""Tables and figures for a paper: one column wide, readable in black and white, the same bytes for the same values."""

import io
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from adascale.errors import InvalidInput
from adascale.statistics import interval, log_interval
from adascale.text import short

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DATES: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".png": {},
    ".svg": {"Date": None},
}
"""The suffixes of figures, each with the metadata that leave out the date, so that the bytes are the same tomorrow."""
_STYLE = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "savefig.dpi": 600,
    "legend.fontsize": 7,
    "lines.linewidth": 0.9,
    "lines.markersize": 3.5,
    "axes.linewidth": 0.6,
    "svg.hashsalt": "adascale",
    "pdf.fonttype": 42,  # TrueType: many publishers refuse Type 3
}
# Okabe and Ito's colours. The numbers of colours, markers and line styles are 7, 12 and 5, which have no common factor:
# 420 lines differ, and the first 60 also in black and white.
_COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
_MARKERS = "os^DvPX*<>hd"
_LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
_LABELS = {
    "nu": r"noise budget $\nu$",
    "epsilon": r"$\varepsilon$",
    "epsilon_mean": r"mean $\varepsilon$ over devices",
    "total": "total noise energy",
    "target_total": "total noise energy",
    "target_epsilon": r"target $\varepsilon$",
    "noise_energy": "noise energy of a round",
    "floor": "noise floor",
    "rdp": "Rényi leakage (nats)",
    "test_accuracy": "test accuracy",
    "ratio": r"$\varepsilon$ over Optimal's",
}
_VALUE = r"(?:inf|nan|-?[\d.]+(?:e[+-]?\d+)?)"
_NUMBER = re.compile(rf"{_VALUE}(?: \.\. {_VALUE})?")  # or the ends of an interval
_TEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "[": "{[}",  # after the \\ of the row above it would begin an argument
    "]": "{]}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def format_table(table: "pd.DataFrame", form: str) -> str:
    """Format a table of texts and integers as ``"text"``, ``"csv"``, ``"markdown"`` or ``"latex"`` (for booktabs)."""
    if form == "text":
        return str(table.to_string(index=False))
    if form == "csv":
        return str(table.to_csv(index=False)).removesuffix("\n")
    rows = [
        [" ".join(str(field).split()) for field in row]
        for row in (table.columns, *table.to_numpy().tolist())
    ]
    is_right = [
        all(_NUMBER.fullmatch(field) for field in column[1:] if field)
        for column in zip(*rows, strict=True)
    ]
    return (_markdown if form == "markdown" else _latex)(rows, is_right)


def _markdown(rows: list[list[str]], is_right: list[bool]) -> str:
    rows = [[re.sub(r"([\\|])", r"\\\1", field) for field in row] for row in rows]
    rows.insert(1, ["---:" if right else "---" for right in is_right])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _latex(rows: list[list[str]], is_right: list[bool]) -> str:
    alignment = "".join("r" if right else "l" for right in is_right)
    head, *body = (f"{' & '.join(map(_tex, row))} \\\\" for row in rows)
    begin, end = rf"\begin{{tabular}}{{{alignment}}}", r"\end{tabular}"
    lines = [begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", end]
    return "\n".join(lines)


def _tex(field: str) -> str:
    """Return a field in LaTeX: a text escaped, 1e-05 as a power of ten, and an interval with a dash."""
    if not _NUMBER.fullmatch(field):
        return "".join(_TEX.get(char, char) for char in field)
    power = re.sub(
        r"(-?[\d.]+)e([+-]?\d+)",
        lambda match: rf"${match[1]} \times 10^{{{int(match[2])}}}$",
        field,
    )
    return power.replace("inf", r"$\infty$").replace(" .. ", "--")


def draw(
    table: "pd.DataFrame",
    y: str = "epsilon",
    x: str = "nu",
    by: tuple[str, ...] = ("policy",),
    linear: str = "",
) -> "Figure":
    """Draw a column against another, 3.5 inches wide, with a line for each value of the columns ``by``.

    Rows of one point must differ in a column seed.  The point is the geometric mean of ``y``, or on a linear axis
    (``linear`` is "x", "y" or "xy") the mean, with a 95 % t interval if there are three rows or more.  What has no
    place on the axes, a missing value, an infinite mean or on a logarithmic axis 0, is left out with a warning.
    """
    import matplotlib.style
    from matplotlib.figure import Figure

    _check_columns(table, y, x, by)
    on_axis = np.isfinite(table[x]) & ((table[x] > 0) | ("x" in linear))
    rows = table[on_axis & table[y].notna()]
    _check_distinct(rows, [*by, x, *table.columns.intersection(["seed"])])
    lines = rows.groupby(list(by), sort=False, dropna=False) if by else [((), rows)]
    missing = len(table) - len(rows)
    with matplotlib.style.context(_STYLE, after_reset=True):
        figure = Figure(figsize=(3.5, 2.3), layout="constrained")
        axes: Any = figure.add_subplot(xlabel=_label(x), ylabel=_label(y))
        for i, (key, group) in enumerate(lines):
            points = _points(group, y, x, "y" in linear)
            missing += group[x].nunique() - len(points)
            level, centre, low, high = points.T
            # at most twenty markers and bars on a line
            every = len(points) // 20 + 1
            axes.errorbar(
                level,
                centre,
                np.stack([centre - low, high - centre]),
                label=", ".join(map(_label, key)),
                color=_COLOURS[i % 7],
                marker=_MARKERS[i % 12],
                linestyle=_LINES[i % 5],
                markerfacecolor=("white", None)[i % 2],
                elinewidth=0.6,
                capsize=1.5,
                markevery=every,
                errorevery=every,
            )
        if by and axes.containers:
            # a line of the legend has two entries, and is .14 inches high
            figure.set_figheight(2.3 + 0.14 * ((len(axes.containers) + 1) // 2))
            figure.legend(
                loc="outside upper center", ncols=2, frameon=False, handlelength=3.2
            )
        for name in {"x", "y"} - {*linear}:
            _make_logarithmic(axes, name)
    if missing:
        warnings.warn(
            f"{missing} rows or points are not in the figure: they have no place on its axes",
            stacklevel=2,
        )
    return figure


def _check_columns(table: "pd.DataFrame", y: str, x: str, by: tuple[str, ...]) -> None:
    """Raise an ``InvalidInput`` unless the table has the columns, and numbers on its axes."""
    for name in (*by, x, y):
        if name not in table:
            raise InvalidInput(
                f"unknown column {name!r}; the table has {', '.join(map(str, table))}",
                name,
            )
    for name in (x, y):
        if table[name].dtype.kind not in "fiu":
            first = short(str(table[name].iloc[0]))
            raise InvalidInput(f"column {name!r} must be numeric, got {first}", name)


def _check_distinct(rows: "pd.DataFrame", keys: list[str]) -> None:
    """Raise an ``InvalidInput`` if two rows agree in the columns ``keys``."""
    again = rows.duplicated(keys)
    if again.any():
        row = rows.loc[again.idxmax()]
        same = ", ".join(f"{name} = {row[name]}" for name in keys)
        raise InvalidInput(
            f"several rows have {same}; tell them apart by further columns", "by"
        )


def _points(rows: "pd.DataFrame", y: str, x: str, linear: bool) -> np.ndarray[Any, Any]:
    """Return x, the mean of y and the ends of its interval for each x at which the mean has a place on its axis.

    The shape is (n, 4); the ends are NaN with fewer than three rows.
    """
    points = []
    for level, values in rows.groupby(x)[y]:
        if not np.isfinite(values).all():
            continue
        centre, low, high = interval(values) if linear else log_interval(values)
        if len(values) < 3:
            low = high = np.nan
        if linear or centre > 0:
            points.append((level, centre, low, high))
    return np.reshape(points, (-1, 4))


def _make_logarithmic(axes: Any, name: str) -> None:
    """Make the axis ``x`` or ``y`` logarithmic."""
    from matplotlib.ticker import LogLocator

    axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
    axes.set(**{f"{name}scale": "log"})
    low, high = axis.get_data_interval()
    if high < 300 * low:  # where powers of ten would be sparse
        axis.set(
            major_locator=LogLocator(subs=(1, 2, 5)),
            major_formatter="{x:g}",
            minor_formatter="",
        )


def _label(value: Any) -> str:
    """Return what stands at an axis or in the legend, where dollars begin no formula and nothing begins with _."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if text.startswith("_"):
        text = f" {text}"  # else the legend hides it
    return _LABELS.get(text, text.replace("$", r"\$"))


def picture(figure: "Figure", suffix: str) -> bytes:
    """Return the file of a figure with the suffix ``.pdf``, ``.png`` or ``.svg``, reproducibly."""
    import matplotlib.style

    with matplotlib.style.context(_STYLE, after_reset=True), io.BytesIO() as file:
        figure.savefig(file, format=suffix.lower()[1:], metadata=DATES[suffix.lower()])
        return file.getvalue()
