"""Readers of measured channel gains: a whole trace from a file, or line by line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.scenario import Scenario
from adascale.tables import Choice, Lines, Table, read_table, short, to_number, to_power


class Trace(NamedTuple):
    """A channel trace."""

    min_gain: NDArray[np.float64]
    r""":math:`h_{\min,t}^2` of every round, shape (T,)."""
    mean_gain: NDArray[np.float64] | None
    """Mean of :math:`|h_{m,t}|^2 / k_m^2` times :attr:`~adascale.scenario.Scenario.power_share`, shape (M,)."""
    above_one: str | None = None
    """The first gain above 1 (0 dB), whose unit may be wrong, and its line."""
    unended: str | None = None
    """A note if the last row has no line break, as in a truncated file."""
    gain: NDArray[np.float64] | None = None
    """Linear gains :math:`|h_{m,t}|^2` of all devices, shape (M, T); None if the trace has ``min_gain`` alone."""


def read_gains(path: str | os.PathLike[str], scenario: Scenario, unit: str = "linear") -> Trace:
    r"""Read a channel trace from a table of UTF-8 text.

    It has a header and one row per round, separated by commas, semicolons, tabs or blanks.  Its columns are
    ``min_gain`` (:math:`h_{\min,t}^2`), or ``h2_1`` ... ``h2_M`` (:math:`|h_{m,t}|^2`), or ``h_1`` ... ``h_M`` (complex
    :math:`h_{m,t}`, such as ``0.1+0.2j``).  Columns ``round``, ``time`` and a first column without a name are optional
    and must increase.  Lines that begin with ``#`` are comments; the last one before the numbers may be the header.

    Parameters
    ----------
    path : path-like
    scenario : Scenario
    unit : {"linear", "db"}, with "db" only for real gains

    Raises
    ------
    InvalidFile
        If the file has another format, or a gain is missing or not finite and positive.
    """
    check.one_of("unit", unit, "linear", "db")
    table = read_table(Path(path).read_bytes(), str(path), _gains_of(scenario.num_devices))
    return _trace(table, scenario, unit)


class GainLine(NamedTuple):
    """One round of a channel trace (:class:`Trace`), with the number in its column ``round``."""

    min_gain: float
    number: float | None
    above_one: str | None = None
    gain: NDArray[np.float64] | None = None


class GainLines:
    """A trace line by line, as a table for :func:`read_gains`; ``each_device`` gives all gains, and needs them."""

    def __init__(self, name: str, scenario: Scenario, unit: str = "linear", *, each_device: bool = False) -> None:
        check.one_of("unit", unit, "linear", "db")
        self._scenario, self._unit, self._each_device = scenario, unit, each_device
        self._lines = Lines(name, _gains_of(scenario.num_devices, each_device), again=True)

    @property
    def has_header(self) -> bool:
        """Return whether the header was read."""
        return bool(self._lines.columns)

    def read(self, line: bytes) -> GainLine | None:
        """Read one line: None for a comment or the header; a row refused with ``InvalidFile`` can be sent again."""
        lines = self._lines
        values = lines.read(line)
        if values is None:
            return None
        place = lines.columns, lines.name, [lines.number]
        table = Table(np.array([values]), *place, lambda _, m: f"{short(lines.fields[m])} in {lines.columns[m]}")
        trace = _trace(table, self._scenario, self._unit)
        lines.keep()
        gain = trace.gain[:, 0] if self._each_device and trace.gain is not None else None
        return GainLine(float(trace.min_gain[0]), lines.place.get("round"), trace.above_one, gain)


def _trace(table: Table, scenario: Scenario, unit: str) -> Trace:
    if unit == "db" and table.names[0].startswith("h_"):
        raise table.error(0, "complex coefficients are linear, so they cannot have the unit db")
    with np.errstate(over="ignore", under="ignore"):
        values = 10 ** (table.values / 10) if unit == "db" else table.values
    for t, m in np.argwhere(~(np.isfinite(values) & (values > 0)))[:1].tolist():
        hint = "; a gain in dB needs the unit db" if unit == "linear" and values[t, m] < 0 else ""
        raise table.error(t, f"expected a gain that is finite and > 0, got {table.text(t, m)}{hint}")
    gains, is_min = np.ascontiguousarray(values.T), table.names == ["min_gain"]
    with np.errstate(over="ignore"):
        least = gains[0] if is_min else scenario.min_gain(gains)
        mean = None if is_min else gains.mean(axis=-1) * scenario.power_share / scenario.batch_second_moment
    low, high = scenario.gain_limits
    beyond = (least < low) | (least > high)
    if beyond.any() or not (mean is None or np.isfinite(mean).all()):
        t = int(np.argmax(beyond) if beyond.any() else values.max(axis=1).argmax())
        span = f"gains from {values.min():.3g} to {values.max():.3g} are beyond floating point with this scenario"
        raise table.error(t, f"{span}; expected received over transmitted power")
    above = [str(table.error(t, table.text(t, m))) for t, m in np.argwhere(values > 1)[:1].tolist()]
    return Trace(least, mean, above[0] if above else None, table.unended, None if is_min else gains)


def _gains_of(num_devices: int, each_device: bool = False) -> Callable[[list[str]], Choice]:

    def choose(names: list[str]) -> Choice:
        if names == ["min_gain"] and not each_device:
            return names, to_number
        numbered = {name: re.fullmatch("(h2?)_([1-9][0-9]{0,11})", name) for name in names}
        device = {int(match[2]): name for name, match in numbered.items() if match}
        kinds = {match[1] for match in numbered.values() if match}
        if len(kinds) != 1 or not len(names) == len(device) == max(device) == num_devices:
            unknown = [name for name, match in numbered.items() if not match and name != "min_gain"]
            got = f"column {short(unknown[0])}" if unknown else f"columns {short(','.join(names))}"
            expected = f"h2_1 to h2_{num_devices}, or complex h_1 to h_{num_devices}"
            raise ValueError(f"got {got}; expected {'min_gain, or ' * (not each_device)}{expected}")
        return [device[m] for m in sorted(device)], to_power if kinds == {"h"} else to_number

    return choose
