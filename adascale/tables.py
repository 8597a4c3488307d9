"""Strict reading of tables of numbers, with errors that name file and line."""

import csv
import math
import re
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.errors import InvalidFile
from adascale.text import short, to_number, to_power

FloatArray = NDArray[np.float64]
Choice = dict[str, Callable[[str], float | None]]
"""The columns to read, in this order, with functions that convert a field to a number or None."""

_INDEX = ("", "index", "unnamed: 0")  # names of a first column that pandas or R wrote as the index


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

    def error(self, t: int, message: str, m: int = 0) -> InvalidFile:
        """Return an error that names the file and the line of row ``t``, or of an entry."""
        line = int(self.lines[t] if self.lines.ndim == 1 else self.lines[t, m])
        return InvalidFile(f"{self.path}{f', line {line}' * bool(line)}: {message}", self.path, line or None)

    def column(self, name: str, good: Callable[[FloatArray], NDArray[np.bool_]], expected: str) -> FloatArray:
        """Return a column, or raise an error unless all its entries are ``good``."""
        m = self.names.index(name)
        bad = ~good(self.values[:, m])
        if bad.any():
            t = int(bad.argmax())
            raise self.error(t, f"expected a number that is {expected}, got {self.text(t, m)}")
        return self.values[:, m]


class Lines:
    """A table read line by line: fields separated by ``;``, tabs, ``,`` or blanks, and comments beginning with ``#``.

    ``choose`` maps the header, without an index, ``round`` and ``time``, to a :data:`Choice`; ``again`` allows repeats.
    In a table with a column ``link``, rounds and times are columns like others.
    """

    def __init__(self, name: str, choose: Callable[[list[str]], Choice], again: bool = False) -> None:
        self.name, self.again, self.number = name, again, 0
        self.columns: list[str] = []
        """The chosen columns, once the header is read; ``header`` has all columns."""
        self.header: list[str] = []
        self.fields: list[str] = []
        """The texts of the chosen columns in the last row."""
        self.place: dict[str, float] = {}
        """The round, time and index of the last row, as far as there are such columns."""
        self._choose, self._comment = choose, (0, "")
        self._last = self.place

    def read(self, line: bytes) -> list[float] | None:
        """Return the numbers in the next line, None for a header or comment; call :meth:`keep` to accept them."""
        self.number += 1
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8").rstrip("\r\n")
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
            return next(csv.reader([line.strip(" ")], delimiter=self._separator, skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise self.error(f"{error}") from None

    def _begin(self, number: int, header: str) -> None:
        self._separator = next((sign for sign in ";\t, " if sign in header.strip(" ")), ",")
        names = [name.strip().casefold() for name in self.split(header)]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise self.error(f"duplicate column {short(twice[0])}", number)
        times = () if "link" in names else ("round", "time")
        self._places = [each for each in names if each in times or (each == names[0] and each in _INDEX)]
        try:
            self._convert = self._choose([name for name in names if name not in self._places])
        except ValueError as error:
            others = "and apart from these at most columns named round, time or index"
            raise self.error(f"{error}, {others}", number) from None
        self.columns, self._chosen = list(self._convert), [names.index(name) for name in self._convert]
        self.header = names

    def _row(self, line: str) -> list[float]:
        row, width = self.split(line), len(self.header)
        if len(row) != width:
            hint = "; a comma cannot be the decimal sign, use a point" if "," in line and len(row) > width else ""
            raise self.error(f"expected {width} field{'s' * (width > 1)}, got {len(row)}{hint}")
        self.fields, values = [row[i] for i in self._chosen], []
        for name, field in zip(self.columns, self.fields, strict=True):
            value = self._convert[name](field)
            if value is None:
                hint = "; use a decimal point, and no separator of thousands" if "," in field else ""
                raise self.error(f"expected a number, got {short(field)} in {name}{hint}")
            values.append(value)
        self.place = {}
        for name in self._places:
            self._follow(name, row[self.header.index(name)])
        return values

    def _follow(self, name: str, field: str) -> None:
        """Check that round, time or index increases from row to row; times need not be numbers."""
        now, last = to_number(field), self._last.get(name)
        if now is None and name != "round":
            return
        self.place[name] = now = math.nan if now is None else now
        if last is None or (self.again and name == "round"):
            good, expected = math.isfinite(now), "a number"
        elif name == "round":
            good, expected = now == last + 1, f"{last + 1:g}"
        else:
            good, expected = now > last or (self.again and now == last), f"> {last:g}"
        if not good:
            raise self.error(f"rounds must be in order: expected {name or 'an index'} {expected}, got {short(field)}")


def read_table(data: bytes, path: str, choose: Callable[[list[str]], Choice]) -> Table:
    """Read the content of a file as :class:`Lines`, skipping blank lines if there are two columns or more."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    reader, values, numbers, blank = Lines(path, choose), array("d"), array("q"), 0
    for line in lines:
        if not line.strip():
            reader.number += 1
            blank = reader.number if reader.columns else 0
        elif row := reader.read(line):
            if blank and len(reader.header) == 1:
                raise reader.error("blank; a value may be missing here", blank)
            values.extend(row)
            numbers.append(reader.number)
            reader.keep()
    if not numbers:
        raise InvalidFile(f"{path} {'has no rows' if reader.columns else 'is empty'}; expected a header and rows", path)

    def text(t: int, m: int) -> str:
        i = reader.header.index(reader.columns[m]) if m >= 0 else m
        return f"{short(reader.split(lines[numbers[t] - 1].decode())[i])} in {reader.header[i]}"

    table = Table(np.frombuffer(values).reshape(len(numbers), -1), reader.columns, path, np.array(numbers), text)
    if numbers[-1] < len(lines):
        return table
    cut = f"no line break at its end, like a truncated file; it ends with {text(-1, -1)}"
    return table._replace(unended=str(table.error(-1, cut)))


def known(
    *required: str, optional: tuple[str, ...] = (), ignored: tuple[str, ...] = ()
) -> Callable[[list[str]], Choice]:
    """Return the ``choose`` of :class:`Lines` for fixed columns."""

    def choose(names: list[str]) -> Choice:
        expected = f"expected {', '.join((*required, *optional, *ignored))}"
        if unknown := [name for name in names if name not in (*required, *optional, *ignored)]:
            raise ValueError(f"unknown column {short(unknown[0])}; {expected}")
        if missing := [name for name in required if name not in names]:
            raise ValueError(f"no column {missing[0]}, got {short(','.join(names))}; {expected}")
        return {name: to_number for name in (*required, *optional) if name in names}

    return choose


def _has_numbers(line: str) -> bool:
    return all(not each or to_power(each) is not None for each in re.split(r"[;,\s]+", line[:1000]))
