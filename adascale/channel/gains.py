"""Readers of measured channel gains: a whole trace from a file, or line by line."""

import io
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from adascale import checks as check
from adascale.channel.rounds import (
    MOST_GAPS,
    Whole,
    in_rounds,
    note_late_rounds,
    too_many,
)
from adascale.errors import InvalidFile, InvalidInput
from adascale.scenario import Scenario
from adascale.tables import Choice, Clock, FloatArray, Lines, Table, read_table
from adascale.text import short, to_number, to_power

_MISSING = ("", "-", "na", "nan", "none")


class Trace(NamedTuple):
    """A channel trace."""

    min_gain: FloatArray
    r""":math:`h_{\min,t}^2` of every round, shape (T,)."""
    mean_gain: FloatArray | None
    """Mean of :math:`|h_{m,t}|^2 / k_m^2` times :attr:`~adascale.scenario.Scenario.power_share`, shape (M,)."""
    notes: tuple[str, ...] = ()
    """Notes on what is read but may be meant otherwise, and on missing values."""
    past: "Trace | None" = None
    """The rounds before the ``split``."""
    gain: FloatArray | None = None
    r"""Linear gains :math:`|h_{m,t}|^2` of all devices, shape (M, T); None if the trace has ``min_gain`` alone."""


@dataclass(frozen=True)
class Reading:
    r"""The unit of a trace, and what replaces its missing values: an empty field, ``nan``, ``na``, ``none`` or ``-``.

    Parameters
    ----------
    unit : {"linear", "db", "dbm", "csi"}
        :math:`|h|^2`, linear or in dB; received power in dBm; or complex :math:`h`.
    transmit_power : float, in dBm, for "dbm" alone
    gaps : {"refuse", "hold", "floor"}
        A missing value is an error, the last value of its link, or the sensitivity.
    sensitivity : float, the least value that can be measured (with "csi" :math:`|h|`), for "floor" alone
    max_gaps : float in [0, 1), default 0.1, for "hold" and "floor" alone
        Largest share of the values that may be missing; of those of one link, twice this share.  Both parts of a trace
        that is split must meet it; line by line, the rounds are those of the scenario.
    round_time : float > 0, in the unit of the column ``time``, in seconds for times in ISO 8601
        Round k holds the times within a quarter of ``round_time`` of t + k ``round_time``, with t the circular mean of
        all times.  A time that is in no round, and a second value of a link in a round, are errors.
    """

    unit: str = "linear"
    transmit_power: float | None = None
    gaps: str = "refuse"
    sensitivity: float | None = None
    max_gaps: float | None = None
    round_time: float | None = None

    def __post_init__(self) -> None:
        check.one_of("unit", self.unit, "linear", "db", "dbm", "csi")
        check.one_of("gaps", self.gaps, "refuse", "hold", "floor")
        for name, option, only in (
            ("transmit_power", "unit", "dbm"),
            ("sensitivity", "gaps", "floor"),
        ):
            if (getattr(self, name) is not None) != (getattr(self, option) == only):
                raise InvalidInput(
                    f"{name} must be given if and only if {option} is {only}", name
                )
            check.number(name, getattr(self, name) or 0.0, -math.inf)
        if (
            self.sensitivity is not None
            and self.sensitivity <= 0
            and self.unit in ("linear", "csi")
        ):
            raise InvalidInput(
                f"sensitivity must be > 0 ({self.unit}), got {self.sensitivity}",
                "sensitivity",
            )
        if self.max_gaps is not None and self.gaps == "refuse":
            raise InvalidInput(
                "max_gaps must be given only if gaps is hold or floor", "max_gaps"
            )
        check.between("max_gaps", self.most_gaps, 0, np.nextafter(1, 0))
        check.positive(
            "round_time", 1.0 if self.round_time is None else self.round_time
        )

    @property
    def most_gaps(self) -> float:
        """Largest share of the values that may be missing."""
        return MOST_GAPS if self.max_gaps is None else self.max_gaps


def read_gains(
    path: str | os.PathLike[str],
    scenario: Scenario,
    unit: str | Reading = "linear",
    split: float | None = None,
) -> Trace:
    r"""Read a channel trace from a table of UTF-8 text, or an array (M, T) in a ``.npy`` file.

    A table has a header and one row per round, separated by commas, semicolons, tabs or blanks.  Its columns are
    ``min_gain`` (:math:`h_{\min,t}^2`), or ``h2_1`` ... ``h2_M`` (:math:`|h_{m,t}|^2`), or ``h_1`` ... ``h_M`` (complex
    :math:`h_{m,t}`, such as ``0.1+0.2j``), or in dBm M columns of any names.  Columns ``round``, ``time`` and a first
    column without a name are optional and must increase; times are numbers, or ISO 8601 in one zone.  A number of
    ``round``, or a whole number of the first column, that is left out is a round without values.  Lines that begin with
    ``#`` are comments; the last one before the numbers may be the header.  The long form has one row per value, with
    the columns ``link``, ``value``, and ``round`` or ``time``, which increase for each link; each time is a round, as
    is each number from the first to the last.  Links whose clocks differ need ``Reading.round_time``.  Links
    with names are sorted by these, with a2 before a10.

    Parameters
    ----------
    path : path-like
    scenario : Scenario
    unit : Reading, or its unit
    split : float, in (0, 1), the share of the rounds, rounded up, that are the past

    Raises
    ------
    InvalidFile
        If the file has another format, or a gain is missing or not finite and positive.
    """
    how, data = (
        Reading(unit) if isinstance(unit, str) else unit,
        Path(path).read_bytes(),
    )
    if data.startswith(b"\x93NUMPY"):
        table = _read_array(data, str(path), scenario.num_devices, how.unit)
    else:
        links: dict[str, int] = {}
        table = read_table(
            data, str(path), _columns(scenario.num_devices, how, links), sparse=True
        )
        table = _from_links(table, links, scenario.num_devices) if links else table
    table = in_rounds(table, how.round_time)
    rounds = len(table.values)
    start = (
        0
        if split is None
        else math.ceil(check.fraction("split", split) * rounds - 1e-9)
    )
    if start == rounds:
        raise InvalidInput(
            f"split must leave a round, got {split:g} of {start} rounds in {path}",
            "split",
        )
    for part in filter(len, np.split(np.arange(rounds), [start])):
        _check_gaps(table, how, part)
    return _trace(table, _filled(table, how), scenario, how, start)


class GainLines(Lines):
    """A channel trace that arrives line by line: a table with a row per round, as for :func:`read_gains`."""

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        unit: str | Reading = "linear",
        *,
        each_device: bool = False,
    ):
        self._scenario, self._reading = (
            scenario,
            Reading(unit) if isinstance(unit, str) else unit,
        )
        self.each_device = each_device
        """Whether the gains of all devices are needed, so that ``min_gain`` is refused."""
        self._before: FloatArray | None = None
        self._lost = np.zeros((1, 1))
        super().__init__(
            name,
            _columns(scenario.num_devices, self._reading, each_device=each_device),
            again=True,
        )

    def trace(self, line: bytes) -> Trace | None:
        """Read one line: None for a comment or the header; a row refused with ``InvalidFile`` can be sent again."""
        if (values := self.read(line)) is None:
            return None
        place = self.columns, self.name, np.array([self.number])
        table = Table(
            np.array([values]),
            *place,
            lambda _, m: f"{short(self.fields[m])} in {self.columns[m]}",
        )
        value = _filled(table, self._reading, self._before)
        missing = np.isnan(table.values)
        lost = self._lost + missing
        if self._reading.gaps != "refuse" and missing.any():
            much = too_many(lost / self._scenario.num_rounds, self._reading.most_gaps)
            if much:
                m = int(np.where(missing, lost, 0).argmax())
                said = f"expected a value, got {table.text(0, m)}; {much} of the rounds of the scenario"
                raise table.error(0, said, m)
        trace = _trace(table, value, self._scenario, self._reading)
        self._before, self._lost = value, lost
        self.keep()
        return trace


def _check_gaps(table: Table, reading: Reading, part: Whole) -> None:
    """Check that few of the values in these rounds are missing."""
    lost = np.isnan(table.values[part])
    share = lost.mean(axis=0)
    if much := too_many(share, reading.most_gaps):
        m = int(share.argmax())
        t = int(part[lost[:, m].argmax()])
        whole = (
            ""
            if len(part) == len(table.values)
            else f" in the rounds {part[0]} to {part[-1]}"
        )
        raise table.error(
            t, f"expected a value, got {table.text(t, m)}; {much}{whole}", m
        )


def _filled(
    table: Table, reading: Reading, last: FloatArray | None = None
) -> FloatArray:
    """Return the values without gaps; the row before is ``last``."""
    value, ways = table.values, "the gaps hold and floor replace missing values"
    if reading.sensitivity is not None:
        least = reading.sensitivity * (
            reading.sensitivity if reading.unit == "csi" else 1
        )
        for t, m in np.argwhere(value < least)[:1].tolist():
            below = f"{table.text(t, m)} is below the sensitivity {reading.sensitivity}"
            raise table.error(
                t, f"{below}; if it stands for no value, leave it empty", m
            )
        value = np.where(np.isnan(value), least, value)
    elif reading.gaps == "hold":
        before, ways = (
            np.full_like(value[:1], np.nan) if last is None else last,
            "there is no earlier one",
        )
        value = np.vstack([before, value])
        measured = np.where(np.isnan(value), 0, np.arange(len(value))[:, None])
        value = np.take_along_axis(value, np.maximum.accumulate(measured), axis=0)[1:]
    for t, m in np.argwhere(np.isnan(value))[:1].tolist():
        raise table.error(t, f"expected a value, got {table.text(t, m)}; {ways}", m)
    return value


def _trace(
    table: Table,
    value: FloatArray,
    scenario: Scenario,
    reading: Reading,
    start: int = 0,
) -> Trace:
    """Return the trace from round ``start`` on, with its past."""
    is_min = table.names == ["min_gain"]
    low, high = (
        snr * scenario.noise_power / np.max(scenario.max_power) for snr in (1e-20, 1e20)
    )
    share, moment = (
        (1.0, 1.0) if is_min else (scenario.power_share, scenario.batch_second_moment)
    )
    with np.errstate(over="ignore", under="ignore"):
        gains = (
            10 ** ((value - (reading.transmit_power or 0.0)) / 10)
            if reading.unit in ("db", "dbm")
            else value
        )
        scaled = gains * share / moment
    in_db = " (a gain in dB needs the unit db)" * (reading.unit == "linear")
    for good, expected in (
        ((gains > 0) & np.isfinite(gains), f"a gain that is finite and > 0{in_db}"),
        (
            (gains < 1) & (value != 0) | (reading.unit != "dbm"),
            f"not 0, and less than {reading.transmit_power} dBm",
        ),
        (
            (scaled >= low) & (scaled <= high),
            f"a linear gain, no loss, in {low:.1g} ... {high:.1g} (SNR of +-200 dB)",
        ),
    ):
        for t, m in np.argwhere(~good)[:1].tolist():
            raise table.error(t, f"expected {expected}, got {table.text(t, m)}", m)
    above = "more power received than sent; gains in dB need the unit db, and path losses are their inverse"
    notes = [
        f"{table.error(t, table.text(t, m), m)}: {above}"
        for t, m in np.argwhere(gains > 1)[:1].tolist()
    ]
    lost = np.argwhere(np.isnan(table.values))
    replaced = (
        f"{len(lost)} of {value.size} values are missing, and replaced: {reading.gaps}"
    )
    notes += [
        f"{table.error(t, table.text(t, m), m)}: {replaced}"
        for t, m in lost[:1].tolist()
    ]
    notes += _doubts(table, gains, reading)
    *past, trace = (
        Trace(part[0], None)
        if is_min
        else Trace(
            scenario.min_gain(part), part.mean(axis=-1) * share / moment, gain=part
        )
        for part in np.split(
            np.ascontiguousarray(gains.T), [start] if start else [], axis=1
        )
    )
    return trace._replace(
        notes=(*notes, *filter(None, [table.unended])), past=past[0] if past else None
    )


def _columns(
    num_devices: int,
    reading: Reading,
    links: dict[str, int] | None = None,
    each_device: bool = False,
) -> Callable[[list[str]], Choice]:
    """Return the choice of columns; ``links``, if given, gets the names in the long form, in their order."""

    def choose(names: list[str]) -> Choice:
        unit, others = reading.unit, dict[str, Callable[[str], float | None]]()
        convert = (
            to_power
            if unit == "csi" or (unit == "linear" and "h_1" in names)
            else to_number
        )
        columns = [
            f"h{'_' if convert is to_power else '2_'}{m + 1}"
            for m in range(num_devices)
        ]
        if links is not None and sorted(names) in (
            ["link", "round", "value"],
            ["link", "time", "value"],
        ):
            columns, others = (
                ["value"],
                {
                    "link": lambda name: float(
                        links.setdefault(name.strip(), len(links))
                    )
                },
            )
            others |= {"time": Clock()} if "time" in names else {"round": to_number}
        elif names == ["min_gain"] and unit in ("linear", "db") and not each_device:
            columns = names
        elif (
            unit == "dbm"
            and len(names) == num_devices
            and all(each and to_number(each) is None for each in names)
        ):
            columns = sorted(names, key=_natural)
        if {*columns, *others} != {*names} or (unit == "dbm" and "min_gain" in names):
            kinds = "h2_1 to h2_M (linear, db), complex h_1 to h_M (linear, csi), M columns (dbm)"
            kinds = ("" if each_device else "min_gain or ") + kinds
            kinds += f", or link, value and round, with M = {num_devices}"
            raise ValueError(
                f"got {short(','.join(names))} in the unit {unit}; expected {kinds}"
            )
        return (
            dict.fromkeys(
                columns,
                lambda x: math.nan if x.strip().lower() in _MISSING else convert(x),
            )
            | others
        )

    return choose


def _natural(name: str) -> tuple[str, int, str]:
    """Return a key by which a2 is before a10."""
    return name.rstrip("0123456789"), len(name), name


def _doubts(table: Table, gains: FloatArray, reading: Reading) -> list[str]:
    """Return notes on numbers that look like those of another unit or quantity."""
    sent, lost, notes = reading.transmit_power, np.isnan(table.values), []
    if sent is not None and (0 < sent < 1 or sent > 60):
        notes += [
            f"transmit_power is {sent:g} dBm, which is {10 ** (sent / 10):.3g} mW; were watts or mW meant?"
        ]
    if reading.unit == "dbm" and any("rsrp" in name for name in table.names):
        less = "transmit_power must be that of one, 10 log10(12 N) dB less than that of N resource blocks"
        notes += [f"{table.path}: RSRP is the power of one resource element; {less}"]
    heard = np.where(lost, np.inf, gains)
    least = heard.min(axis=0)
    if (
        reading.gaps == "floor"
        and lost.any()
        and (apart := least.min() / gains[lost].min()) > 100
    ):
        far = f"the least value is {10 * np.log10(apart):.0f} dB above the sensitivity {reading.sensitivity:g}"
        notes += [f"{table.path}: {far}; the lower it is, the smaller is epsilon"]
    stands = heard == least
    above = np.where(stands, np.inf, heard).min(axis=0)
    for m in np.flatnonzero(
        (stands.sum(axis=0) > 2) & np.isfinite(above) & (above > 10 * least)
    )[:1].tolist():
        t, often = (
            int(stands[:, m].argmax()),
            f"{stands[:, m].sum()} times, and 10 dB below all others of its link",
        )
        notes += [
            f"{table.error(t, table.text(t, m), m)}: {often}; if it stands for no value, leave it empty"
        ]
    return notes + note_late_rounds(table)


def _from_links(table: Table, links: dict[str, int], num_devices: int) -> Table:
    """Return the long form as a table with a row per round or time, and a column per link."""
    name, order = (
        table.names[2],
        sorted(links, key=lambda link: _natural(link.casefold())),
    )
    plain = ["".join(link.split()).casefold() for link in order]
    if same := [
        link for link, bare in zip(order, plain, strict=True) if plain.count(bare) > 1
    ]:
        raise table.error(
            -1, f"links differ in case or blanks alone: {short(', '.join(same))}"
        )
    if len(links) != num_devices:
        raise table.error(
            -1,
            f"expected {num_devices} links, got {len(links)}: {short(', '.join(links))}",
        )
    when = table.column(name, np.isfinite, "finite")
    device = np.argsort([links[link] for link in order])[table.values[:, 1].astype(int)]
    by = np.argsort(device, kind="stable")
    for i in by[1:][(np.diff(device[by]) == 0) & (np.diff(when[by]) <= 0)][:1].tolist():
        raise table.error(
            i,
            f"expected {table.text(i, 1)} after its last {name}, got {table.text(i, 2)}",
        )
    times, number = np.unique(when, return_inverse=True)
    if len(times) > check.MOST_ENTRIES // num_devices:
        raise table.error(
            -1,
            f"expected at most {check.MOST_ENTRIES // num_devices} times, got {len(times)}",
        )
    row = np.full((len(times), num_devices), -1)
    row[number, device] = np.arange(len(when))

    def text(t: int, m: int) -> str:
        absent = (
            f"none of link {short(order[m])} beside {table.text(int(row[t].max()), 2)}"
        )
        return table.text(int(row[t, m]), 0) if row[t, m] >= 0 else absent

    values, lines = (
        np.append(table.values[:, 0], np.nan)[row],
        np.append(table.lines, 0)[row],
    )
    names = [f"link {short(link)}" for link in order]
    return Table(values, names, table.path, lines, text, table.unended, {name: times})


def _read_array(data: bytes, path: str, num_devices: int, unit: str) -> Table:
    try:
        array = np.load(stream := io.BytesIO(data), allow_pickle=False)
        left, kinds = (
            len(data) - stream.tell(),
            {"linear": "iufc", "csi": "c"}.get(unit, "iuf"),
        )
        if (
            left
            or array.dtype.kind not in kinds
            or array.ndim != 2
            or len(array) != num_devices
            or not array.size
        ):
            raise ValueError(
                f"{array.dtype} of shape {array.shape} and {left} bytes after it"
            )
        rows = array.T.astype(complex if array.dtype.kind == "c" else float)
    except Exception as error:  # NumPy raises many different errors
        expected = f"numbers ({unit}) of shape ({num_devices}, T)"
        raise InvalidFile(
            f"{path}: expected {expected}, got {short(' '.join(str(error).split()))}",
            path,
        ) from None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = rows.real**2 + rows.imag**2 if rows.dtype.kind == "c" else rows
    lines = np.zeros(len(rows), dtype=int)
    return Table(
        values,
        ["value"],
        path,
        lines,
        lambda t, m: f"{rows[t, m]} of device {m + 1} in round {t}",
    )
