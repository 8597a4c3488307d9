"""Strict reading of tables of numbers, with errors that name file and line."""

import contextlib
import csv
import math
import re
from array import array
from collections.abc import Callable
from datetime import date, datetime, time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.errors import InvalidFile
from adascale.text import short, to_number, to_power

FloatArray = NDArray[np.float64]
Choice = dict[str, Callable[[str], float | None]]
"""The columns to read, in this order, with functions that convert a field to a number or None."""

_INDEX = (
    "",
    "index",
    "unnamed: 0",
)  # names of a first column that pandas or R wrote as the index


class Table(NamedTuple):
    """The chosen columns of a table, with the line of each row or of each entry, 0 if there is none."""

    values: FloatArray
    names: list[str]
    path: str
    lines: NDArray[np.int64]
    text: Callable[[int, int], str]
    """A function that quotes the text in the file for a row and column of ``values``, and its column."""
    unended: str | None = None
    """A note on the last row if its line has no line break."""
    places: dict[str, FloatArray] = {}  # noqa: RUF012  # never changed
    """The columns round, time and index, as far as there are any; an index in ISO 8601 is a time."""

    def error(self, t: int, message: str, m: int = 0) -> InvalidFile:
        """Return an error that names the file and the line of row ``t``, or of an entry."""
        line = int(self.lines[t] if self.lines.ndim == 1 else self.lines[t, m])
        return InvalidFile(
            f"{self.path}{f', line {line}' * bool(line)}: {message}",
            self.path,
            line or None,
        )

    def column(
        self, name: str, good: Callable[[FloatArray], NDArray[np.bool_]], expected: str
    ) -> FloatArray:
        """Return a column, or raise an error unless all its entries are ``good``."""
        m = self.names.index(name)
        bad = ~good(self.values[:, m])
        if bad.any():
            t = int(bad.argmax())
            raise self.error(
                t, f"expected a number that is {expected}, got {self.text(t, m)}"
            )
        return self.values[:, m]


class Clock:
    """The times of a column: numbers as they are, and ISO 8601 as seconds since the first; all are of one kind."""

    def __init__(self) -> None:
        self.kind = ""
        """What the first time is, in words."""
        self._first: datetime | None = None

    @property
    def expected(self) -> str:
        """What a field must be, in words."""
        return self.kind or "a number or a time in ISO 8601"

    def __call__(self, field: str) -> float | None:
        """Return the time as a number, or None if it is none, or of another kind than the first."""
        number = to_number(field)
        if number is not None:
            kind, moment = "a number", None
        elif moment := _moment(field.strip()):
            day = "" if moment.year > 1 else " of day"
            kind = f"a time{day} in ISO 8601, {moment.tzinfo or 'without a zone'}"
        else:
            return None
        self.kind, self._first = self.kind or kind, self._first or moment
        if kind != self.kind:
            return None
        return (
            (moment - self._first).total_seconds() if moment and self._first else number
        )


class Lines:
    """A table read line by line: fields separated by ``;``, tabs, ``,`` or blanks, and comments beginning with ``#``.

    ``choose`` maps the header, without an index, ``round`` and ``time``, to a :data:`Choice`; ``again`` allows repeats,
    and ``sparse`` rounds that are left out.  In a table with a column ``link``, rounds and times are columns like
    others.
    """

    def __init__(
        self,
        name: str,
        choose: Callable[[list[str]], Choice],
        again: bool = False,
        sparse: bool = False,
    ) -> None:
        self.name, self.again, self.sparse, self.number = name, again, sparse, 0
        self.columns: list[str] = []
        """The chosen columns, once the header is read; ``header`` has all columns."""
        self.header: list[str] = []
        self.fields: list[str] = []
        """The texts of the chosen columns in the last row."""
        self.place: dict[str, float] = {}
        """The round, time and index of the last row, as far as there are such columns."""
        self.clocks: dict[str, Clock] = {}
        self._choose, self._comment = choose, (0, "")
        self._last = self.place

    def read(self, line: bytes) -> list[float] | None:
        """Return the numbers in the next line, None for a header or comment; call :meth:`keep` to accept them."""
        self.number += 1
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8").rstrip(
                "\r\n"
            )
        except UnicodeDecodeError:
            raise self.error("not UTF-8 text; save the table as UTF-8") from None
        bare = text.strip()
        if bare.startswith("#"):
            self._comment = self.number, bare.lstrip("#")
        elif self.columns or (bare and self._comment[0] and _has_numbers(bare)):
            if not self.columns:
                self._begin(*self._comment)
            if not bare:
                raise self.error("blank; a value may be missing here")
            return self._row(text)
        elif bare:
            self._begin(self.number, text)
        return None

    def keep(self) -> None:
        """Accept the last row that was read."""
        self._last = self.place

    def error(self, message: str, number: int | None = None) -> InvalidFile:
        """Return an error that names the table and the line."""
        number = number or self.number
        return InvalidFile(f"{self.name}, line {number}: {message}", self.name, number)

    def split(self, line: str) -> list[str]:
        """Return the fields of a line."""
        if '"' not in line and self._separator != " ":
            return line.split(self._separator)
        try:
            return next(
                csv.reader(
                    [line.strip(" ")],
                    delimiter=self._separator,
                    skipinitialspace=True,
                    strict=True,
                )
            )
        except csv.Error as error:
            raise self.error(f"{error}") from None

    def _begin(self, number: int, header: str) -> None:
        self._separator = next(
            (sign for sign in ";\t, " if sign in header.strip(" ")), ","
        )
        names = [name.strip().casefold() for name in self.split(header)]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise self.error(f"duplicate column {short(twice[0])}", number)
        times = () if "link" in names else ("round", "time")
        self._places = [
            each
            for each in names
            if each in times or (each == names[0] and each in _INDEX)
        ]
        self.clocks = {name: Clock() for name in self._places}
        try:
            self._convert = self._choose(
                [name for name in names if name not in self._places]
            )
        except ValueError as error:
            others = "and apart from these at most columns named round, time or index"
            raise self.error(f"{error}, {others}", number) from None
        self.columns, self._chosen = (
            list(self._convert),
            [names.index(name) for name in self._convert],
        )
        self.header = names

    def _row(self, line: str) -> list[float]:
        row, width = self.split(line), len(self.header)
        if len(row) != width:
            hint = (
                "; a comma cannot be the decimal sign, use a point"
                if "," in line and len(row) > width
                else ""
            )
            raise self.error(
                f"expected {width} field{'s' * (width > 1)}, got {len(row)}{hint}"
            )
        self.fields, values = [row[i] for i in self._chosen], []
        for name, field in zip(self.columns, self.fields, strict=True):
            value = self._convert[name](field)
            if value is None:
                hint = (
                    "; use a decimal point, and no separator of thousands"
                    if "," in field
                    else ""
                )
                expected = getattr(self._convert[name], "expected", "a number")
                raise self.error(
                    f"expected {expected}, got {short(field)} in {name}{hint}"
                )
            values.append(value)
        self.place = {}
        for name in self._places:
            self._follow(name, row[self.header.index(name)])
        return values

    def _follow(self, name: str, field: str) -> None:
        """Check that round, time or index increases from row to row; whole numbers of rows are consecutive."""
        clock, last = self.clocks[name], self._last.get(name)
        now = to_number(field) if name == "round" else clock(field)
        if now is None or not math.isfinite(now):
            now, expected = math.nan, "a number" if name == "round" else clock.expected
        elif last is None or (self.again and name == "round"):
            expected = ""
        elif not (self.again or self.sparse or name == "time") and _counts(
            name, clock, last, now
        ):
            expected = f"{last + 1:g}" * (now != last + 1)
        else:
            later = "a later time" if clock.kind.startswith("a time") else f"> {last:g}"
            expected = later * (not (now > last or (self.again and now == last)))
        if expected:
            raise self.error(
                f"rounds must be in order: expected {name or 'an index'} {expected}, got {short(field)}"
            )
        self.place[name] = now


def _counts(name: str, clock: Clock, *numbers: float) -> bool:
    """Say whether these are numbers of rows or rounds, and not times."""
    return name == "round" or (
        clock.kind == "a number" and all(number % 1 == 0 for number in numbers)
    )


def read_table(
    data: bytes, path: str, choose: Callable[[list[str]], Choice], sparse: bool = False
) -> Table:
    """Read the content of a file as :class:`Lines`, skipping blank lines if there are two columns or more."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    reader, values, numbers, blank = (
        Lines(path, choose, sparse=sparse),
        array("d"),
        array("q"),
        0,
    )
    places = array("d")
    for line in lines:
        if not line.strip():
            reader.number += 1
            blank = reader.number if reader.columns else 0
        elif row := reader.read(line):
            if blank and len(reader.header) == 1:
                raise reader.error("blank; a value may be missing here", blank)
            values.extend(row)
            numbers.append(reader.number)
            places.extend(reader.place.values())
            reader.keep()
    if not numbers:
        raise InvalidFile(
            f"{path} {'has no rows' if reader.columns else 'is empty'}; expected a header and rows",
            path,
        )

    def text(t: int, m: int) -> str:
        i = reader.header.index(reader.columns[m]) if m >= 0 else m
        return f"{short(reader.split(lines[numbers[t] - 1].decode())[i])} in {reader.header[i]}"

    roles = [_role(name, clock) for name, clock in reader.clocks.items()]
    order = dict(zip(roles, np.array(places).reshape(len(numbers), -1).T, strict=True))
    rows = np.frombuffer(values).reshape(len(numbers), -1)
    table = Table(rows, reader.columns, path, np.array(numbers), text, places=order)
    if numbers[-1] < len(lines):
        return table
    cut = (
        f"no line break at its end, like a truncated file; it ends with {text(-1, -1)}"
    )
    return table._replace(unended=str(table.error(-1, cut)))


def _role(name: str, clock: Clock) -> str:
    return (
        name if name not in _INDEX else "index" if clock.kind == "a number" else "time"
    )


def _moment(text: str) -> datetime | None:
    """Return a time in ISO 8601, one of day in the year 1, or None."""
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text)
    with contextlib.suppress(ValueError):
        return datetime.combine(date.min, time.fromisoformat(text))
    return None


def known(
    *required: str, optional: tuple[str, ...] = (), ignored: tuple[str, ...] = ()
) -> Callable[[list[str]], Choice]:
    """Return the ``choose`` of :class:`Lines` for fixed columns."""

    def choose(names: list[str]) -> Choice:
        expected = f"expected {', '.join((*required, *optional, *ignored))}"
        if unknown := [
            name for name in names if name not in (*required, *optional, *ignored)
        ]:
            raise ValueError(f"unknown column {short(unknown[0])}; {expected}")
        if missing := [name for name in required if name not in names]:
            raise ValueError(
                f"no column {missing[0]}, got {short(','.join(names))}; {expected}"
            )
        return {name: to_number for name in (*required, *optional) if name in names}

    return choose


def _has_numbers(line: str) -> bool:
    return all(
        not each or to_power(each) is not None
        for each in re.split(r"[;,\s]+", line[:1000])
    )
