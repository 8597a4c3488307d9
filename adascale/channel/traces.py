"""A channel trace that a server measured, read from a file."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.scenario import Scenario
from adascale.tables import Choice, Lines, Table, read_table, short, to_number, to_power

UNITS = ("linear", "db")
"""What gains may be given in: linear power ratios, or decibels."""

_NUMPY = b"\x93NUMPY"  # what a .npy file begins with


class Trace(NamedTuple):
    """A channel trace."""

    min_gain: NDArray[np.float64]
    r""":math:`h_{\min,t}^2` of every round, shape (T,)."""
    mean_gain: NDArray[np.float64] | None
    r"""The mean over the rounds of :math:`|h_{m,t}|^2 / k_m^2`, shape (M,), where the trace has all devices; times
    :attr:`~adascale.scenario.Scenario.power_share`, as in the bottleneck."""
    above_one: str | None = None
    """The first gain above 1 (0 dB) and where it stands, if there is one.

    More power was received than sent, as when gains are in another unit, or relative to something."""
    unended: str | None = None
    """A note on the last row, if its line has no line break, as when a file was cut off."""


def read_gains(path: str | os.PathLike[str], scenario: Scenario, unit: str = "linear") -> Trace:
    r"""Read a channel trace: a table of text, or a ``.npy`` file.

    A table has a header and one row a round.  Its columns, in any order, are those of one line here:

    * ``min_gain``, which is :math:`h_{\min,t}^2`;
    * ``h2_1`` ... ``h2_M``, the raw :math:`|h_{m,t}|^2`, of which the minimum over :math:`k_m^2` is taken;
    * ``h_1`` ... ``h_M``, the complex :math:`h_{m,t}`, as ``0.1+0.2j`` or ``0.1+0.2i``.

    Beside them may stand ``round``, ``time`` and, as the first column, an index without a name, as pandas writes it.
    Nothing is taken from these, but rounds must follow each other one by one, and an index and times must rise where
    they are numbers.  A column of any other name is refused.

    The text is UTF-8.  Columns are separated as in the header, by ``,``, ``;``, tabs or blanks; numbers have a decimal
    point.  Lines that begin with ``#`` are comments; the last one before the numbers is the header if there is no
    other, which is how ``numpy.savetxt`` writes it.  Blank lines do not matter, except in a table of one column, where
    a row might be missing there.

    An array is of shape (T,), which is ``min_gain``, or (T, M), a row a round: :math:`|h_{m,t}|^2`, or
    :math:`h_{m,t}` where it is complex.

    Parameters
    ----------
    path : path-like
        The file.
    scenario : Scenario
        Gives M and :math:`k_m^2`.
    unit : str
        ``linear``, or ``db`` where gains are given as :math:`10 \log_{10}` of it.  Complex coefficients are linear.

    Returns
    -------
    Trace
        The bottleneck of every round, and the mean gains.

    Raises
    ------
    ValueError
        If the file holds something else, or a gain that is missing or is not finite and positive; it names the file,
        and the line where there is one.
    OSError
        If the file cannot be read.
    """
    _check_unit(unit)
    data = Path(path).read_bytes()
    devices = scenario.num_devices
    is_array = data.startswith(_NUMPY)
    table = _array(data, str(path), devices) if is_array else read_table(data, str(path), _gains_of(devices))
    return _trace(table, str(path), scenario, unit)


class GainLine(NamedTuple):
    """One round of a channel trace."""

    min_gain: float
    r""":math:`h_{\min,t}^2`."""
    number: float | None
    """What its column ``round`` says, where there is one."""
    above_one: str | None = None
    """As for :class:`Trace`."""


class GainLines:
    """A channel trace that comes line by line, as a server receives it: a table of text as :func:`read_gains` reads it.

    Parameters
    ----------
    name : str
        What errors call it.
    scenario, unit
        As for :func:`read_gains`.
    """

    def __init__(self, name: str, scenario: Scenario, unit: str = "linear") -> None:
        _check_unit(unit)
        self._scenario, self._unit = scenario, unit
        self._lines = Lines(name, _gains_of(scenario.num_devices), again=True)

    @property
    def has_header(self) -> bool:
        """Whether the header was read."""
        return bool(self._lines.columns)

    def read(self, line: bytes) -> GainLine | None:
        """One line, with or without its end; None where it is a comment or the header.

        Raises
        ------
        ValueError
            If it is neither a header nor a row, as :func:`read_gains`; it has the number of the line.  A row that was
            refused can be sent again.  Without a header no row can be read.
        """
        row = self._lines.read(line)
        if row is None:
            return None
        where, names = f"{self._lines.name}, line {self._lines.number}", self._lines.columns
        table = Table(np.array([row.values]), names, lambda _, m: (where, f"{short(row.fields[m])} in {names[m]}"))
        trace = _trace(table, where, self._scenario, self._unit)
        self._lines.keep()
        return GainLine(float(trace.min_gain[0]), row.round, trace.above_one)


def _check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise ValueError(f"unit must be linear or db, got {unit!r}")


def _trace(table: Table, path: str, scenario: Scenario, unit: str) -> Trace:
    """The bottlenecks and mean gains of a table, which goes by ``path`` in errors."""
    if unit == "db" and table.names[0].startswith("h_"):
        raise ValueError(f"{path}: complex coefficients are linear, they cannot have the unit db")
    with np.errstate(over="ignore", under="ignore"):
        values = 10 ** (table.values / 10) if unit == "db" else table.values
    good = np.isfinite(values) & (values > 0)
    if not good.all():
        t, m = (int(i) for i in np.argwhere(~good)[0])
        where, got = table.place(t, m)
        hint = "; a gain in dB needs the unit db" if unit == "linear" and values[t, m] < 0 else ""
        raise ValueError(f"{where}: expected a gain that is finite and > 0, got {got}{hint}")
    gains = np.ascontiguousarray(values.T)
    with np.errstate(over="ignore"):
        is_min = table.names == ["min_gain"]
        least = gains[0] if is_min else scenario.min_gain(gains)
        mean = None if is_min else gains.mean(axis=-1) * scenario.power_share / scenario.batch_second_moment
    low, high = scenario.gain_limits
    beyond = (least < low) | (least > high)
    if beyond.any() or not (mean is None or np.isfinite(mean).all()):
        where, _ = table.place(int(np.argmax(beyond) if beyond.any() else values.max(axis=1).argmax()), 0)
        raise ValueError(
            f"{where}: gains from {values.min():.3g} to {values.max():.3g} are beyond floating point with "
            "this scenario; expected received over transmitted power"
        )
    above = np.argwhere(values > 1)
    first = "{}: {}".format(*table.place(int(above[0, 0]), int(above[0, 1]))) if above.size else None
    return Trace(least, mean, first, table.unended)


def _gains_of(num_devices: int) -> Callable[[list[str]], Choice]:
    """Which columns of a table are the gains of these devices."""

    def choose(names: list[str]) -> Choice:
        if names == ["min_gain"]:
            return names, to_number
        numbered = {name: re.fullmatch("(h2?)_([1-9][0-9]{0,11})", name) for name in names}
        device = {int(match[2]): name for name, match in numbered.items() if match}
        kinds = {match[1] for match in numbered.values() if match}
        if len(kinds) != 1 or not len(names) == len(device) == max(device) == num_devices:
            unknown = [name for name, match in numbered.items() if not match and name != "min_gain"]
            got = f"column {short(unknown[0])}" if unknown else f"columns {short(','.join(names))}"
            expected = f"min_gain, or h2_1 to h2_{num_devices}, or complex h_1 to h_{num_devices}"
            raise ValueError(f"got {got}; expected {expected}")
        return [device[m] for m in sorted(device)], to_power if kinds == {"h"} else to_number

    return choose


def _array(data: bytes, path: str, num_devices: int) -> Table:
    """Read the content of a ``.npy`` file."""
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a header that has to be guessed at
            held: NDArray[Any] = np.load(stream, allow_pickle=False)
    except Exception as error:  # NumPy has many ways to say so
        raise ValueError(f"{path} is no .npy file of numbers: {short(' '.join(str(error).split()))}") from None
    if stream.tell() != len(data):
        raise ValueError(f"{path} has {len(data) - stream.tell()} bytes behind its array")
    if held.dtype.kind not in "iufc":
        raise ValueError(f"{path}: expected an array of numbers, got {short(str(held.dtype))}")
    if held.ndim not in (1, 2) or (held.ndim == 2 and held.shape[1] != num_devices) or not held.size:
        got = f"{held.shape}{'; transpose it' if held.ndim == 2 and held.shape[0] == num_devices else ''}"
        raise ValueError(
            f"{path}: expected an array of shape (T,) or (T, {num_devices}), a row a round, got shape {got}"
        )
    squared, minimum = held.dtype.kind == "c", held.ndim == 1
    if squared and minimum:
        expected = f"a column a device, shape (T, {num_devices})"
        raise ValueError(f"{path}: complex coefficients need {expected}, got shape {held.shape}")
    rows = held[:, None] if minimum else held
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        real, imag = rows.real.astype(np.float64), rows.imag.astype(np.float64)
        values = real**2 + imag**2 if squared else real
    names = ["min_gain"] if minimum else [f"h{'' if squared else '2'}_{m + 1}" for m in range(num_devices)]
    return Table(values, names, lambda t, m: (f"{path}, row {t}", f"{rows[t, m]} in column {m}"))
