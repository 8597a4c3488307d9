"""Strict reading of tables of numbers, with errors that name file and line."""

import csv
import math
import re
from array import array
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.checks import BoolArray, FloatArray
from adascale.errors import InvalidFile
from adascale.text import short, to_number

Choice = dict[str, Callable[[str], float | None]]
"""The columns to read, in this order, with functions that convert a field to a number or None."""

Choose = Callable[[list[str]], Choice]
"""A function of the names in a header that returns the columns to read, or raises a ``ValueError``."""

_LOGGED = re.compile(r"(\d{4})[./](\d\d)[./](\d\d)[_ T](\d\d)[.:](\d\d)[.:](\d\d)")
"""A time such as 2024.05.01_12.30.00, as loggers on phones write it."""


class Table(NamedTuple):
    """The chosen columns of a table, and the line of each row, 0 if there is none."""

    values: FloatArray
    names: list[str]
    path: str
    lines: NDArray[np.int64]
    unended: str | None = None
    """A note on the last row if its line has no line break."""
    places: dict[str, FloatArray] = {}  # noqa: RUF012  # never changed
    """The columns ``round`` and ``time``, which say where in time a row is, as far as there are any."""

    def error(self, t: int, message: str) -> InvalidFile:
        """Return an error that names the file and the line of row ``t``."""
        return error_at(self.path, int(self.lines[t]), message)

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
    """A converter of numbers, as they are, or of times in ISO 8601 to seconds; all must be of the kind of the first."""

    def __init__(self) -> None:
        self._kind = ""

    def __call__(self, field: str) -> float | None:
        """Return a finite number, or None."""
        value = to_number(field)
        kind = "number"
        if value is None:
            try:
                time = datetime.fromisoformat(_LOGGED.sub(r"\1-\2-\3T\4:\5:\6", field))
            except ValueError:
                return None
            kind = "time of a zone" if time.tzinfo else "time without a zone"
            value = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        self._kind = self._kind or kind
        return value if kind == self._kind and math.isfinite(value) else None


class Lines:
    """A reader of tables, line by line.

    Fields are separated by ``;``, tabs, ``,`` or blanks, and comments begin with ``#``.

    Parameters
    ----------
    name : str, of the table in errors
    choose
        Maps the names in the header, without ``round`` and ``time``, to a :data:`Choice`.  In a table with a column
        ``link``, rounds and times are columns like others.
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
        """The chosen columns, once the header is read; until then empty."""
        self.names: list[str | None] = []
        """All columns, None for one that is ignored."""
        self.place: dict[str, float] = {}
        """The round and time of the last row, as far as there are such columns."""
        self._choose, self._wanted = choose, wanted

    def read(self, line: bytes) -> list[float] | None:
        """Return the numbers of the chosen columns in the next line, None for a header or comment."""
        self.number += 1
        try:
            text = line.decode("utf-8-sig").strip("\r\n ")
        except UnicodeDecodeError:
            raise self.error("not UTF-8 text; save the table as UTF-8") from None
        is_of_excel = re.fullmatch("sep=.", text)
        if is_of_excel or text.startswith("#"):
            return None
        if self.columns:
            return self._row(text)
        if text:
            self._begin(text)
        return None

    def error(self, message: str) -> InvalidFile:
        """Return an error that names the table and the line."""
        return error_at(self.name, self.number, message)

    def _split(self, line: str) -> list[str]:
        """Return the fields of a line."""
        rows = csv.reader(
            [line], delimiter=self._separator, skipinitialspace=True, strict=True
        )
        try:
            return next(rows)
        except csv.Error as error:
            raise self.error(f"{error}") from None

    def _begin(self, header: str) -> None:
        """Read the header, which also decides what separates fields: the first of ``;``, tab, ``,`` and blank in it."""
        signs = (sign for sign in ";\t, " if sign in header)
        self._separator = next(signs, ",")
        self.names = self._roles([n.strip().casefold() for n in self._split(header)])
        read = [name for name in self.names if name is not None]
        if len({*read}) < len(read):
            raise self.error(f"duplicate column in {short(header)}")
        places = [] if "link" in read else [p for p in ("round", "time") if p in read]
        try:
            choice = self._choose([name for name in read if name not in places])
        except ValueError as error:
            raise self.error(f"{error}") from None
        converters: Choice = {"round": _to_finite, "time": Clock()}
        self._convert = choice | {name: converters[name] for name in places}
        self._places = places
        self.columns = list(choice)

    def _roles(self, names: list[str]) -> list[str | None]:
        """Return what each column of the header is called here, None for one that is ignored."""
        if self._wanted is not None:
            for name in self._wanted:
                if names.count(name) != 1:
                    got = f"got {names.count(name)} in {short(', '.join(names))}"
                    raise self.error(f"expected one column {short(name)}, {got}")
            return [self._wanted.get(name) for name in names]
        roles: list[str | None] = [*names]
        if names[0] == "":  # an index, which counts the rounds if nothing else does
            roles[0] = None if {"round", "link"} & {*names} else "round"
        return roles

    def _row(self, line: str) -> list[float]:
        """Return the numbers of a row."""
        if not line:
            raise self.error("blank; a value may be missing here")
        row = self._split(line)
        if len(row) != len(self.names):
            raise self.error(f"expected fields: {len(self.names)}, got {len(row)}")
        values: dict[str | None, float] = {}
        for name, field in zip(self.names, row, strict=True):
            if name in self._convert:
                value = self._convert[name](field)
                if value is None:
                    kind = "number or time" if name == "time" else "number"
                    raise self.error(f"expected a {kind}, got {short(field)} in {name}")
                values[name] = value
        self.place = {name: values[name] for name in self._places}
        return [values[name] for name in self.columns]


def read_table(
    data: bytes,
    path: str,
    choose: Choose,
    sparse: bool = False,
    wanted: dict[str, str] | None = None,
) -> Table:
    """Read the content of a file as :class:`Lines`, skipping blank lines if there are two columns or more.

    Rounds and times must increase, and rounds by one unless the table is ``sparse``.
    """
    reader = Lines(path, choose, wanted)
    values, line_numbers = array("d"), array("q")
    for line in re.split(b"\r\n|\r|\n", data.rstrip(b" \r\n")):
        if not line.strip(b" ") and len(reader.names) != 1:
            reader.number += 1
            continue
        row = reader.read(line)
        if row is not None:
            values.extend(row)
            values.extend(reader.place.values())
            line_numbers.append(reader.number)
    if not line_numbers:
        lacks = "has no rows" if reader.columns else "is empty"
        raise InvalidFile(f"{path} {lacks}; expected a header and rows", path)
    both = np.frombuffer(values).reshape(len(line_numbers), -1)
    rows, places = np.split(both, [len(reader.columns)], axis=1)
    unended = None
    if not data.endswith((b"\r", b"\n")):
        unended = f"{path} has no line break at its end, like a truncated file"
    by_name = dict(zip(reader.place, places.T, strict=True))
    table = Table(rows, reader.columns, path, np.array(line_numbers), unended, by_name)
    for name, place in by_name.items():
        step = np.diff(place)
        by_one = name == "round" and not sparse
        is_wrong = step != 1 if by_one else ~(step > 0)
        if is_wrong.any():
            t = int(is_wrong.argmax())
            before, after = place[t : t + 2]
            expected = f"expected the {name} after {before:.15g}, got {after:.15g}"
            raise table.error(t + 1, f"rounds must be in order: {expected}")
    return table


def _to_finite(field: str) -> float | None:
    """Return a field as a finite number, or None."""
    value = to_number(field)
    return value if value is not None and math.isfinite(value) else None


def error_at(path: str, line: int, message: str) -> InvalidFile:
    """Return an error that names the file and, unless it is 0, the line."""
    where = f"{path}, line {line}" if line else path
    return InvalidFile(f"{where}: {message}", path, line or None)
