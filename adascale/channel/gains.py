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
from adascale.channel.floors import EmpiricalFloors
from adascale.channel.reading import DECIBELS, Reading
from adascale.channel.rounds import (
    Entries,
    Rounds,
    in_rounds,
    long_entries,
    natural_key,
    wide_entries,
)
from adascale.checks import FloatArray
from adascale.errors import InvalidInput
from adascale.scenario import Scenario
from adascale.tables import Choice, Choose, Clock, Lines, error_at, read_table
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

    def floor_law(self, scenario: Scenario, *_: object) -> EmpiricalFloors:
        """Return the distribution of the floors of these rounds, whatever the mean gains."""
        return EmpiricalFloors.of(scenario, self.min_gain)


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
    :math:`h_{m,t}`, such as ``0.1+0.2j``), or in a unit of dB M columns of any names.  Columns ``round`` and ``time``
    are optional and must increase; times are numbers, or ISO 8601 with or without a zone.  A number of ``round`` that
    is left out is a round without values.  A first column without a name is ``round`` if there is no other.  Lines that
    begin with ``#`` are comments.  The long form has one row per value, with the columns ``link``, ``value``, and
    ``round`` or ``time``, which increase for each link; each time is a round, as is each number from the first to the
    last.  Links whose clocks differ need ``Reading.round_time``.  Links are sorted by their names, with a2 before
    a10.

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
    entries, unended = _read_entries(str(path), scenario, reading)
    rounds = in_rounds(entries, reading.round_time)
    num_rounds = len(rounds.values)
    start = 0
    if split is not None:
        # 0.07 of 100 rounds are 7, although 0.07 * 100 is rounded to a little more
        start = math.ceil(check.fraction("split", split) * num_rounds - 1e-9)
    if start == num_rounds:
        got = f"got {split:g} of {start} rounds in {path}"
        raise InvalidInput(f"split must leave a round, {got}", "split")
    values = _filled(rounds, reading)
    missing = np.isnan(rounds.values)
    if start:
        _check_missing(rounds, missing[:start].mean(axis=0), reading)
    _check_missing(rounds, missing[start:].mean(axis=0), reading)
    gains = _linear_gains(rounds, values, scenario, reading)
    past = _trace(gains[:start], rounds, scenario) if start else None
    notes = (*_notes(rounds, gains, reading), *unended)
    return _trace(gains[start:], rounds, scenario)._replace(notes=notes, past=past)


def _read_entries(
    path: str, scenario: Scenario, reading: Reading
) -> tuple[Entries, list[str]]:
    """Return the values of a file one by one, and a note, or none, if it may be truncated."""
    data = Path(path).read_bytes()
    is_table = not is_array(data)
    for name in ("axes", "variable") if is_table else ("columns",):
        if getattr(reading, name) is not None:
            kind = "a table" if is_table else "an array"
            raise InvalidInput(f"{name} is not for {kind}, which {path} is", name)
    links = dict[str, int]()
    if is_table:
        choose = _columns(scenario.num_devices, reading, links)
        table = read_table(data, path, choose, sparse=True, wanted=reading.wanted)
    else:
        table = read_array(data, path, scenario, reading)
    notes = [table.unended] if table.unended else []
    if links:
        return long_entries(table, links, scenario.num_devices), notes
    return wide_entries(table, by_time=reading.round_time is not None), notes


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
        self._time = -math.inf
        devices = scenario.num_devices
        choose = _columns(devices, self._reading, each_device=each_device)
        super().__init__(name, choose, self._reading.wanted)

    def trace(self, line: bytes) -> Trace | None:
        """Read one line: None for a comment or the header; a row refused with ``InvalidFile`` can be sent again."""
        values = self.read(line)
        if values is None:
            return None
        time = self.place.get("time", -math.inf)
        if time < self._time:
            raise self.error("rounds must be in order: expected a later time")
        row = np.array([values])
        lines = np.full(row.shape, self.number)
        rounds = Rounds(self.name, self.columns, row, lines)
        filled = _filled(rounds, self._reading, self._before)
        lost = self._lost + np.isnan(values)
        share = lost / self._scenario.num_rounds
        _check_missing(rounds, share, self._reading, self.number)
        gains = _linear_gains(rounds, filled, self._scenario, self._reading)
        self._before, self._lost, self._time = filled, lost, time
        notes = (*_notes(rounds, gains, self._reading),)
        return _trace(gains, rounds, self._scenario)._replace(notes=notes)


def _check_missing(
    rounds: Rounds, share: FloatArray, reading: Reading, line: int = 0
) -> None:
    """Refuse a trace if too many values are missing; ``share`` of them is missing in each link, shape (M,)."""
    most = reading.max_gaps
    worst = int(share.argmax())
    if share.mean() > most:
        missing = f"{share.mean():.3g} of the values are missing, more than"
    elif share[worst] > 2 * most:
        link = rounds.links[worst]
        missing = (
            f"{share[worst]:.3g} of the values in {link} are missing, more than twice"
        )
    else:
        return
    raise error_at(rounds.path, line, f"{missing} max_gaps = {most:g}")


def _filled(
    rounds: Rounds, reading: Reading, before: FloatArray | None = None
) -> FloatArray:
    """Return the values without gaps, shape (T, M); ``before`` holds the row before the first one, shape (1, M)."""
    values = rounds.values
    if reading.sensitivity is not None:
        # with csi, values are squared but the sensitivity is not
        least = reading.sensitivity ** (2 if reading.unit == "csi" else 1)
        is_weaker = values > least if reading.unit == "loss" else values < least
        rounds.require(
            ~is_weaker, f"no value below the sensitivity {reading.sensitivity:g}"
        )
        values = np.where(np.isnan(values), least, values)
    elif reading.gaps == "hold":
        row = np.full(values.shape[1], np.nan) if before is None else before[-1]
        values = values.copy()
        for t, value in enumerate(values):
            row = values[t] = np.where(np.isnan(value), row, value)
    rounds.require(~np.isnan(values), "a value")
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
        if rounds.links != ["min_gain"]:  # which is scaled already
            scaled = gains * scenario.power_share / scenario.batch_second_moment
    if reading.unit == "dbm":
        # 0 would be a received milliwatt, and may stand for no value
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
    notes = rounds.note(gains > 1, "more power received than sent; is the unit right?")
    missing = np.isnan(rounds.values)
    lost = f"{missing.sum()} of {missing.size} values are missing"
    filler = "the sensitivity"
    if reading.gaps == "hold":
        filler = "the last value of the link"
    notes += rounds.note(missing, f"{lost}, and {filler} replaces each")
    heard = np.where(missing, np.inf, gains)
    least = heard.min(axis=0)
    # a link that is often at its least value, far below all others, may have a code for no value
    is_least = heard == least
    second = np.where(is_least, np.inf, heard).min(axis=0)
    often = is_least.sum(axis=0) > 2
    stands_out = often & np.isfinite(second) & (second > 10 * least)
    notes += rounds.note(
        is_least & stands_out,
        "several times, and 10 dB below all others of its link; if it stands for no value, leave it empty",
    )
    return notes


def _columns(
    num_devices: int,
    reading: Reading,
    links: dict[str, int] | None = None,
    each_device: bool = False,
) -> Choose:
    """Return the choice of columns; ``links``, if given, allows the long form, and gets the numbers of the links."""
    unit = reading.unit

    def choose(names: list[str]) -> Choice:
        is_complex = unit == "csi" or (unit == "linear" and "h_1" in names)
        value = partial(_to_value, to_power if is_complex else to_number)
        clock = "time" if "time" in names else "round"
        if links is not None and {*names} == {"link", "value", clock}:
            return {"value": value, "link": partial(_number, links), clock: Clock()}
        if names == ["min_gain"] and unit in ("linear", "db") and not each_device:
            return {"min_gain": value}
        columns = _columns_of_devices(names, num_devices, unit, is_complex)
        return dict.fromkeys(columns, value)

    return choose


def _columns_of_devices(
    names: list[str], num_devices: int, unit: str, is_complex: bool
) -> list[str]:
    """Return the column of each device, or raise a ``ValueError``."""
    stem = "h_" if is_complex else "h2_"
    columns = [f"{stem}{m + 1}" for m in range(num_devices)]
    have_names = all(name and to_number(name) is None for name in names)
    if unit in DECIBELS and len(names) == num_devices and have_names:
        columns = sorted(names, key=natural_key)
    if {*columns} != {*names}:
        expected = (
            f"expected min_gain, or {num_devices} columns h2_1, h2_2, ... or complex h_1, h_2, ..., "
            "of any names in a unit of dB, or link, value and round or time"
        )
        got = f"{short(','.join(names))} in the unit {unit}"
        raise ValueError(f"{expected}, got {got}")
    return columns


def _number(links: dict[str, int], name: str) -> float:
    """Return the number of a link by its name; a new one gets the next number."""
    return links.setdefault(name.strip().casefold(), len(links))


def _to_value(convert: Callable[[str], float | None], field: str) -> float | None:
    """Return the number in a field, NaN if it says that there is none, or None if it cannot be read."""
    return math.nan if field.strip().lower() in _MISSING else convert(field)
