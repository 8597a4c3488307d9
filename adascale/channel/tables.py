"""What a file of gains holds: a table of text, or an array of NumPy's, with the place of every value in it."""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from array import array
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_NUMPY = b"\x93NUMPY"  # what a .npy file begins with
_INDEX = ("", "index", "unnamed: 0")  # an index in the first place, as pandas writes it, and calls it when read again


class Table(NamedTuple):
    """Gains as they stand in a file."""

    values: NDArray[np.float64]
    """A row a round, shape (T, M) or (T, 1)."""
    minimum: bool
    """Whether its one column is the bottleneck."""
    squared: bool
    """Whether they are the squared norms of complex coefficients."""
    place: Callable[[int, int], tuple[str, str]]
    """From a row and a column of ``values``: where that value stands, and how it reads there."""


def read_table(data: bytes, path: str, num_devices: int) -> Table:
    """The gains in the content of a file, which goes by ``path`` in errors; see :func:`adascale.channel.read_gains`."""
    if data.startswith(_NUMPY):
        return _array(data, path, num_devices)
    return _Text(data, path, num_devices).table()


# NumPy's files -------------------------------------------------------------------------------------------------------


def _array(data: bytes, path: str, num_devices: int) -> Table:
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a header that has to be guessed at
            held: NDArray[Any] = np.load(stream, allow_pickle=False)
    except Exception as error:  # NumPy has many ways to say so
        raise ValueError(f"{path} is no .npy file of numbers: {_short(' '.join(str(error).split()))}") from None
    if stream.tell() != len(data):
        raise ValueError(f"{path} has {len(data) - stream.tell()} bytes behind its array")
    if held.dtype.kind not in "iufc":
        raise ValueError(f"{path}: expected an array of numbers, got {_short(str(held.dtype))}")
    if held.ndim not in (1, 2) or (held.ndim == 2 and held.shape[1] != num_devices) or not held.size:
        hint = "; transpose it" if held.ndim == 2 and held.shape[0] == num_devices else ""
        raise ValueError(f"{path}: expected an array of shape (T,) or (T, {num_devices}), a row a round, got shape "
                         f"{held.shape}{hint}")  # fmt: skip
    squared, minimum = held.dtype.kind == "c", held.ndim == 1
    if squared and minimum:
        raise ValueError(f"{path}: complex coefficients need a column a device, shape (T, {num_devices}), got shape "
                         f"{held.shape}")  # fmt: skip
    rows = held[:, None] if minimum else held
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        real, imag = rows.real.astype(np.float64), rows.imag.astype(np.float64)
        values = real**2 + imag**2 if squared else real
    return Table(values, minimum, squared, lambda t, m: (f"{path}, row {t}", f"{rows[t, m]} in column {m}"))


# Tables of text ------------------------------------------------------------------------------------------------------


class _Columns:
    """What the header of a table says: where its columns are, and how a line of it is read."""

    def __init__(self, heading: int, line: str, path: str, num_devices: int) -> None:
        self.path = path
        if line.lstrip().startswith("#"):
            line = line.lstrip().lstrip("#")
        found = [sign for sign in ";\t," if sign in line]
        self.separator = found[0] if found else None if len(line.split()) > 1 else ","
        self.names = [name.strip().casefold() for name in self.split(heading, line)]
        self.find_columns(heading, num_devices)
        self.convert = _power if self.squared else float

    def error(self, number: int, message: str) -> ValueError:
        return ValueError(f"{self.path}, line {number}: {message}")

    def find_columns(self, heading: int, num_devices: int) -> None:
        """What the names in the header stand for."""
        if len({*self.names}) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if name in self.names[:i])
            raise self.error(heading, f"column {_short(twice)} stands twice")
        self.places = {i: name for i, name in enumerate(self.names)
                       if name in ("round", "time") or (i == 0 and name in _INDEX)}  # fmt: skip
        gains = {name: i for i, name in enumerate(self.names) if i not in self.places}
        numbered = {name: re.fullmatch("(h2?)_([1-9][0-9]{0,11})", name) for name in gains}
        device = {int(match[2]): gains[name] for name, match in numbered.items() if match}
        kinds = {match[1] for match in numbered.values() if match}
        self.minimum, self.squared = [*gains] == ["min_gain"], kinds == {"h"}
        complete = len(kinds) == 1 and len(gains) == len(device) == max(device) == num_devices
        if not self.minimum and not complete:
            unknown = [name for name, match in numbered.items() if not match and name != "min_gain"]
            got = f"column {_short(unknown[0])}" if unknown else f"columns {_short(','.join(gains))}"
            raise self.error(heading, f"got {got}; expected min_gain, or h2_1 to h2_{num_devices}, or complex h_1 to "
                             f"h_{num_devices}, and beside them round, time or an index at most")  # fmt: skip
        self.columns = [gains["min_gain"]] if self.minimum else [device[m] for m in sorted(device)]

    def split(self, number: int, line: str) -> list[str]:
        """The fields of a line."""
        if '"' not in line:
            return line.split(self.separator)
        if self.separator is None:
            return [field.strip('"') for field in line.split()]
        try:
            return next(csv.reader([line], delimiter=self.separator, skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise self.error(number, f"{error}") from None

    def row(self, number: int, line: str) -> list[str]:
        """The fields of a line, as many as the header has."""
        row, width = self.split(number, line), len(self.names)
        if len(row) != width:
            hint = "; is the comma the decimal sign? then separate columns by ';'" if len(row) == 2 * width else ""
            raise self.error(number, f"expected {width} field{'s' * (width > 1)}, got {len(row)}{hint}")
        return row

    def numbers(self, number: int, row: list[str], comma: bool) -> list[float] | None:
        """The values of a row; None where the decimal sign turns out to be a comma."""
        convert = self.convert
        try:
            values = [convert(_with_point(row[i]) if comma else row[i]) for i in self.columns]
            wrong = [i for i in self.columns if "_" in row[i]]  # Python would read 1_0 as 10
        except ValueError:
            wrong = [i for i in self.columns if not _reads(convert, row[i], comma)]
        if not wrong:
            return values
        if not comma and self.separator != "," and "," in row[wrong[0]]:
            return None
        how = " with a decimal comma, as the other lines" if comma else ""
        raise self.error(number, f"expected a number{how}, got {_short(row[wrong[0]])} in {self.names[wrong[0]]}")

    def check_order(self, number: int, row: list[str], before: dict[int, float], again: bool = False) -> None:
        """Rounds follow each other; an index and times rise where they are numbers, or stay where a row comes again."""
        for i, name in self.places.items():
            if name != "round" and not _reads(float, row[i]):
                continue
            now = float(row[i]) if _reads(float, row[i]) else math.nan
            last = before.get(i, now - 1)
            if not (now == last + 1 if name == "round" else now > last or (again and now == last)):
                expected = "a number" if i not in before else f"{last + 1:g}" if name == "round" else f"> {last:g}"
                raise self.error(number, f"rounds must be in order: expected {name or 'an index'} {expected}, got "
                                 f"{_short(row[i])}")  # fmt: skip
            before[i] = now


class _Text(_Columns):
    """A table of text: what stands in its columns."""

    def __init__(self, data: bytes, path: str, num_devices: int) -> None:
        self.path = path
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(data[: error.start].count(b"\n") + 1, "neither UTF-8 text nor a .npy file") from None
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        heading, self.start = _find_header(self.lines, path)
        super().__init__(heading, self.lines[heading - 1], path, num_devices)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The number of every line that is a row, and its fields."""
        blank = 0
        for number, line in enumerate(self.lines[self.start :], start=self.start + 1):
            if not line or line.isspace():
                blank = number
                continue
            if line.lstrip().startswith("#"):
                continue
            row = self.row(number, line)
            if blank and len(row) == 1:
                raise self.error(blank, "blank; in a trace of one column that may be a missing gain")
            yield number, row

    def table(self) -> Table:
        """The values, a row a round."""
        values, numbers = self.read()
        if not numbers:
            raise ValueError(f"{self.path} has no rows; expected one a round")

        def place(t: int, m: int) -> tuple[str, str]:
            i = self.columns[m]
            field = self.split(numbers[t], self.lines[numbers[t] - 1])[i]
            return f"{self.path}, line {numbers[t]}", f"{_short(field)} in {self.names[i]}"

        return Table(np.frombuffer(values).reshape(len(numbers), -1), self.minimum, self.squared, place)

    def read(self, comma: bool = False) -> tuple[array[float], array[int]]:
        """The values and the numbers of their lines; all again where the decimal sign turns out to be a comma."""
        values, numbers = array("d"), array("q")
        before: dict[int, float] = {}
        for number, row in self.rows():
            found = self.numbers(number, row, comma)
            if found is None:
                return self.read(comma=True)
            values.extend(found)
            numbers.append(number)
            if self.places:
                self.check_order(number, row, before)
        return values, numbers


class Lines:
    """A table of text that comes line by line: each is read, or refused, before the next one is there.

    Parameters
    ----------
    path : str
        What errors call it.
    num_devices : int
        M.
    """

    def __init__(self, path: str, num_devices: int) -> None:
        self.path, self.num_devices = path, num_devices
        self.columns: _Columns | None = None
        self._head: list[str] = []
        self._count = 0
        self._sign = ""  # the decimal sign, once it was seen
        self._before: dict[int, float] = {}
        self._read: tuple[dict[int, float], str] = {}, ""

    def keep(self) -> None:
        """The row that was read last has come: the next one is in order behind it."""
        self._before, self._sign = self._read

    def read(self, data: bytes) -> tuple[Table, float | None] | None:
        """The gains in a line, as a table of one row, and what its column ``round`` says; None of a header or comment.

        A row that is not followed by :meth:`keep` has not come.
        """
        self._count += 1
        number = self._count
        try:
            line = data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ValueError(f"{self.path}, line {number}: no UTF-8 text") from None
        if self.columns is None:
            self._head.append(line)
            if not line.strip() or line.lstrip().startswith("#"):
                return None
            heading, before_rows = _find_header(self._head, self.path)
            self.columns = _Columns(heading, self._head[heading - 1], self.path, self.num_devices)
            if before_rows == number:
                return None
        if line.lstrip().startswith("#"):
            return None
        return self._row(self.columns, number, line)

    def _row(self, columns: _Columns, number: int, line: str) -> tuple[Table, float | None]:
        if not line.strip():
            raise columns.error(number, "blank; that may be a missing gain")
        row = columns.row(number, line)
        values = columns.numbers(number, row, self._sign == ",")
        sign = self._sign
        if values is None:
            values = None if sign else columns.numbers(number, row, comma=True)
            sign = ","
        if values is None:
            i = next(i for i in columns.columns if "," in row[i])
            raise columns.error(number, f"expected a number with a decimal point, as the other lines, got "
                                f"{_short(row[i])} in {columns.names[i]}")  # fmt: skip
        if any("." in row[i] for i in columns.columns):
            sign = "."
        rounds = [i for i, name in columns.places.items() if name == "round"]
        order = dict(self._before)
        columns.check_order(number, row, order, again=True)  # of a round, whether it is a number
        order = {i: last for i, last in order.items() if i not in rounds}
        self._read = order, sign

        def place(t: int, m: int) -> tuple[str, str]:
            i = columns.columns[m]
            return f"{self.path}, line {number}", f"{_short(row[i])} in {columns.names[i]}"

        found = Table(np.array([values]), columns.minimum, columns.squared, place)
        return found, float(row[rounds[0]]) if rounds else None


def _find_header(lines: list[str], path: str) -> tuple[int, int]:
    """The number of the header's line, and how many lines come before the rows."""
    comment = 0
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("#"):
            comment = number
        elif line.strip():
            has_no_header = all(_is_number(field) for field in re.split(r"[;,\s]+", line.strip()[:1000]))
            return (comment, number - 1) if comment and has_no_header else (number, number)
    raise ValueError(f"{path} is empty; expected a header and one row a round")


def _short(field: str) -> str:
    """A field for a message."""
    return repr(field if len(field) <= 100 else f"{field[:80]}...")


def _reads(convert: Callable[[str], float], field: str, comma: bool = False) -> bool:
    try:
        convert(_with_point(field) if comma else field)
    except ValueError:
        return False
    return True


def _is_number(field: str) -> bool:
    return not field or _reads(_power, field)


def _with_point(field: str) -> str:
    if "." in field:
        raise ValueError("a point where the decimal sign is a comma")
    return field.replace(",", ".")


def _power(field: str) -> float:
    """The squared norm of a complex number."""
    value = complex(field.replace(" ", "").replace("i", "j"))
    return value.real * value.real + value.imag * value.imag
