"""Events: sampled Gaussian mechanisms as (sampling rate, noise multiplier, count), from sequences, tables and logs."""

import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale import tables
from adascale.accounting.exact.rounds import Atoms, Rounds, rounds_of
from adascale.accounting.losses import DiscreteLoss
from adascale.checks import FloatArray
from adascale.errors import InvalidFile, InvalidInput
from adascale.files import parse_json, read_text
from adascale.text import short, shown, to_number

_FORM = "(sampling rate, noise multiplier, count)"
LEAST_NOISE = 1e-6
MOST_NOISE = 1e150
MOST_ROUNDS = 2.0**53
LIMITS: dict[str, tuple[str, Callable[[FloatArray], NDArray[np.bool_]], str]] = {
    "rate": ("sampling rate", lambda q: (q >= 0) & (q <= 1), "in [0, 1]"),
    "sigma": (
        "noise multiplier",
        lambda s: (s >= LEAST_NOISE) & (s <= MOST_NOISE),
        "within 1e-6 ... 1e150, as delta is 1 without noise",
    ),
    "count": (
        "count",
        lambda n: (n >= 0) & (n <= MOST_ROUNDS) & (np.floor(n) == n),
        "whole, from 0 to 2^53",
    ),
}
"""For each entry of an event its name, a check of its values and what is expected, in words."""
_NAMES = {
    "rate": ("rate", "sampling_rate", "sample_rate"),
    "sigma": ("sigma", "noise_multiplier"),
    "count": ("count", "steps", "num_steps"),
}
"""The names of columns that need not be named; the first ones are ours, the others those of Opacus and its users."""
_PLACES = ("round", "time")
Columns = Mapping[str, str | float]
Event = Sequence[float] | DiscreteLoss | tuple[DiscreteLoss, int]
Events = Any
"""A sequence of ``(sampling_rate, noise_multiplier, count)``, or an array of these columns; without count it is 1.

An event may also be a :class:`DiscreteLoss`, alone or as ``(loss, count)``. Instead of a sequence, give whatever
:func:`read_events` reads: a table, a history of Opacus, or the file of one.
"""


def events_of_schedule(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike
) -> FloatArray:
    """Return the events of a schedule, one per round, for one sampling rate or one per round."""
    rate = check.between("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = check.between("noise_multiplier", noise_multiplier, LEAST_NOISE, MOST_NOISE)
    if sigma.ndim != 1 or sigma.size == 0:
        raise ValueError(
            f"noise_multiplier must have shape (T,), one or more rounds, got shape {sigma.shape}"
        )
    if rate.shape not in ((), (1,), sigma.shape):
        raise ValueError(
            f"sampling_rate must be one number or one per round, got {rate.shape} and {sigma.shape}"
        )
    return np.column_stack(np.broadcast_arrays(rate, sigma))


class Composition(NamedTuple):
    """Validated events: those of Gaussian mechanisms as arrays of equal length, and the others."""

    rate: FloatArray
    sigma: FloatArray
    number: FloatArray  # how often each event occurs
    discrete: tuple[tuple[Atoms, float], ...]  # discrete losses, and how often

    def scale_noise(self, factor: float) -> "Composition":
        """Return the events with the noise of every Gaussian one times the factor; discrete ones stay."""
        return self._replace(sigma=factor * self.sigma)

    def repeat(self, times: int) -> "Composition":
        """Return the events with the count of every Gaussian one times an integer; discrete ones stay."""
        return self._replace(number=times * self.number)

    def to_rounds(self) -> Rounds:
        """Collect equal events into rounds, for the proofs."""
        rounds = rounds_of(self.rate, self.sigma, self.number)
        return rounds._replace(atoms=self.discrete)

    def join(self, other: "Composition") -> "Composition":
        """Return the events of both."""
        return Composition(
            np.append(self.rate, other.rate),
            np.append(self.sigma, other.sigma),
            np.append(self.number, other.number),
            self.discrete + other.discrete,
        )


def compose_events(events: Events) -> Composition:
    """Validate events; an error names the index of the event and its value."""
    rows, losses = _rows(read_events(events) if is_log(events) else events)
    for (name, good, expected), values in zip(LIMITS.values(), rows.T, strict=True):
        if not (fits := good(values)).all():
            i = int((~fits).argmax())
            raise InvalidInput(
                f"the {name} of events[{i}] must be {expected}, got {shown(float(values[i]))}",
                "events",
            )
    discrete = tuple(
        (loss.atoms, float(rows[i, 2])) for i, loss in losses.items() if rows[i, 2] > 0
    )
    rate, sigma, number = rows.T
    return Composition(rate, sigma, number, discrete)


def _rows(events: Any) -> tuple[FloatArray, dict[int, DiscreteLoss]]:
    """Return rate, noise multiplier and count of every event, and the discrete losses by their index."""
    table = events
    if isinstance(events, list):  # an array of Python's numbers is much faster to read
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            if {*map(type, itertools.chain.from_iterable(events))} <= {float, int}:
                table = np.array(events)
    is_numeric = isinstance(table, np.ndarray) and table.dtype.kind in "iuf"
    if is_numeric and table.shape[1:] in ((2,), (3,)):
        return np.column_stack([table, np.ones(len(table))])[:, :3], {}
    rows = []
    losses = {}
    try:
        for i, event in enumerate(events):
            row, loss = _row(i, event)
            rows.append(row)
            if loss is not None:
                losses[i] = loss
    except TypeError:
        raise InvalidInput(
            f"events must be a sequence of {_FORM}, got {shown(events)}", "events"
        ) from None
    return np.array(rows, dtype=float).reshape(-1, 3), losses


def _row(i: int, event: Event) -> tuple[list[float], DiscreteLoss | None]:
    """Return rate, noise multiplier and count, or 0, 1 and count of a discrete loss."""
    loss = None
    try:
        values: list[Any] = [event] if isinstance(event, DiscreteLoss) else [*event]
        if values and isinstance(values[0], DiscreteLoss):
            loss = values[0]
            values[:1] = 0.0, 1.0
        if len(values) == 2:
            values.append(1)
        rate, sigma, count = map(_number, values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InvalidInput(
            f"events[{i}] must be {_FORM}, got {shown(event)}", "events"
        ) from None
    return [rate, sigma, count], loss


def _number(value: Any) -> float:
    """Return a number of any library, such as a tensor of one entry, as a float."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError
    return float(value)


def read_events(source: Any, columns: Columns | None = None) -> FloatArray:
    """Read events from a table, from a log of a training, or from a file of one.

    Parameters
    ----------
    source : path, data frame, mapping of columns, list of records, or accountant of Opacus
        A table has the columns ``rate`` (or ``sampling_rate``, ``sample_rate``), ``sigma`` (or ``noise_multiplier``)
        and, unless all counts are 1, ``count`` (or ``steps``, ``num_steps``). A file is such a table as text, JSON or
        JSON lines, a history of Opacus as JSON, or a checkpoint of Opacus, which needs PyTorch.
    columns : dict, optional
        The column of each of ``rate``, ``sigma`` and ``count``, or a number for all rows; other columns are left out.
        Without it, a column of another name is an error.

    Returns
    -------
    numpy.ndarray, shape (N, 3)
        Sampling rates, noise multipliers and counts.

    Examples
    --------
    >>> read_events({"q": [0.01, 0.02], "noise": [1.0, 1.5], "loss": [0.7, 0.5]}, {"rate": "q", "sigma": "noise"})
    array([[0.01, 1.  , 1.  ],
           [0.02, 1.5 , 1.  ]])
    """
    columns = {} if columns is None else columns
    if unknown := columns.keys() - LIMITS.keys():
        raise InvalidInput(
            f"columns must name rate, sigma or count, got {shown(min(unknown))}",
            "columns",
        )
    if not isinstance(source, str | os.PathLike):
        return _of_object(source, columns)
    path = Path(source)
    data = path.read_bytes()
    is_checkpoint = data.startswith(b"PK")
    if not is_checkpoint and not data.lstrip().startswith((b"[", b"{")):
        return _of_table(data, str(path), columns)
    try:
        rows = _of_object(_checkpoint(path) if is_checkpoint else _json(path), columns)
    except InvalidInput as error:
        raise InvalidFile(f"{path}: {error}", str(path)) from None
    if not len(rows):
        raise InvalidFile(f"{path} has no rows", str(path))
    return rows


def is_log(source: object) -> bool:
    """Say whether :func:`read_events` reads this, which is no plain sequence of events."""
    if isinstance(source, list) and source:
        source = source[0]
    is_table = isinstance(source, Mapping) or hasattr(source, "columns")
    return (
        is_table or isinstance(source, str | os.PathLike) or hasattr(source, "history")
    )


def _json(path: Path) -> Any:
    """Read a JSON document, or a list of one per line."""
    text = read_text(path)
    lines = text.strip().splitlines()
    try:
        json.loads(lines[0])
    except ValueError:
        return parse_json(text, path)
    rows = [parse_json(line, f"{path}, line {i}") for i, line in enumerate(lines, 1)]
    return rows if len(rows) > 1 else rows[0]


def _checkpoint(path: Path) -> Any:
    """Load what PyTorch saved, without executing code in it."""
    import torch  # slow to import, and not needed elsewhere

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = short(" ".join(str(error).split()))
        raise InvalidFile(f"{path} is no checkpoint: {reason}", str(path)) from None


def _of_table(data: bytes, path: str, columns: Columns) -> FloatArray:
    """Read a table as text; errors name the line."""
    columns = {
        role: name.casefold() if isinstance(name, str) else name
        for role, name in columns.items()
    }
    chosen: dict[str, str | float] = {}

    def choose(names: list[str]) -> tables.Choice:
        chosen.update(_choose(names, columns))
        return {name: to_number for name in chosen.values() if isinstance(name, str)}

    table = tables.read_table(data, path, choose)
    if table.unended:
        warnings.warn(table.unended, stacklevel=4)
    return _assembled(
        chosen,
        len(table.values),
        lambda role, name: table.column(name, *LIMITS[role][1:]),
    )


def _of_object(source: Any, columns: Columns) -> FloatArray:
    """Read events from a table or a log in memory."""
    if isinstance(source, Mapping):
        source = source.get("privacy_accountant_state_dict", source)
        source = source.get("history", source)
    source = getattr(source, "history", source)
    if isinstance(source, list):
        if not source or not isinstance(source[0], Mapping):
            return _of_history(source)
        if any(row.keys() != source[0].keys() for row in source):
            raise InvalidInput("records must all have the same names", "events")
        source = {name: [row[name] for row in source] for name in source[0]}
    names = [*getattr(source, "columns", source)]
    chosen = _choose([name for name in names if name not in _PLACES], columns)
    sizes = {np.size(source[name]) for name in names}
    if len(sizes - {1}) > 1:
        got = ", ".join(map(str, sorted(sizes)))
        raise InvalidInput(f"columns must be equally long, got {got} entries", "events")
    size = max(sizes)
    return _assembled(
        chosen, size, lambda _, name: check.as_floats(f"column {name}", source[name])
    )


def _of_history(history: list[Any]) -> FloatArray:
    """Read a history of Opacus, whose rows are (noise multiplier, sampling rate, steps)."""
    if not history:
        return np.empty((0, 3))
    rows = check.as_floats("history", history)
    if rows.shape[1:] != (3,):
        raise InvalidInput(
            f"history must be [(noise multiplier, sampling rate, steps), ...], got {shown(history)}",
            "events",
        )
    return rows[:, [1, 0, 2]]


def _choose(names: list[str], columns: Columns) -> dict[str, str | float]:
    """Return the column of each role, or the number that stands for it."""
    chosen: dict[str, str | float] = {"count": 1.0}
    clashes = False
    for role, usual in _NAMES.items():
        present = [name for name in names if name in usual]
        if present:  # of several, which is meant is not known
            chosen[role] = present[0] if len(present) == 1 else ""
            clashes |= not isinstance(columns.get(role, ""), str)
    chosen |= columns
    used = {name for name in chosen.values() if isinstance(name, str)}
    is_left = not columns and {*names} - used
    if clashes or is_left or not used <= {*names} or len(chosen) < len(_NAMES):
        got = short(",".join(map(str, names)))
        expected = "rate, sigma and, if a row stands for several rounds, count"
        raise InvalidInput(
            f"got the columns {got}, expected one for each of {expected};"
            " name others by columns, in a shell --columns rate=NAME,sigma=NAME",
            "columns",
        )
    return {role: chosen[role] for role in _NAMES}


def _assembled(
    chosen: dict[str, str | float], size: int, column: Callable[[str, str], FloatArray]
) -> FloatArray:
    """Return events of numbers and columns."""
    rows = np.empty((size, len(chosen)))
    for i, (role, name) in enumerate(chosen.items()):
        rows[:, i] = column(role, name) if isinstance(name, str) else name
    return rows
