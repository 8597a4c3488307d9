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

# what would differ tomorrow
DATES: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".png": {},
    ".svg": {"Date": None},
}
_STYLE = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "savefig.dpi": 600,
}
_STYLE |= {
    "legend.fontsize": 7,
    "lines.linewidth": 0.9,
    "lines.markersize": 3.5,
    "axes.linewidth": 0.6,
}
_STYLE |= {
    "svg.hashsalt": "adascale",
    "pdf.fonttype": 42,
}  # TrueType: many publishers refuse Type 3
_COLOURS = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito's
_MARKERS, _LINES = (
    "os^DvPX*<>hd",
    ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1))),
)  # no two lines need their colour
_LABELS = {"nu": r"noise budget $\nu$", "epsilon": r"$\varepsilon$"}
_LABELS |= {"epsilon_mean": r"mean $\varepsilon$ over devices"}
_LABELS |= dict.fromkeys(("total", "target_total"), "total noise energy") | {
    "target_epsilon": r"target $\varepsilon$"
}
_LABELS |= {"noise_energy": "noise energy of a round", "floor": "noise floor"}
_LABELS |= {
    "rdp": "Rényi leakage (nats)",
    "test_accuracy": "test accuracy",
    "ratio": r"$\varepsilon$ over Optimal's",
}
_END = r"(?:inf|nan|-?[\d.]+(?:e[+-]?\d+)?)"
_NUMBERS = re.compile(
    rf"{_END}(?: \.\. {_END})?"
)  # a number, or the ends of an interval
_TEX = {each: f"\\{each}" for each in "&%$#_{}"} | {
    "[": "{[}",
    "]": "{]}",
}  # [ at the begin of a row is a command's
_TEX |= {
    char: rf"\text{name}{{}}"
    for char, name in {"\\": "backslash", "~": "asciitilde", "^": "asciicircum"}.items()
}


def format_table(table: "pd.DataFrame", form: str) -> str:
    """Format a table of texts and integers as ``"text"``, ``"csv"``, ``"markdown"`` or ``"latex"`` (for booktabs)."""
    if form in ("text", "csv"):
        return str(
            table.to_string(index=False)
            if form == "text"
            else table.to_csv(index=False)
        ).removesuffix("\n")
    rows = [
        [" ".join(str(field).split()) for field in row]
        for row in (table.columns, *table.to_numpy().tolist())
    ]
    right = [
        all(_NUMBERS.fullmatch(field) for field in column[1:] if field)
        for column in zip(*rows, strict=True)
    ]
    if form == "markdown":
        rows = [[re.sub(r"([\\|])", r"\\\1", field) for field in row] for row in rows]
        rows.insert(1, ["---:" if numeric else "---" for numeric in right])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    columns = "".join("r" if numeric else "l" for numeric in right)
    head, *body = (f"{' & '.join(map(_tex, row))} \\\\" for row in rows)
    lines = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}"])


def _tex(field: str) -> str:
    if not _NUMBERS.fullmatch(field):
        return "".join(_TEX.get(char, char) for char in field)
    power = re.sub(
        r"(-?[\d.]+)e([+-]?\d+)",
        lambda found: rf"${found[1]} \times 10^{{{int(found[2])}}}$",
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
    from matplotlib.ticker import LogLocator

    keys = [*by, x, *(["seed"] if "seed" in table else [])]
    for name in (*keys, y):
        if name not in table:
            raise InvalidInput(
                f"unknown column {name!r}; the table has {', '.join(map(str, table))}",
                name,
            )
        if name in (x, y) and table[name].dtype.kind not in "fiu":
            raise InvalidInput(
                f"column {name!r} must be numeric, got {short(str(table[name].iloc[0]))}",
                name,
            )
    rows = table[
        table[y].notna() & np.isfinite(table[x]) & ((table[x] > 0) | ("x" in linear))
    ]
    if (again := rows.duplicated(keys)).any():
        same = ", ".join(f"{name} = {rows.loc[again.idxmax(), name]}" for name in keys)
        raise InvalidInput(
            f"several rows have {same}; tell them apart by further columns", "by"
        )
    missing = len(table) - len(rows)
    with matplotlib.style.context(_STYLE, after_reset=True):
        figure = Figure(figsize=(3.5, 2.3), layout="constrained")
        axes: Any = figure.add_subplot(xlabel=_plain(x), ylabel=_plain(y))
        for i, (key, group) in enumerate(
            rows.groupby(list(by), sort=False, dropna=False) if by else [((), rows)]
        ):
            found = [
                (level, *_point(values, "y" in linear))
                for level, values in group.groupby(x)[y]
            ]
            points = np.reshape(found, (-1, 4))  # also of no row
            level, centre, low, high = points[
                np.isfinite(points[:, 1]) & ((points[:, 1] > 0) | ("y" in linear))
            ].T
            missing += len(points) - len(level)
            look: dict[str, Any] = {
                "color": _COLOURS[i % 7],
                "marker": _MARKERS[i % 12],
                "linestyle": _LINES[i % 5],
            }
            look |= {
                "markerfacecolor": ("white", None)[i % 2],
                "elinewidth": 0.6,
                "capsize": 1.5,
            }
            look |= dict.fromkeys(("markevery", "errorevery"), len(level) // 20 + 1)
            look["label"] = ", ".join(
                f"{each:g}" if isinstance(each, float) else _plain(str(each))
                for each in key
            )
            axes.errorbar(
                level, centre, np.stack([centre - low, high - centre]), **look
            )
        if by and axes.containers:
            figure.set_figheight(2.3 + 0.14 * ((len(axes.containers) + 1) // 2))
            figure.legend(
                loc="outside upper center", ncols=2, frameon=False, handlelength=3.2
            )
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            if name not in linear:
                axes.set(**{f"{name}scale": "log"})
                low, high = axis.get_data_interval()
                if high < 300 * low:  # where powers of ten would be sparse
                    axis.set(
                        major_locator=LogLocator(subs=(1, 2, 5)),
                        major_formatter="{x:g}",
                        minor_formatter="",
                    )
    if missing:
        warnings.warn(
            f"{missing} rows or points are not in the figure: they have no place on its axes",
            stacklevel=2,
        )
    return figure


def _point(values: "pd.Series", linear: bool) -> tuple[float, float, float]:
    if not np.isfinite(values).all():
        return np.inf, np.nan, np.nan
    centre, low, high = interval(values) if linear else log_interval(values)
    return (centre, low, high) if len(values) > 2 else (centre, np.nan, np.nan)


def _plain(
    text: str,
) -> str:  # dollars begin no formula, and a legend hides what begins with _
    return _LABELS.get(text, " " * text.startswith("_") + text.replace("$", r"\$"))


def picture(figure: "Figure", suffix: str) -> bytes:
    """Return the file of a figure with the suffix ``.pdf``, ``.png`` or ``.svg``, reproducibly."""
    import matplotlib.style

    with matplotlib.style.context(_STYLE, after_reset=True), io.BytesIO() as file:
        figure.savefig(file, format=suffix.lower()[1:], metadata=DATES[suffix.lower()])
        return file.getvalue()
