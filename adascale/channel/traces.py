"""A channel trace that a server measured, read from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.channel.tables import Lines, Table, read_table
from adascale.scenario import Scenario

UNITS = ("linear", "db")
"""What gains may be given in: linear power ratios, or decibels."""


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


def read_gains(path: str | os.PathLike[str], scenario: Scenario, unit: str = "linear") -> Trace:
    r"""Read a channel trace: a table of text, or a ``.npy`` file.

    A table has a header and one row a round.  Its columns, in any order, are those of one line here:

    * ``min_gain``, which is :math:`h_{\min,t}^2`;
    * ``h2_1`` ... ``h2_M``, the raw :math:`|h_{m,t}|^2`, of which the minimum over :math:`k_m^2` is taken;
    * ``h_1`` ... ``h_M``, the complex :math:`h_{m,t}`, as ``0.1+0.2j`` or ``0.1+0.2i``.

    Beside them may stand ``round``, ``time`` and, as the first column, an index without a name, as pandas writes it.
    Nothing is taken from these, but rounds must follow each other one by one, and an index and times must rise where
    they are numbers.  A column of any other name is refused.

    The text is UTF-8.  Columns are separated as in the header, by ``,``, ``;``, tabs or blanks; if by no comma, a comma
    may be the decimal sign.  Lines that begin with ``#`` are comments; the last one before the numbers is the header if
    there is no other, which is how ``numpy.savetxt`` writes it.  Blank lines do not matter, except in a table of one
    column, where a row might be missing there.

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
    table = read_table(Path(path).read_bytes(), str(path), scenario.num_devices)
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

    The decimal sign is that of the first line that shows one.

    Parameters
    ----------
    name : str
        What errors call it.
    scenario, unit
        As for :func:`read_gains`.

    Raises
    ------
    ValueError
        If there is no such unit.
    """

    def __init__(self, name: str, scenario: Scenario, unit: str = "linear") -> None:
        _check_unit(unit)
        self._scenario, self._unit = scenario, unit
        self._lines = Lines(name, scenario.num_devices)

    @property
    def has_header(self) -> bool:
        """Whether the header was read."""
        return self._lines.columns is not None

    def read(self, line: bytes) -> GainLine | None:
        """One line, with or without its end; None where it is a comment or the header.

        Raises
        ------
        ValueError
            If it is neither a header nor a row, as :func:`read_gains`; it has the number of the line.  A row that was
            refused can be sent again.  Without a header no row can be read.
        """
        found = self._lines.read(line)
        if found is None:
            return None
        table, number = found
        trace = _trace(table, table.place(0, 0)[0], self._scenario, self._unit)
        self._lines.keep()
        return GainLine(float(trace.min_gain[0]), number, trace.above_one)


def _check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise ValueError(f"unit must be linear or db, got {unit!r}")


def _trace(table: Table, path: str, scenario: Scenario, unit: str) -> Trace:
    """The bottlenecks and mean gains of a table, which goes by ``path`` in errors."""
    if unit == "db" and table.squared:
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
        least = gains[0] if table.minimum else scenario.min_gain(gains)
        mean = None if table.minimum else gains.mean(axis=-1) * scenario.power_share / scenario.batch_second_moment
    low, high = scenario.gain_limits
    beyond = (least < low) | (least > high)
    if beyond.any() or not (mean is None or np.isfinite(mean).all()):
        where, _ = table.place(int(np.argmax(beyond) if beyond.any() else values.max(axis=1).argmax()), 0)
        raise ValueError(f"{where}: gains from {values.min():.3g} to {values.max():.3g} are beyond floating point with "
                         "this scenario; expected received over transmitted power")  # fmt: skip
    if not (values > 1).any():
        return Trace(least, mean)
    t, m = (int(i) for i in np.argwhere(values > 1)[0])
    return Trace(least, mean, "{}: {}".format(*table.place(t, m)))
