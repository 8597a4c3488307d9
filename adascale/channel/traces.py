"""A channel trace that a server measured, read from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.channel.tables import read_table
from adascale.scenario import Scenario

UNITS = ("linear", "db")
"""What gains may be given in: linear power ratios, or decibels."""


class Trace(NamedTuple):
    """A channel trace."""

    min_gain: NDArray[np.float64]
    r""":math:`h_{\min,t}^2` of every round, shape (T,)."""
    mean_gain: NDArray[np.float64] | None
    r"""The mean over the rounds of :math:`|h_{m,t}|^2 / k_m^2`, shape (M,), where the trace has all devices."""


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
    if unit not in UNITS:
        raise ValueError(f"unit must be linear or db, got {unit!r}")
    table = read_table(Path(path).read_bytes(), str(path), scenario.num_devices)
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
        mean = None if table.minimum else gains.mean(axis=-1) / scenario.batch_second_moment
    low, high = scenario.gain_limits
    if not (low <= least.min() and least.max() <= high and (mean is None or np.isfinite(mean).all())):
        raise ValueError(f"{path}: gains from {values.min():.3g} to {values.max():.3g} are beyond floating point with "
                         "this scenario; expected received over transmitted power")  # fmt: skip
    return Trace(least, mean)
