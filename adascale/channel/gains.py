"""Readers of measured channel gains: a whole trace from a file, or line by line."""

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from adascale import checks as check
from adascale.channel.arrays import is_array, read_array
from adascale.channel.reading import DECIBELS, Reading
from adascale.channel.rounds import (
    Rounds,
    in_rounds,
    long_entries,
    natural_key,
    too_many,
    wide_entries,
)
from adascale.checks import FloatArray
from adascale.errors import InvalidInput
from adascale.scenario import Scenario
from adascale.tables import (
    Choice,
    Clock,
    Lines,
    error_at,
    read_table,
)
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


def read_gains(
    path: str | os.PathLike[str],
    scenario: Scenario,
    unit: str | Reading = "linear",
    split: float | None = None,
) -> Trace:
    r"""Read a channel trace from a table of UTF-8 text, or an array in a ``.npy``, ``.npz``, ``.mat`` or HDF5 file.

    An array has shape (T, M) or (M, T), of which the number of devices tells; others need ``Reading.axes``.  Complex
    numbers are :math:`h_{m,t}`.  HDF5 files, with MATLAB's of version 7.3, need the package h5py.

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
    reading = Reading(unit) if isinstance(unit, str) else unit
    data = Path(path).read_bytes()
    devices, links = scenario.num_devices, dict[str, int]()
    if is_array(data):
        _refuse(str(path), "a table", "columns", reading.columns)
        table = read_array(data, str(path), scenario, reading)
    else:
        _refuse(str(path), "an array file", "axes", reading.axes)
        _refuse(str(path), "an array file", "variable", reading.variable)
        choose = _columns(devices, reading, links)
        table = read_table(data, str(path), choose, sparse=True, wanted=reading.wanted)
    if links:
        entries = long_entries(table, links, devices)
    else:
        entries = wide_entries(table, by_time=reading.round_time is not None)
    rounds = in_rounds(entries, reading.round_time)
    num_rounds = len(rounds.values)
    start = 0
    if split is not None:
        start = math.ceil(check.fraction("split", split) * num_rounds - 1e-9)
    if start == num_rounds:
        got = f"got {split:g} of {start} rounds in {path}"
        raise InvalidInput(f"split must leave a round, {got}", "split")
    missing = np.isnan(rounds.values)
    if start:
        _check_gaps(rounds, missing[:start].mean(axis=0), reading)
    _check_gaps(rounds, missing[start:].mean(axis=0), reading, start)
    values = _filled(rounds, reading)
    gains = _linear_gains(rounds, values, scenario, reading)
    past = _trace(gains[:start], rounds, scenario) if start else None
    unended = [table.unended] if table.unended else []
    notes = (*_notes(rounds, gains, reading), *unended)
    return _trace(gains[start:], rounds, scenario)._replace(notes=notes, past=past)


def _refuse(path: str, kind: str, name: str, value: str | None) -> None:
    """Refuse an option of another kind of file."""
    if value is not None:
        raise error_at(
            path, 0, f"{name} = {short(value)} is for {kind}, which this is not"
        )


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
        self._scenario = scenario
        self._reading = Reading(unit) if isinstance(unit, str) else unit
        self.each_device = each_device
        """Whether the gains of all devices are needed, so that ``min_gain`` is refused."""
        self._before: FloatArray | None = None
        self._lost: FloatArray | float = 0.0
        self._last: dict[str, float] = {}
        devices = scenario.num_devices
        choose = _columns(devices, self._reading, each_device=each_device)
        super().__init__(name, choose, self._reading.wanted)

    def trace(self, line: bytes) -> Trace | None:
        """Read one line: None for a comment or the header; a row refused with ``InvalidFile`` can be sent again."""
        values = self.read(line)
        if values is None:
            return None
        for name, place in self.place.items():
            if name != "round" and place < self._last.get(name, -math.inf):
                raise self.error(
                    f"rounds must be in order: expected a later {name or 'index'}"
                )
        row = np.array([values])
        lines = np.full(row.shape, self.number)
        rounds = Rounds(self.name, self.columns, row, lines)
        lost = self._lost + np.isnan(values)
        _check_gaps(rounds, lost / self._scenario.num_rounds, self._reading)
        filled = _filled(rounds, self._reading, self._before)
        gains = _linear_gains(rounds, filled, self._scenario, self._reading)
        self._before, self._lost, self._last = filled, lost, self.place
        notes = (*_notes(rounds, gains, self._reading),)
        return _trace(gains, rounds, self._scenario)._replace(notes=notes)


def _check_gaps(
    rounds: Rounds, share: FloatArray, reading: Reading, first: int = 0
) -> None:
    """Check that few values are missing from a round on, given their share for each link."""
    much = too_many(share, reading.most_gaps)
    if much:
        missing = np.isnan(rounds.values[first:])
        m = int(np.where(missing.any(axis=0), share, 0).argmax())
        t = first + int(missing[:, m].argmax())
        raise rounds.error(t, m, f"expected a value, got {rounds.text(t, m)}; {much}")


def _filled(
    rounds: Rounds, reading: Reading, before: FloatArray | None = None
) -> FloatArray:
    """Return the values without gaps; the row before is ``before``."""
    values, ways = rounds.values, "--gaps floor or hold replaces missing values"
    if reading.sensitivity is not None:
        least = reading.sensitivity ** (2 if reading.unit == "csi" else 1)
        is_loss = reading.unit == "loss"
        is_weaker = values > least if is_loss else values < least
        bound = "most" if is_loss else "least"
        expected = f"a value of at {bound} the sensitivity {reading.sensitivity:g}"
        empty = "; if it stands for no value, leave it empty"
        rounds.require(~is_weaker, expected, empty)
        values = np.where(np.isnan(values), least, values)
    elif reading.gaps == "hold":
        ways = "there is no earlier one"
        row = np.full(values.shape[1], np.nan) if before is None else before[-1]
        values = values.copy()
        for t, value in enumerate(values):
            row = values[t] = np.where(np.isnan(value), row, value)
    rounds.require(~np.isnan(values), "a value", f"; {ways}")
    return values


def _linear_gains(
    rounds: Rounds, values: FloatArray, scenario: Scenario, reading: Reading
) -> FloatArray:
    """Return the values as linear gains, in the range that the scenario can have."""
    gains, sent = values, reading.sent
    with np.errstate(over="ignore"):
        if reading.unit in DECIBELS:
            gain = -values if reading.unit == "loss" else values - sent
            gains = 10 ** (gain / 10)
        scaled = gains
        if rounds.links != ["min_gain"]:
            scaled = gains * scenario.power_share / scenario.batch_second_moment
    in_db = " (a gain in dB needs the unit db)" * (reading.unit == "linear")
    positive = (gains > 0) & np.isfinite(gains)
    rounds.require(positive, f"a gain that is finite and > 0{in_db}")
    if reading.unit == "dbm":
        possible = (gains < 1) & (values != 0)
        rounds.require(possible, f"not 0, and less than {sent:g} dBm")
    unit = scenario.noise_power / np.max(scenario.max_power)
    low, high = 1e-20 * unit, 1e20 * unit
    rounds.require(
        (scaled >= low) & (scaled <= high),
        f"a linear gain, no loss, in {low:.1g} ... {high:.1g} (SNR of +-200 dB)",
    )
    return gains


def _trace(gains: FloatArray, rounds: Rounds, scenario: Scenario) -> Trace:
    """Return the trace of linear gains, with a row per round."""
    if rounds.links == ["min_gain"]:
        return Trace(gains[:, 0], None)
    gain = np.ascontiguousarray(gains.T)
    mean = gain.mean(axis=1) * scenario.power_share / scenario.batch_second_moment
    return Trace(scenario.min_gain(gain), mean, gain=gain)


def _notes(rounds: Rounds, gains: FloatArray, reading: Reading) -> list[str]:
    """Return notes on missing values, and on numbers that look like those of another unit or quantity."""
    sent, missing = reading.transmit_power, np.isnan(rounds.values)
    notes = rounds.note(
        gains > 1,
        "more power received than sent; gains in dB need the unit db, and path losses are their inverse",
    )
    lost = f"{missing.sum()} of {missing.size} values are missing"
    filler = (
        "the last value of the link" if reading.gaps == "hold" else "the sensitivity"
    )
    notes += rounds.note(missing, f"{lost}, and {filler} replaces each")
    if sent is not None and (0 < sent < 1 or sent > 60):
        power = f"{sent:g} dBm, which is {10 ** (sent / 10):.3g} mW"
        notes.append(f"transmit_power is {power}; were watts or mW meant?")
    heard = np.where(missing, np.inf, gains)
    least = heard.min(axis=0)
    lowest = heard == least
    above = np.where(lowest, np.inf, heard).min(axis=0)
    often = lowest.sum(axis=0) > 2
    notes += rounds.note(
        lowest & often & np.isfinite(above) & (above > 10 * least),
        "several times, and 10 dB below all others of its link; if it stands for no value, leave it empty",
    )
    return notes


def _columns(
    num_devices: int,
    reading: Reading,
    links: dict[str, int] | None = None,
    each_device: bool = False,
) -> Callable[[list[str]], Choice]:
    """Return the choice of columns; ``links``, if given, gets the names in the long form, in their order."""
    unit = reading.unit

    def choose(names: list[str]) -> Choice:
        is_complex = unit == "csi" or (unit == "linear" and "h_1" in names)
        value = partial(_to_value, to_power if is_complex else to_number)
        clock = _clock_of_long_form(names)
        if clock and links is not None:
            number = lambda name: links.setdefault(name.strip(), len(links))  # noqa: E731
            return {"value": value, "link": number, clock: Clock()}
        alone = names == ["min_gain"] and unit in ("linear", "db")
        if alone and not each_device:
            return {"min_gain": value}
        columns = _columns_of_devices(names, num_devices, unit, is_complex)
        return dict.fromkeys(columns, value)

    return choose


def _clock_of_long_form(names: list[str]) -> str | None:
    """Return what the values of the long form have, round or time, or None if these names have another form."""
    for clock in ("round", "time"):
        if {*names} == {"link", "value", clock}:
            return clock
    return None


def _columns_of_devices(
    names: list[str], num_devices: int, unit: str, is_complex: bool
) -> list[str]:
    """Return the column of each device."""
    stem = "h_" if is_complex else "h2_"
    columns = [f"{stem}{m + 1}" for m in range(num_devices)]
    is_free = unit in DECIBELS and len(names) == num_devices and "h_1" not in names
    if is_free and {*names} != {*columns} and all(map(_is_name, names)):
        columns = sorted(names, key=natural_key)
    if {*columns} != {*names}:
        raise ValueError(_expected_columns(names, num_devices, unit))
    return columns


def _expected_columns(names: list[str], num_devices: int, unit: str) -> str:
    """Say which columns there may be."""
    kinds = {
        "linear": "min_gain or h2_1 to h2_M or complex h_1 to h_M",
        "db": "min_gain, or M columns of devices",
        "loss": "M columns of devices",
        "csi": "complex h_1 to h_M",
        "dbm": "M columns of devices",
    }[unit]
    got = f"got {len(names)} columns, {short(','.join(names))}, in the unit {unit}"
    rows = f"or link, value and round, with M = {num_devices} names that are no numbers (--columns chooses)"
    return f"{got}; expected {kinds}, {rows}"


def _to_value(convert: Callable[[str], float | None], field: str) -> float | None:
    """Return the number in a field, NaN where it is missing, or None."""
    return math.nan if field.strip().lower() in _MISSING else convert(field)


def _is_name(name: str) -> bool:
    """Say whether a column of received powers may have this name."""
    return name not in ("", "min_gain") and to_number(name) is None
