"""A channel trace that a server measured, read from a CSV."""

from __future__ import annotations

import csv
import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.scenario import Scenario


class Trace(NamedTuple):
    """A channel trace."""

    min_gain: NDArray[np.float64]
    r""":math:`h_{\min,t}^2` of every round, shape (T,)."""
    mean_gain: NDArray[np.float64] | None
    r"""The mean over the rounds of :math:`|h_{m,t}|^2 / k_m^2`, shape (M,), where the trace has all devices."""


def read_gains(path: str | os.PathLike[str], scenario: Scenario) -> Trace:
    r"""Read a channel trace.

    Parameters
    ----------
    path : path-like
        A CSV with a header and one row a round: a column ``min_gain``, or columns ``h2_1`` ... ``h2_M`` with the raw
        :math:`|h_{m,t}|^2` (linear), of which the minimum over :math:`k_m^2` is taken.
    scenario : Scenario
        Gives M and :math:`k_m^2`.

    Raises
    ------
    ValueError
        If the header is another one, or a row has a wrong number of fields or a gain that is no positive number; it
        names the line.
    """
    devices = [f"h2_{m}" for m in range(1, scenario.num_devices + 1)]
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [(number, row) for number, row in enumerate(csv.reader(file), start=1) if row]
    if not rows:
        raise ValueError(f"{path} is empty; expected a header and one row a round")
    header = [name.strip() for name in rows[0][1]]
    if header not in (["min_gain"], devices):
        raise ValueError(
            f"{path}: header {','.join(header)!r}; expected 'min_gain', or 'h2_1' to 'h2_{scenario.num_devices}'"
        )
    measured: list[list[float]] = []
    for number, row in rows[1:]:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {number}: expected {len(header)} fields, got {len(row)}")
        measured.append([_gain(field, f"{path}, line {number}") for field in row])
    if not measured:
        raise ValueError(f"{path} has no rows; expected one a round")
    gains = np.array(measured, dtype=np.float64).T
    if header == ["min_gain"]:
        return Trace(gains[0], None)
    return Trace(scenario.min_gain(gains), gains.mean(axis=-1) / scenario.batch_second_moment)


def _gain(field: str, where: str) -> float:
    try:
        value = float(field)
    except ValueError:
        value = float("nan")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{where}: expected a gain that is finite and > 0, got {field!r}")
    return value
