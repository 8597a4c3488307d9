"""Read tables of text strictly: a header and rows of numbers, and errors that name file and line."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.errors import InvalidFile

FloatArray = NDArray[np.float64]
Choice = tuple[list[str], Callable[[str], float]]
"""The columns to read, in this order, and the function that turns each of their fields into a number."""

_PLACES = ("round", "time")
_INDEX = ("", "index", "unnamed: 0")  # names of a first column that pandas or R wrote as an index


class Row(NamedTuple):
    """One row of a table."""

    values: list[float]
    """The number in each chosen column."""
    fields: list[str]
    """Their text."""
    round: float | None
    """The number in its column ``round``, if there is one."""


class Table(NamedTuple):
    """The chosen columns of a table."""

    values: FloatArray
    """One row per row of the file, and one column per chosen column."""
    names: list[str]
    """The chosen columns."""
    place: Callable[[int, int], tuple[str, str]]
    """From a row and a column of ``values``: the file and line of that value, and its text with its column."""
    unended: str | None = None
    """A note on the last row, if its line has no line break, as when a file was cut off."""

    def column(self, name: str, good: Callable[[FloatArray], NDArray[np.bool_]], expected: str) -> FloatArray:
        """Return a column; a ``ValueError`` with file and line unless all its entries are ``good``."""
        m = self.names.index(name)
        bad = ~good(self.values[:, m])
        if bad.any():
            where, got = self.place(int(bad.argmax()), m)
            raise ValueError(f"{where}: expected a number that is {expected}, got {got}")
        return self.values[:, m]


class Lines:
    """A table that is read line by line.

    Its fields are separated by ``;``, tabs, ``,`` or blanks, whichever comes first in this list and is in the header.
    Lines that begin with ``#`` are comments; the last one before a row of numbers is the header if there is no other,
    as ``numpy.savetxt`` writes it.

    Parameters
    ----------
    name : str
        The name of the table in errors.
    choose : callable
        Returns the :data:`Choice` for the names in the header other than ``round``, ``time`` and an index, or raises a
        ``ValueError``.
    again : bool
        Whether a row may be sent again, so that the order of rounds cannot be checked here.
    """

    def __init__(self, name: str, choose: Callable[[list[str]], Choice], again: bool = False) -> None:
        self.name, self.again, self.number = name, again, 0
        self.columns: list[str] = []
        """The chosen columns, once the header was read."""
        self.header: list[str] = []
        """All columns."""
        self._choose, self._comment = choose, (0, "")
        self._last: dict[int, float] = {}
        self._now: dict[int, float] = {}

    def read(self, line: bytes) -> Row | None:
        """Return the row in the next line; None for a header or a comment.  Call :meth:`keep` to accept the row."""
        self.number += 1
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise self.error("not UTF-8 text; save the table as UTF-8") from None
        bare = text.strip()
        if bare.startswith("#"):
            if not self.columns:
                self._comment = self.number, bare.lstrip("#")
            return None
        if not self.columns:
            if not bare:
                return None
            if not (self._comment[0] and all(map(_is_number, re.split(r"[;,\s]+", bare[:1000])))):
                self._begin(self.number, text)
                return None
            self._begin(*self._comment)
        if not bare:
            raise self.error("blank; a value may be missing here")
        return self._row(text)

    def keep(self) -> None:
        """Accept the row that was read last: the next one has to follow it."""
        self._last = self._now

    def error(self, message: str, number: int | None = None) -> InvalidFile:
        """Return an error that names the table and the line."""
        number = number or self.number
        return InvalidFile(f"{self.name}, line {number}: {message}", self.name, number)

    def split(self, line: str) -> list[str]:
        """Return the fields of a line."""
        if '"' not in line and self._separator != " ":
            return line.split(self._separator)
        try:
            fields = csv.reader([line.strip(" ")], delimiter=self._separator, skipinitialspace=True, strict=True)
            return next(fields)
        except csv.Error as error:
            raise self.error(f"{error}") from None

    def _begin(self, number: int, header: str) -> None:
        """Find the columns in the header."""
        self._separator = next((sign for sign in ";\t, " if sign in header.strip(" ")), ",")
        names = [name.strip().casefold() for name in self.split(header)]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise self.error(f"duplicate column {short(twice[0])}", number)
        places = {i: name for i, name in enumerate(names) if name in _PLACES or (i == 0 and name in _INDEX)}
        try:
            columns, self._convert = self._choose([name for i, name in enumerate(names) if i not in places])
        except ValueError as error:
            raise self.error(f"{error}, and beside them round, time or an index at most", number) from None
        self._chosen, self._places = [names.index(name) for name in columns], places
        self.columns, self.header = columns, names

    def _row(self, line: str) -> Row:
        row, width = self.split(line), len(self.header)
        if len(row) != width:
            hint = "; a comma cannot be the decimal sign, write a point" if "," in line and len(row) > width else ""
            raise self.error(f"expected {width} field{'s' * (width > 1)}, got {len(row)}{hint}")
        fields = [row[i] for i in self._chosen]
        try:
            values = [self._convert(field) for field in fields]
        except ValueError:
            i = next(i for i in self._chosen if not _reads(self._convert, row[i]))
            hint = "; write a decimal point, and nothing between thousands" if "," in row[i] else ""
            raise self.error(f"expected a number, got {short(row[i])} in {self.header[i]}{hint}") from None
        placed = {i for i, name in self._places.items() if name == "round" or _reads(to_number, row[i])}
        self._now = {i: self._follow(i, self._places[i], row[i]) for i in placed}
        rounds = [now for i, now in self._now.items() if self._places[i] == "round"]
        return Row(values, fields, rounds[0] if rounds else None)

    def _follow(self, i: int, name: str, field: str) -> float:
        """Return the round, time or index of a row, which has to follow that of the row before."""
        now, last = to_number(field) if _reads(to_number, field) else math.nan, self._last.get(i)
        if last is None or (self.again and name == "round"):
            good, expected = math.isfinite(now), "a number"
        elif name == "round":
            good, expected = now == last + 1, f"{last + 1:g}"
        else:
            good, expected = now > last or (self.again and now == last), f"> {last:g}"
        if not good:
            raise self.error(f"rounds must be in order: expected {name or 'an index'} {expected}, got {short(field)}")
        return now


def read_table(data: bytes, path: str, choose: Callable[[list[str]], Choice]) -> Table:
    """Read the content of a file; see :class:`Lines`.  Blank lines are skipped if there are two columns or more."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    reader, values, numbers, blank = Lines(path, choose), array("d"), array("q"), 0
    for line in lines:
        if not line.strip():
            reader.number += 1
            blank = reader.number if reader.columns else 0
        elif row := reader.read(line):
            if blank and len(reader.header) == 1:
                raise reader.error("blank; a value may be missing here", blank)
            values.extend(row.values)
            numbers.append(reader.number)
            reader.keep()
    if not numbers:
        raise InvalidFile(f"{path} {'has no rows' if reader.columns else 'is empty'}; expected a header and rows", path)

    def fields(t: int) -> list[str]:
        return reader.split(lines[numbers[t] - 1].decode())

    def place(t: int, m: int) -> tuple[str, str]:
        name = reader.columns[m]
        return f"{path}, line {numbers[t]}", f"{short(fields(t)[reader.header.index(name)])} in {name}"

    unended = None
    if numbers[-1] == len(lines):
        end = f"{short(fields(-1)[-1])} in {reader.header[-1]}"
        unended = f"{path}, line {numbers[-1]}: no line break at its end, as when a file is cut off; it ends with {end}"
    return Table(np.frombuffer(values).reshape(len(numbers), -1), reader.columns, place, unended)


def known(
    *required: str, optional: tuple[str, ...] = (), ignored: tuple[str, ...] = ()
) -> Callable[[list[str]], Choice]:
    """Return what :class:`Lines` takes for tables of fixed columns."""

    def choose(names: list[str]) -> Choice:
        listed = ", ".join((*required, *optional, *ignored))
        if unknown := [name for name in names if name not in (*required, *optional, *ignored)]:
            raise ValueError(f"unknown column {short(unknown[0])}; expected {listed}")
        if missing := [name for name in required if name not in names]:
            raise ValueError(f"no column {missing[0]}, got {short(','.join(names))}; expected {listed}")
        return [name for name in (*required, *optional) if name in names], to_number

    return choose


def to_number(field: str) -> float:
    """Return a field as a number: in ASCII, and without the signs that Python allows between digits."""
    if "_" in field or not field.isascii():
        raise ValueError(field)
    return float(field)


def to_power(field: str) -> float:
    """Return the squared norm of a complex number."""
    bare = re.sub(r" *([+-]) *", r"\1", field.strip())
    if "_" in bare or not bare.isascii():
        raise ValueError(field)
    value = complex(bare.replace("i", "j"))
    return value.real * value.real + value.imag * value.imag


def short(field: str) -> str:
    """Return a field as a message shows it."""
    return repr(field if len(field) <= 100 else f"{field[:80]}...")


def _reads(convert: Callable[[str], float], field: str) -> bool:
    try:
        convert(field)
    except ValueError:
        return False
    return True


def _is_number(field: str) -> bool:
    return not field or _reads(to_power, field)
