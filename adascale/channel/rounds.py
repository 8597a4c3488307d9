"""The rounds of a measured trace, which are numbered, or follow from times that several clocks may have taken."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.checks import BoolArray, FloatArray
from adascale.errors import InvalidFile
from adascale.tables import Table, error_at
from adascale.text import short

IntArray = NDArray[np.int64]

_RECORD = [("value", float), ("link", int), ("when", float), ("line", int)]
_FARTHEST = 0.25  # largest distance of a time from the middle of its round, in rounds


class Rounds(NamedTuple):
    """The values of a trace, shape (T, M), NaN where one is missing, and their lines, 0 where there is none."""

    path: str
    links: list[str]
    """The names of the links."""
    values: FloatArray
    lines: IntArray

    def error(self, t: int, m: int, message: str) -> InvalidFile:
        """Return an error that names the file and the line of a value."""
        return error_at(self.path, int(self.lines[t, m]), message)

    def text(self, t: int, m: int) -> str:
        """Describe a value in a message by its link, and by its round if it has no line."""
        value = self.values[t, m]
        text = "no value" if np.isnan(value) else f"{value:.15g}"
        where = "" if self.lines[t, m] else f" in round {t} (the first is 0)"
        return f"{text} in {self.links[m]}{where}"

    def require(self, good: BoolArray, expected: str) -> None:
        """Raise an error for the first value that is not good."""
        for t, m in np.argwhere(~good)[:1].tolist():
            raise self.error(t, m, f"expected {expected}, got {self.text(t, m)}")

    def note(self, where: BoolArray, message: str) -> list[str]:
        """Return a note on the first of these values, if there is one."""
        return [
            str(self.error(t, m, f"{self.text(t, m)}: {message}"))
            for t, m in np.argwhere(where)[:1].tolist()
        ]


class Entries(NamedTuple):
    """The values of a trace one by one."""

    path: str
    links: list[str]
    """The names of the links."""
    rows: Any
    """A record array: ``value``, number of its ``link``, ``when`` it was measured, and ``line``."""
    is_time: bool
    """Whether ``when`` is a time, not the number of a round."""


def wide_entries(table: Table, by_time: bool) -> Entries:
    """Return the values of a table with a row per round; ``by_time`` prefers times to numbers of rounds."""
    size, width = table.values.shape
    is_time = "time" in table.places and (by_time or "round" not in table.places)
    when = table.places.get("time" if is_time else "round", np.arange(size))
    rows = _records(
        table.values.ravel(),
        np.tile(np.arange(width), size),
        np.repeat(when, width),
        np.repeat(table.lines, width),
    )
    return Entries(table.path, table.names, rows, is_time)


def long_entries(table: Table, names: Iterable[str], num_devices: int) -> Entries:
    """Return the values of a table with a row per value, which has the number of its link among ``names``."""
    links = sorted(names, key=natural_key)
    if len(links) != num_devices:
        got = f"got {len(links)}: {short(', '.join(links))}"
        raise table.error(-1, f"expected {num_devices} links, {got}")
    value, number, when = table.values.T
    link = np.array([links.index(name) for name in names])[number.astype(int)]
    # in the order of the file for each link, where its clock must increase
    by_link = np.argsort(link, kind="stable")
    again = (np.diff(when[by_link]) <= 0) & (np.diff(link[by_link]) == 0)
    clock = table.names[2]
    for i in by_link[1:][again][:1].tolist():
        expected = f"expected {links[link[i]]} after its last {clock}"
        raise table.error(i, f"{expected}, got {when[i]:.15g}")
    links = [f"link {short(name)}" for name in links]
    rows = _records(value, link, when, table.lines)
    return Entries(table.path, links, rows, clock == "time")


def in_rounds(entries: Entries, round_time: float | None) -> Rounds:
    """Return the values by round and link; with a ``round_time``, rounds follow from the times."""
    path, links, rows, is_time = entries
    number: FloatArray
    if round_time is not None:
        if not is_time:
            raise error_at(path, 0, "round_time needs a column time")
        rows = rows[~np.isnan(rows.value)]
        number = _by_round_time(path, rows, round_time)
    elif is_time:
        number = np.unique(rows.when, return_inverse=True)[1].astype(float)
    else:
        number = rows.when - rows.when.min()
    most = check.MOST_ENTRIES // len(links)
    for i in np.flatnonzero(~((number % 1 == 0) & (number < most)))[:1].tolist():
        expected = f"expected a round that is whole and at most {most} from the first"
        raise error_at(path, rows.line[i], f"{expected}, got {rows.when[i]:.15g}")
    place = number.astype(int), rows.link
    shape = int(number.max(initial=0)) + 1, len(links)
    values, lines = np.full(shape, np.nan), np.zeros(shape, dtype=int)
    values[place], lines[place] = rows.value, rows.line
    line = lines[place]  # of the last value in the place of each
    for i in np.flatnonzero(line != rows.line)[:1].tolist():
        second = f"a second value of {links[rows.link[i]]} in one round"
        raise error_at(path, int(line[i]), second)
    return Rounds(path, links, values, lines)


def _records(*columns: Any) -> Any:
    """Return the ``rows`` of :class:`Entries`."""
    return np.rec.fromarrays(columns, dtype=_RECORD)


def _by_round_time(path: str, rows: Any, interval: float) -> FloatArray:
    """Return the numbers, from 0, of the rounds that hold the times of these rows."""
    with np.errstate(all="ignore"):
        # times in units of a round; as angles on a circle of one round, their mean is the middle of a round
        turns = (rows.when - rows.when.min(initial=math.inf)) / interval
        middle = np.angle(np.exp(2j * np.pi * turns).sum()) / (2 * np.pi)
        number = np.rint(turns - middle)
        off = np.abs(turns - middle - number)
    for i in np.flatnonzero(off > _FARTHEST)[:1].tolist():
        message = f"the time {rows.when[i]:.15g} is not near the middle of a round of {interval:g}"
        raise error_at(path, rows.line[i], message)
    return number - number.min(initial=math.inf)


def natural_key(name: str) -> tuple[str, int, str]:
    """Return a key by which a2 is before a10."""
    return name.rstrip("0123456789"), len(name), name
