"""The rounds of a measured trace: rows that are counted, or times, which several clocks may have taken."""

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

MOST_GAPS = 0.1
"""Share of the values that may be missing, and half of that of one link's."""
_RECORD = [("value", float), ("link", int), ("when", float), ("line", int)]
_FARTHEST = 0.25  # of a time from the middle of its round, in rounds


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
        """Name a value, its link, and its round if it has no line."""
        value = self.values[t, m]
        text = "no value" if np.isnan(value) else f"{value:.15g}"
        where = "" if self.lines[t, m] else f" in round {t} (the first is 0)"
        return f"{text} in {self.links[m]}{where}"

    def require(self, good: BoolArray, expected: str, more: str = "") -> None:
        """Raise an error for the first value that is not good."""
        for t, m in np.argwhere(~good)[:1].tolist():
            got = f"expected {expected}, got {self.text(t, m)}{more}"
            raise self.error(t, m, got)

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

    def error(self, i: int, message: str) -> InvalidFile:
        """Return an error that names the file and the line of a value."""
        return error_at(self.path, int(self.rows.line[i]), message)


def wide_entries(table: Table, by_time: bool) -> Entries:
    """Return the values of a table with a row per round; ``by_time`` prefers times to an index."""
    size, width = table.values.shape
    when: FloatArray = np.arange(size, dtype=float)
    is_time = False
    index = table.places.get("index")
    if "round" in table.places:
        when = table.places["round"]
    elif index is not None and not (index % 1).any() and not by_time:
        when = index
    elif "time" in table.places:
        when, is_time = table.places["time"], True
    link = np.tile(np.arange(width), size)
    rows = _records(
        table.values.ravel(),
        link,
        np.repeat(when, width),
        np.repeat(table.lines, width),
    )
    return Entries(table.path, table.names, rows, is_time)


def long_entries(table: Table, names: Iterable[str], num_devices: int) -> Entries:
    """Return the values of a table with a row per value; ``names`` are those of the links, by their numbers."""
    links = sorted(names, key=lambda name: natural_key(name.casefold()))
    listed = short(", ".join(links))
    if len(links) != num_devices:
        expected = f"expected {num_devices} links, got {len(links)}"
        raise table.error(-1, f"{expected}: {listed}")
    if len({"".join(name.split()).casefold() for name in links}) < num_devices:
        raise table.error(-1, f"links differ in case or blanks alone: {listed}")
    value, number, when = table.values.T
    link = np.array([links.index(name) for name in names])[number.astype(int)]
    last = dict[int, float]()
    for i, (m, now) in enumerate(zip(link.tolist(), when.tolist(), strict=True)):
        if now <= last.get(m, -math.inf):
            expected = f"{links[m]} after its last {table.names[2]}"
            raise table.error(i, f"expected {expected}, got {now:.15g}")
        last[m] = now
    rows = _records(value, link, when, table.lines)
    links = [f"link {short(name)}" for name in links]
    return Entries(table.path, links, rows, table.names[2] == "time")


def in_rounds(entries: Entries, round_time: float | None) -> Rounds:
    """Return the values by round and link."""
    rows = entries.rows
    if round_time is not None:
        if not entries.is_time:
            expected = "round_time needs a column time, and no column round"
            raise error_at(entries.path, 0, expected)
        entries = entries._replace(rows=rows[~np.isnan(rows.value)])
        return _by_number(entries, _by_round_time(entries, round_time))
    if not entries.is_time:
        return _by_number(entries, rows.when - rows.when.min())
    times, number = np.unique(rows.when, return_inverse=True)
    rounds = _by_number(entries, number.astype(float))
    _check_clocks(rounds, times)
    return rounds


def _records(*columns: Any) -> Any:
    return np.rec.fromarrays(columns, dtype=_RECORD)


def _by_number(entries: Entries, number: FloatArray) -> Rounds:
    """Return the values by link and number of their round."""
    path, links, rows, _ = entries
    most = check.MOST_ENTRIES // len(links)
    for i in np.flatnonzero(~((number % 1 == 0) & (number < most)))[:1].tolist():
        expected = f"expected a round that is whole and at most {most} from the first"
        raise entries.error(i, f"{expected}, got {rows.when[i]:.15g}")
    place = number.astype(int), rows.link
    shape = int(number.max(initial=0)) + 1, len(links)
    values, lines = np.full(shape, np.nan), np.zeros(shape, dtype=int)
    values[place], lines[place] = rows.value, rows.line
    for i in np.flatnonzero(lines[place] != rows.line)[:1].tolist():
        raise entries.error(i, f"a second value of {links[rows.link[i]]} in one round")
    return Rounds(path, links, values, lines)


def _by_round_time(entries: Entries, interval: float) -> FloatArray:
    """Return the numbers, from 0, of the rounds that hold these times."""
    when = entries.rows.when
    with np.errstate(all="ignore"):
        # in rounds; the mean angle of all times finds where the middle of a round is
        turns = (when - when.min(initial=math.inf)) / interval
        middle = np.angle(np.exp(2j * np.pi * turns).sum()) / (2 * np.pi)
        number = np.rint(turns - middle)
        off = np.abs(turns - middle - number)
    for i in np.flatnonzero(off > _FARTHEST)[:1].tolist():
        away = f"is {off[i] * interval:.3g} from the middle of its round"
        message = f"the time {when[i]:.15g} {away}, and so in none of {interval:g}"
        raise entries.error(i, message)
    return number - number.min(initial=math.inf)


def _check_clocks(rounds: Rounds, times: FloatArray) -> None:
    """Refuse times that are close to each other and of different links, as those of different clocks are."""
    present = ~np.isnan(rounds.values)
    somewhere = present.any(axis=1)
    present, times = present[somewhere], times[somewhere]
    steps = np.concatenate([np.diff(times[measured]) for measured in present.T])
    usual = np.median(steps) if steps.size else math.inf
    differ = ~(present[1:] & present[:-1]).any(axis=1)
    apart = np.diff(times)[differ]
    if (apart < usual / 2).any():
        message = f"values {apart.min():.3g} apart in time are of different links, whose clocks may differ"
        advice = "give the time of a round (--round-time), or number the rounds in a column round"
        raise error_at(rounds.path, 0, f"{message}; {advice}")


def too_many(share: FloatArray, most: float) -> str:
    """Say what there is too much of if these shares of the values of every link are missing, "" if nothing."""
    named = f"missing, more than max_gaps = {most:g}"
    if share.mean() > most:
        return f"{share.mean():.3g} of the values are {named}"
    if share.max() > 2 * most:
        return f"{share.max():.3g} of the values of a link are {named} twice"
    return ""


def natural_key(name: str) -> tuple[str, int, str]:
    """Return a key by which a2 is before a10."""
    return name.rstrip("0123456789"), len(name), name
