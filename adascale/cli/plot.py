"""Draw a column of a table against another, as a figure of a paper: 3.5 inches wide, and readable in black and white.

The table is a CSV file with a header, such as leakage, train and sweep write. FILE ends in .pdf, .png or .svg; the same
table gives the same bytes. There is a line for each value of the columns --by (default: label, or policy). Rows of
one point must differ in a column seed: the point is their geometric mean, and has the 95 % t interval of the logarithm
if there are three. On an axis that is --linear it is the mean. Rows without a value and points without a place on the
axes are left out with a note. This command needs the extra: pip install 'adascale[federated,plot]'.

example:
  adascale plot leakage.csv leakage.pdf --y rdp
"""

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adascale.cli import common, marks, report
from adascale.cli import options as shared
from adascale.errors import InvalidFile
from adascale.files import write_atomically
from adascale.text import short, to_number

if TYPE_CHECKING:
    import pandas as pd


def add_options(parser: shared.Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("file", help="a table with a header", metavar="TABLE.csv", type=Path)
    add("picture", help="the figure", metavar="FILE.pdf|png|svg", type=Path)
    add("--x", help="column of the horizontal axis", metavar="COLUMN", default="nu")
    add("--y", help="column of the vertical axis", metavar="COLUMN", default="epsilon")
    add(
        "--by",
        help="column with a line per value; repeatable (default: label, or policy)",
        metavar="COLUMN",
        action="append",
    )
    add(
        "--linear",
        help="axes that are linear, not logarithmic",
        choices=("x", "y", "xy"),
    )


def run(options: argparse.Namespace) -> None:
    """Write the figure."""
    path, picture, x = options.file, options.picture, options.x
    _check_name(picture)
    common.check_outputs({"TABLE.csv": path}, {"FILE": picture})
    table = _read(path)
    default = [name for name in ("label", "policy") if name in table][:1]
    by = tuple(options.by or default)
    _check_marks(path, table, by)
    figure: Any = report.draw(table, options.y, x, by, options.linear or "")
    has_seeds = "seed" in table and table["seed"].nunique() > 1
    if has_seeds and not table.duplicated([*by, x]).any():
        raise ValueError(
            f"--x {x} differs in all seeds, so there is no mean; expected nu or target_total, say"
        )
    if not any(len(line.get_xdata()) for line in figure.axes[0].lines):
        raise ValueError(f"{path}: no row has a place on the axes; nothing was written")
    write_atomically(picture, report.picture(figure, picture.suffix))


def _check_name(path: Path) -> None:
    """Check, before any work, that there can be a figure of this name."""
    if path.suffix.lower() not in report.DATES:
        raise ValueError(
            f"FILE must end in {', '.join(report.DATES)}, got {short(str(path))}"
        )
    import matplotlib  # noqa: F401 (from an extra)


def _check_marks(path: Path, table: "pd.DataFrame", by: tuple[str, ...]) -> None:
    """Raise an ``InvalidFile`` if rows of one line were made with other scenarios or settings, versions aside."""
    if marks.COLUMN not in table or not {*by} <= {*table}:
        return
    for _, rows in table.groupby(list(by), sort=False) if by else [((), table)]:
        two = marks.differences(rows[marks.COLUMN].astype(str).unique())
        if two:
            raise InvalidFile(
                f"{path}: a line has rows made with {two}; --by {marks.COLUMN}, besides others, draws a line for each",
                str(path),
            )


def _read(path: Path) -> "pd.DataFrame":
    """Read a table: a column of numbers and empty fields is float, any other one is text."""
    import pandas as pd

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = filter(None, csv.reader(file, strict=True))
    except (ValueError, csv.Error) as error:  # also a file without a row
        raise InvalidFile(
            f"{path} is not a CSV table in UTF-8: {common.one_line(error)}", str(path)
        ) from None
    if not rows:
        raise InvalidFile(f"{path} has no rows; expected a header and rows", str(path))
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise InvalidFile(
                f"{path}, row {number}: expected {len(header)} fields, got {len(row)}",
                str(path),
            )
    columns: dict[str, Any] = {}
    for name, *texts in zip(header, *rows, strict=True):
        if name in columns:
            raise InvalidFile(f"{path}: duplicate column {short(name)}", str(path))
        numbers = [to_number(text or "nan") for text in texts]
        columns[name] = texts if None in numbers else numbers
    return pd.DataFrame(columns)
