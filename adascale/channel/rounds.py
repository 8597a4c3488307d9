"""The rounds of a measured trace: rows that are counted, or times, which several clocks may have taken."""

import math

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.errors import InvalidFile
from adascale.tables import FloatArray, Table

Whole = NDArray[np.int64]

MOST_GAPS = 0.1
"""Share of the values that may be missing, and half of that of one link's."""
_FARTHEST = 0.25  # of a time from the middle of its round, in rounds


def in_rounds(table: Table, round_time: float | None) -> Table:
    """Return a table with a row per round, from rows that have numbers or times."""
    places, width = table.places, table.values.shape[1]
    t, m = np.nonzero(~np.isnan(table.values))
    if round_time is not None:
        if "time" not in places or "round" in places:
            raise InvalidFile(
                f"{table.path}: round_time needs a column time, and no column round",
                table.path,
            )
        number = _nearest(table, places["time"], t, m, round_time)
    elif "round" in places or not (places.get("index", np.array(0.5)) % 1).any():
        t, m = (each.ravel() for each in np.indices(table.values.shape))
        number = _counted(table, places.get("round", places.get("index", np.zeros(1))))[
            t
        ]
    else:
        if "time" in places:
            _check_clocks(table, places["time"], t, m)
        return table
    cell = np.full((int(number.max(initial=0)) + 1, width), -1)
    cell[number, m] = t * width + m

    def text(t: int, m: int) -> str:
        absent = f"none of {table.names[m]} in the round {t} after the first"
        return (
            table.text(*divmod(int(cell[t, m]), width)) if cell[t, m] >= 0 else absent
        )

    lines = np.broadcast_to(
        table.lines.reshape(len(table.values), -1), table.values.shape
    )
    values, lines = np.append(table.values, np.nan)[cell], np.append(lines, 0)[cell]
    return table._replace(values=values, lines=lines, text=text, places={})


def _counted(table: Table, count: FloatArray) -> Whole:
    """Return the numbers of the rounds, from 0."""
    most = check.MOST_ENTRIES // table.values.shape[1]
    for t in np.flatnonzero(~((count % 1 == 0) & (count < count.min() + most)))[
        :1
    ].tolist():
        m = int(np.isnan(table.values[t]).argmin())
        raise table.error(
            t,
            f"expected a round that is whole, and at most {most} from the least, got {count[t]:.15g}",
            m,
        )
    return np.asarray(count - count.min(), dtype=int)


def _nearest(
    table: Table, times: FloatArray, t: Whole, m: Whole, interval: float
) -> Whole:
    """Return the numbers, from 0, of the rounds of these entries."""
    when, most = times[t], check.MOST_ENTRIES // table.values.shape[1]
    if not np.ptp(times) / interval < most:
        over = f"round_time {interval:g} makes more than {most} rounds of times that are {np.ptp(times):g} apart"
        raise InvalidFile(
            f"{table.path}: {over}; both are in the same unit, and ISO 8601 in seconds",
            table.path,
        )
    number, off = _turns(when, interval)
    for i in np.flatnonzero(np.abs(off) > _FARTHEST)[:1].tolist():
        away = f"is {abs(off[i]) * interval:.3g} from the middle of its round, and so in none of {interval:g}"
        raise table.error(
            t[i],
            f"the time of {table.text(t[i], m[i])} {away}; {_advice(when, m)}",
            m[i],
        )
    for i in _twice(number, m)[:1].tolist():
        twice = (
            f"{table.text(t[i], m[i])} is a second value in one round of {interval:g}"
        )
        raise table.error(t[i], f"{twice}; {_advice(when, m)}", m[i])
    return number


def _turns(when: FloatArray, interval: float) -> tuple[Whole, FloatArray]:
    """Return the numbers, from 0, of the nearest rounds, and the distances from their middles, in rounds."""
    turns = (when - when.min(initial=math.inf)) / interval
    middle = np.angle(np.exp(2j * np.pi * turns).sum()) / (2 * np.pi)
    number = np.rint(turns - middle)
    return (number - number.min(initial=math.inf)).astype(int), turns - middle - number


def _twice(number: Whole, m: Whole) -> Whole:
    """Return the entries that are not the first of their round and link."""
    by = np.lexsort((number, m))
    return np.asarray(by[1:][(np.diff(m[by]) == 0) & (np.diff(number[by]) == 0)])


def _steps(when: FloatArray, m: Whole) -> FloatArray:
    """Return the differences of times that follow each other on a link."""
    by = np.lexsort((when, m))
    return np.asarray(np.diff(when[by])[np.diff(m[by]) == 0])


def _advice(when: FloatArray, m: Whole) -> str:
    """Name a round time only if it leaves few gaps, with the spread of the times in a round."""
    step = _steps(when, m)
    own = step.sum() / np.rint(step / np.median(step)).sum() if step.size else 0.0
    for digits in range(1, 8):
        interval = float(f"{own:.{digits}g}")
        if interval > 0 and np.ptp(when) / interval < len(when) / MOST_GAPS:
            number, off = _turns(when, interval)
            share = 1 - np.bincount(m) / (number.max() + 1)
            few = not too_many(share, MOST_GAPS) and not _twice(number, m).size
            if few and np.abs(off).max() <= _FARTHEST:
                return f"in rounds of {interval:g} (round_time) the times of one differ by {np.ptp(off) * interval:.2g}"
    return "no round_time fits these times; number the rounds in a column round"


def _check_clocks(table: Table, times: FloatArray, t: Whole, m: Whole) -> None:
    """Refuse times that are close to each other and of different links, as those of different clocks are."""
    here = ~np.isnan(table.values)
    own = (
        np.median(_steps(times[t], m)) if len(t) > here.any(axis=0).sum() else math.inf
    )
    close = (np.diff(times) < own / 2) & here[:-1].any(axis=1) & here[1:].any(axis=1)
    apart = close & ~(here[:-1] & here[1:]).any(axis=1)
    if apart.any():
        alone = f"{(here.sum(axis=1) == 1).sum()} of {len(times)} times are those of one link alone"
        said = f"values {np.diff(times)[apart].min():.3g} apart in time are of different links, whose clocks may differ"
        raise InvalidFile(
            f"{table.path}: {said} ({alone}); {_advice(times[t], m)}", table.path
        )


def note_late_rounds(table: Table) -> list[str]:
    """Return a note on a round that comes late, if times are regular otherwise."""
    step = np.diff(table.places.get("time", np.zeros(1)))
    usual = float(np.median(step)) if step.size else math.inf
    regular = (np.abs(step - usual) < usual / 4).sum() >= 0.9 * step.size
    said = f"{usual:.3g}, as most do; a round between them is left out unless a round_time makes it a gap"
    late = np.flatnonzero((step > 1.5 * usual) & regular)[:1].tolist()
    return [
        f"{table.path}: round {t + 1} comes {step[t]:.3g} after the one before, not {said}"
        for t in late
    ]


def too_many(share: FloatArray, most: float) -> str:
    """Return what there is too much of if these shares of the values of every link are missing, or nothing."""
    named = f"more than max_gaps = {most:g}"
    if share.mean() > most:
        return f"{share.mean():.3g} of the values are missing, {named}"
    return (
        f"{share.max():.3g} of the values of a link are missing, {named} twice"
        * bool(share.max() > 2 * most)
    )
