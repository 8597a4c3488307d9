"""Strict reading of tables of numbers, with errors that name file and line."""

import contextlib
import csv
import math
import re
from array import array
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.checks import BoolArray, FloatArray
from adascale.errors import InvalidFile
from adascale.text import short, to_number, to_power

Choice = dict[str, Callable[[str], float | None]]
"""The columns to read, in this order, with functions that convert a field to a number or None."""

Choose = Callable[[list[str]], Choice]
"""Of the names in a header, the columns to read, or a ``ValueError``."""

_LOGGED = re.compile(r"(\d{4})[./](\d\d)[./](\d\d)[_ T](\d\d)[.:](\d\d)[.:](\d\d)")
"""A time such as 2024.05.01_12.30.00, as loggers on phones write it."""
_INDEX = ("", "index", "unnamed: 0")
"""Names of a first column that pandas or R wrote as the index."""

_POINTS = "; write decimal points, and no separators of thousands"
"""What is added to an error about a number with a comma."""


class Table(NamedTuple):
    """The chosen columns of a table, with the line of each row, 0 if there is none."""

    values: FloatArray
    names: list[str]
    path: str
    lines: NDArray[np.int64]
    unended: str | None = None
    """A note on the last row if its line has no line break."""
    places: dict[str, FloatArray] = {}  # noqa: RUF012  # never changed
    """The columns round, time and index, as far as there are any; an index in ISO 8601 is a time."""

    def error(self, t: int | None, message: str) -> InvalidFile:
        """Return an error that names the file and the line of row ``t``."""
        line = 0 if t is None else int(self.lines[t])
        return error_at(self.path, line, message)

    def column(
        self, name: str, good: Callable[[FloatArray], BoolArray], expected: str
    ) -> FloatArray:
        """Return a column, or raise an error unless all its entries are ``good``."""
        values = self.values[:, self.names.index(name)]
        is_bad = ~good(values)
        if is_bad.any():
            t = int(is_bad.argmax())
            got = f"got {values[t]:.15g} in {name}"
            raise self.error(t, f"expected a number that is {expected}, {got}")
        return values


class Clock:
    """A converter of times: numbers as they are, ISO 8601 to seconds since the first.

    All times must be of the kind of the first one.
    """

    def __init__(self) -> None:
        self.kind = ""
        """What the first time is, in words."""
        self._first: Any = None

    @property
    def expected(self) -> str:
        """What a field must be, in words."""
        return self.kind or "a number or a time in ISO 8601"

    def __call__(self, field: str) -> float | None:
        """Return the time as a finite number, or None if it is none."""
        moment = _moment(field.strip())
        if not self.kind:
            self.kind, self._first = _kind(moment), moment
        if moment is None or _kind(moment) != self.kind:
            return None
        if isinstance(moment, datetime):
            return float((moment - self._first).total_seconds())
        return moment if math.isfinite(moment) else None


class Lines:
    """A reader of tables, line by line.

    Fields are separated by ``;``, tabs, ``,`` or blanks, and comments begin with ``#`` or ``%``.  The last comment
    before the numbers may be the header.

    Parameters
    ----------
    name : str, of the table in errors
    choose
        Maps the names in the header, without an index, ``round`` and ``time``, to a :data:`Choice`.  In a table with
        a column ``link``, rounds and times are columns like others.
    wanted : dict of str, optional
        The columns that are read, and what they are called here; the others are ignored.
    """

    def __init__(
        self,
        name: str,
        choose: Choose,
        wanted: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.number = 0
        """The number of the last line."""
        self.columns: list[str] = []
        """The chosen columns, once the header is read."""
        self.names: list[str | None] = []
        """All columns, None for one that is ignored."""
        self.place: dict[str, float] = {}
        """The round, time and index of the last row, as far as there are such columns."""
        self._choose, self._wanted = choose, wanted
        self._comment = (0, "")

    def read(self, line: bytes) -> list[float] | None:
        """Return the numbers of the chosen columns in the next line, None for a header or comment."""
        self.number += 1
        coding = "utf-8-sig" if self.number == 1 else "utf-8"
        try:
            text = line.decode(coding).rstrip("\r\n")
        except UnicodeDecodeError:
            raise self.error("not UTF-8 text; save the table as UTF-8") from None
        bare = text.strip()
        if self.number == 1 and re.fullmatch("sep=.", bare):  # of Excel
            return None
        if bare.startswith(("#", "%")):
            self._comment = self.number, bare.lstrip("#%")
            return None
        if self.columns:
            return self._row(text)
        if bare and self._comment[0] and _has_numbers(bare):
            self._begin(*self._comment)
            return self._row(text)
        if bare:
            self._begin(self.number, text)
        return None

    def error(self, message: str) -> InvalidFile:
        """Return an error that names the table and the line."""
        return error_at(self.name, self.number, message)

    def _split(self, line: str) -> list[str]:
        """Return the fields of a line."""
        rows = csv.reader(
            [line.strip(" ")],
            delimiter=self._separator,
            skipinitialspace=True,
            strict=True,
        )
        try:
            return next(rows)
        except csv.Error as error:
            raise self.error(f"{error}") from None

    def _begin(self, number: int, header: str) -> None:
        """Read the header, which is in the line ``number``."""
        signs = (sign for sign in ";\t, " if sign in header.strip(" "))
        self._separator = next(signs, ",")
        header_names = [name.strip().casefold() for name in self._split(header)]
        self.names = [*header_names]
        if self._wanted is not None:
            self._check_wanted(header_names, number)
            self.names = [self._wanted.get(name) for name in header_names]
        read = [name for name in self.names if name is not None]
        if len({*read}) < len(read):
            duplicate = f"duplicate column in {short(header)}"
            raise error_at(self.name, number, duplicate)
        places = _places(read)
        try:
            choice = self._choose([name for name in read if name not in places])
        except ValueError as error:
            others = "and apart from these at most columns named round, time or index"
            raise error_at(self.name, number, f"{error}, {others}") from None
        self.clocks = {name: Clock() for name in places}
        self._convert = choice | self.clocks
        self.columns = list(choice)

    def _check_wanted(self, header_names: list[str], number: int) -> None:
        """Refuse a header in which a wanted column is missing, or is there twice."""
        for name in self._wanted or ():
            count = header_names.count(name)
            if count != 1:
                got = f"got {count} in {short(', '.join(header_names))}"
                expected = f"expected one column {short(name)}, {got}"
                raise error_at(self.name, number, expected)

    def _row(self, line: str) -> list[float]:
        """Return the numbers of a row."""
        if not line.strip():
            raise self.error("blank; a value may be missing here")
        row = self._split(line)
        number, expected = len(row), len(self.names)
        if number != expected:
            hint = _POINTS * ("," in line and number > expected)
            raise self.error(f"expected fields: {expected}, got {number}{hint}")
        fields = dict(zip(self.names, row, strict=True))
        values: dict[str, float] = {}
        for name, convert in self._convert.items():
            value = convert(fields[name])
            if value is None:
                what = getattr(convert, "expected", "a number")
                raise self._no_number(what, fields[name], name)
            values[name] = value
        self.place = {name: values[name] for name in self.clocks}
        return [values[name] for name in self.columns]

    def _no_number(self, expected: str, field: str, name: str) -> InvalidFile:
        """Return an error about a field of the column ``name``."""
        got = f"{short(field)} in {name or 'the index'}"
        hint = _POINTS * ("," in field)
        return self.error(f"expected {expected}, got {got}{hint}")


def _places(names: list[str]) -> list[str]:
    """Return the columns that say where a row is: an index, round and time; the long form reads these two itself."""
    times = () if "link" in names else ("round", "time")
    index = [name for name in names[:1] if name in _INDEX]
    return [*index, *(name for name in names if name in times)]


def read_table(
    data: bytes,
    path: str,
    choose: Choose,
    sparse: bool = False,
    wanted: dict[str, str] | None = None,
) -> Table:
    """Read the content of a file as :class:`Lines`, skipping blank lines if there are two columns or more.

    Rounds, times and indices must increase, and rounds and whole indices by one unless the table is ``sparse``.
    """
    lines = re.split(b"\r\n|\r|\n", data.rstrip(b" \r\n"))
    reader = Lines(path, choose, wanted)
    values, numbers = array("d"), array("q")
    for line in lines:
        is_blank = not line.strip()
        if is_blank and len(reader.names) != 1:
            reader.number += 1
            continue
        row = reader.read(line)
        if row is not None:
            values.extend(row)
            values.extend(reader.place.values())
            numbers.append(reader.number)
    if not numbers:
        lacks = "has no rows" if reader.columns else "is empty"
        raise InvalidFile(f"{path} {lacks}; expected a header and rows", path)
    both = np.frombuffer(values).reshape(len(numbers), -1)
    rows, places = np.split(both, [len(reader.columns)], axis=1)
    roles = [_role(name, clock) for name, clock in reader.clocks.items()]
    by_role = dict(zip(roles, places.T, strict=True))
    table = Table(rows, reader.columns, path, np.array(numbers), places=by_role)
    _check_order(table, sparse)
    if data.endswith((b"\r", b"\n")):
        return table
    end = short(lines[-1].decode()[-20:])
    cut = f"no line break at its end, like a truncated file; it ends with {end}"
    return table._replace(unended=str(table.error(-1, cut)))


def _check_order(table: Table, sparse: bool) -> None:
    """Check that round, time and index increase from row to row."""
    for name, place in table.places.items():
        by_one = not (sparse or name == "time" or (place % 1).any())
        step = np.diff(place)
        is_wrong = step != 1 if by_one else step <= 0
        if is_wrong.any():
            t = int(is_wrong.argmax())
            before, after = place[t : t + 2]
            least = f"{before + 1:.15g}" if by_one else f"> {before:.15g}"
            got = f"expected {name} {least}, got {after:.15g}"
            raise table.error(t + 1, f"rounds must be in order: {got}")


def error_at(path: str, line: int, message: str) -> InvalidFile:
    """Return an error that names the file and, unless it is 0, the line."""
    where = f"{path}, line {line}" if line else path
    return InvalidFile(f"{where}: {message}", path, line or None)


def _role(name: str, clock: Clock) -> str:
    """Return what a column of places is: round, time or index."""
    if name not in _INDEX:
        return name
    return "index" if clock.kind == "a number" else "time"


def _moment(text: str) -> float | datetime | None:
    """Return a number, or a time in ISO 8601, one of day in the year 1, or None."""
    number = to_number(text)
    if number is not None:
        return number
    text = _LOGGED.sub(r"\1-\2-\3T\4:\5:\6", text)
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text)
    with contextlib.suppress(ValueError):
        return datetime.combine(date.min, time.fromisoformat(text))
    return None


def _kind(moment: float | datetime | None) -> str:
    """Return what a time is, in words."""
    if isinstance(moment, datetime):
        day = "" if moment.year > 1 else " of day"
        return f"a time{day} in ISO 8601, {moment.tzinfo or 'without a zone'}"
    return "" if moment is None else "a number"


def _has_numbers(line: str) -> bool:
    """Say whether the line begins with numbers alone."""
    fields = re.split(r"[;,\s]+", line[:1000])
    return all(not field or to_power(field) is not None for field in fields)
