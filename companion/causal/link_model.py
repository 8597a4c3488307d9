r"""Measured links: received powers or channel states from files, as gains of several devices on common rounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check

FloatArray = NDArray[np.float64]

LINK_UNITS = ("dbm", "db", "linear", "csi")
"""What a file of links may hold, received power in dBm or the gain in dB, as a power ratio, or as complex h."""
GAPS = ("refuse", "hold", "floor")
"""What becomes of a round in which a link was not measured, see :func:`read_links`."""
LAYOUTS = ("columns", "rows")
"""Whether a link is a column of its file, or a row."""

_LOST = ("", "na", "nan", "none", "null", "-")
_NUMBERED = ("round", "seq")


@dataclass(frozen=True)
class Links:
    r"""Gains of L links over T rounds.

    Parameters
    ----------
    names : tuple of str
        What the links are called, L of them.
    rounds : numpy.ndarray
        The numbers of the rounds, shape (T,).
    gain : numpy.ndarray
        :math:`|h|^2`, received over transmitted power (linear), in (0, 1), shape (L, T).
    measured : numpy.ndarray
        Where a gain was measured; elsewhere it was filled in.  Shape (L, T).
    """

    names: tuple[str, ...]
    rounds: NDArray[np.int64]
    gain: FloatArray
    measured: NDArray[np.bool_]

    def group(self, num_devices: int) -> FloatArray:
        r"""The gains of groups of M links, in their order, shape (L // M, M, T); what is left over is left out.

        :meth:`Scenario.min_gain <adascale.scenario.Scenario.min_gain>` takes it as it is.
        """
        size, (links, rounds) = check.whole("num_devices", num_devices), self.gain.shape
        if size > links:
            raise ValueError(f"num_devices must be at most the {links} links there are, got {size}")
        return self.gain[: links // size * size].reshape(-1, size, rounds)


def read_links(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    unit: str | Callable[[FloatArray], FloatArray] = "dbm",
    transmit_power: float = 0.0,
    gaps: str = "refuse",
    sensitivity: float | None = None,
    missing: Sequence[float] = (),
    layout: str = "columns",
    numbered: bool = False,
    rounds: range | None = None,
) -> Links:
    r"""Read measured links, one file a link or many in one file, onto common rounds.

    .. math:: |h|^2 = 10^{(P_{\mathrm{received}} - P_{\mathrm{sent}})/10} , \qquad P \text{ in dBm}

    A file is UTF-8 text, its fields separated as in its first line by ``;``, tabs, ``,`` or blanks.  Blank lines, and
    lines that begin with ``#``, do not matter.  The first line (of the layout ``rows``, the first column) has the
    links' names if it is no number; a column ``round`` or ``seq`` before the others has the numbers of the rounds.
    Where rounds are numbered, those that are absent are gaps, as packets that were lost; where they are not, all links
    must be of one length.  So is an empty field a gap, ``nan``, and every reading named in ``missing``.

    Parameters
    ----------
    paths : path-like or iterable of them
        The file or files; links are in their order.
    unit : str or callable
        ``dbm``, received power; ``db``, the gain in dB; ``linear``, the gain; ``csi``, complex h such as ``0.1+0.2j``;
        or a function from an array of what the file holds, such as counts of a converter, to dBm.
    transmit_power : float
        :math:`P_{\mathrm{sent}}` in dBm (default 0, which is 1 mW), for received powers and the sensitivity.
    gaps : str
        ``refuse``; ``hold``, the last gain again, which a server would believe; ``floor``, the gain at the receiver's
        sensitivity, as a packet is lost that is weaker.
    sensitivity : float, optional
        The receiver's, in dBm; needed by ``floor``.
    missing : sequence of float
        Readings that stand for a lost packet.
    layout : str
        ``columns``: a link is a column, a row is a round; or ``rows``: a link is a row.
    numbered : bool
        Whether the first column (of ``rows``, the first row) has the numbers of the rounds, though it has no name.
    rounds : range, optional
        The rounds wanted, with step 1; unnumbered ones count from 0.  Default: from the first to the last there is.

    Returns
    -------
    Links
        The gains.

    Raises
    ------
    ValueError
        If a file holds something else; if a gain is not above 0 and below 1, that is 0 dB; at a gap, if it is refused,
        or nothing was measured before it that could be held.  It names the file and its line, or the round.
    OSError
        If a file cannot be read.
    """
    for name, value, known in (("gaps", gaps, GAPS), ("layout", layout, LAYOUTS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    if not callable(unit) and unit not in LINK_UNITS:
        raise ValueError(f"unit must be one of {', '.join(LINK_UNITS)} or a function to dBm, got {unit!r}")
    sent = _level("transmit_power", transmit_power)
    if gaps == "floor" and sensitivity is None:
        raise ValueError("gaps='floor' needs the sensitivity of the receiver in dBm")
    least = None if sensitivity is None else float(_power(_level("sensitivity", sensitivity) - sent))
    if least is not None and not 0 < least < 1:
        raise ValueError(f"sensitivity must be below the transmit power of {sent:g} dBm, got {sensitivity:g}")
    if rounds is not None and (len(rounds) == 0 or rounds.step != 1):
        raise ValueError(f"rounds must be a range that is not empty, with step 1, got {rounds}")
    chosen = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not chosen:
        raise ValueError("paths must name a file at least, got none")
    files = [_gains(_read(path, layout, numbered), unit, sent, missing) for path in chosen]
    if rounds is None:
        rounds = _all_rounds(files)
    parts = [_on(rounds, file, gaps, least) for file in files]
    alone = len(files) == 1
    names = [
        name if alone else file.path if len(file.names) == 1 else f"{file.path}:{name}"
        for file in files
        for name in file.names
    ]
    gain, measured = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Links(tuple(names), np.arange(rounds.start, rounds.stop), gain, measured)


class _File(NamedTuple):
    """What a file holds: a row a round and a column a link."""

    path: str
    names: list[str]
    rounds: NDArray[np.int64]
    counted: bool
    """Whether the file numbers its rounds."""
    text: NDArray[np.object_]
    value: FloatArray
    """Empty until :func:`_gains` has read the text; NaN at a gap."""
    lines: NDArray[np.int64]
    """The line of every row, or, where a link is a row, of every column."""
    across: bool

    def place(self, t: int, m: int) -> str:
        line = self.lines[m if self.across else t]
        return f"{self.path}, line {line}, round {self.rounds[t]} of link {self.names[m]}"


def _read(path: str | os.PathLike[str], layout: str, numbered: bool) -> _File:
    shown = str(path)
    try:
        whole = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is no UTF-8 text") from None
    kept = [(n, line) for n, line in enumerate(whole, start=1) if line.strip() and not line.lstrip().startswith("#")]
    if not kept:
        raise ValueError(f"{shown} has no rows; expected links")
    separator = next((sign for sign in ";\t," if sign in kept[0][1]), None)
    rows = [[field.strip() for field in line.split(separator)] for _, line in kept]
    width = len(rows[0])
    for (n, _), row in zip(kept, rows, strict=True):
        if len(row) != width:
            raise ValueError(f"{shown}, line {n}: expected {width} fields, as in line {kept[0][0]}, got {len(row)}")
    if width == 1 and (
        blank := {*range(kept[0][0], kept[-1][0])} - {n for n, line in enumerate(whole, 1) if line.strip()}
    ):
        raise ValueError(f"{shown}, line {min(blank)}: blank; of one link that may be a packet lost, write nan")
    text, lines = np.array(rows, dtype=object), np.array([n for n, _ in kept])
    across = layout == "rows"
    text = text.T if across else text
    titled = not all(_is_number(each) or each.lower() in _LOST for each in text[0])
    head = [each.strip('"') for each in text[0]] if titled else [str(n) for n in range(text.shape[1])]
    body, lines = text[1:] if titled else text, lines[1:] if titled and not across else lines
    counted = numbered or (titled and head[0].casefold() in _NUMBERED)
    numbers = np.arange(len(body))
    if counted:
        numbers = _whole_rounds(shown, body[:, 0], lines, across)
        body, head, lines = body[:, 1:], head[1:], lines[1:] if across else lines
    if not body.size:
        raise ValueError(f"{shown} has no measurements; expected a {'column' if across else 'row'} a round")
    return _File(shown, head, numbers, counted, body, np.empty(0), lines, across)


def _whole_rounds(path: str, text: NDArray[np.object_], lines: NDArray[np.int64], across: bool) -> NDArray[np.int64]:
    found: dict[int, None] = {}
    for t, each in enumerate(text):
        where = f"{path}, line {lines[0 if across else t]}"
        if not _is_number(each) or not float(each).is_integer() or abs(float(each)) > 1e15:
            raise ValueError(f"{where}: expected the whole number of a round, got {each!r}")
        if int(float(each)) in found:
            raise ValueError(f"{where}: round {each} comes twice")
        found[int(float(each))] = None
    return np.array([*found], dtype=np.int64)


def _gains(file: _File, unit: str | Callable[[FloatArray], FloatArray], sent: float, missing: Sequence[float]) -> _File:
    import pandas as pd  # here, as a channel that is drawn needs none of it

    flat = file.text.ravel().tolist()
    lost = np.array([each.lower() in _LOST for each in flat]).reshape(file.text.shape)
    value: NDArray[np.complex128] | FloatArray
    if unit == "csi":
        value = np.array([_complex(each) for each in flat]).reshape(lost.shape)
    else:
        value = pd.to_numeric(pd.Series(flat, dtype=object), errors="coerce").to_numpy(float).reshape(lost.shape)
    _refuse(file, ~lost & ~np.isfinite(value), "a finite number")
    lost |= np.isin(value, np.asarray(missing, dtype=float))
    hint = "; is the unit right? A lost packet is an empty field, or a reading named in missing"
    if unit == "dbm":
        _refuse(file, ~lost & (value == 0), "dBm, of which 0 is none that is received", hint)
    with np.errstate(all="ignore"):
        if callable(unit):
            power = np.asarray(unit(np.where(lost, np.nan, value.real)), dtype=float)
            if power.shape != value.shape:
                raise ValueError(f"unit must give a power for each reading, got shape {power.shape} for {value.shape}")
            gain = _power(power - sent)
        elif unit == "csi":
            gain = value.real**2 + value.imag**2
        else:
            gain = value.real if unit == "linear" else _power(value.real - (sent if unit == "dbm" else 0))
    less = (
        f"less than the {sent:g} dBm sent" if callable(unit) or unit == "dbm" else "a gain above 0 and below 1 (0 dB)"
    )
    _refuse(file, ~lost & ~((gain > 0) & (gain < 1)), less, hint)
    return file._replace(value=np.where(lost, np.nan, gain))


def _refuse(file: _File, bad: NDArray[np.bool_], expected: str, hint: str = "") -> None:
    if bad.any():
        t, m = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{file.place(t, m)}: expected {expected}, got {file.text[t, m][:80]!r}{hint}")


def _all_rounds(files: Sequence[_File]) -> range:
    """From the first to the last of all; unnumbered ones are as many in every file."""
    plain = [file for file in files if not file.counted]
    for file in plain:
        if len(file.rounds) != len(plain[0].rounds):
            raise ValueError(
                f"{file.path} has {len(file.rounds)} rounds, {plain[0].path} has {len(plain[0].rounds)}: "
                "number them, or say which rounds"
            )
    return range(min(int(each.rounds.min()) for each in files), max(int(each.rounds.max()) for each in files) + 1)


def _on(rounds: range, file: _File, gaps: str, least: float | None) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The gains of a file's links on these rounds, and where they were measured, shape (links, T)."""
    import pandas as pd

    if not file.counted and (rounds.start < 0 or rounds.stop > len(file.rounds)):
        raise ValueError(f"{file.path} has the rounds 0 to {len(file.rounds) - 1}, got rounds={rounds}")
    if len(rounds) * len(file.names) > check.MOST_ENTRIES:
        raise ValueError(
            f"{file.path} has rounds {rounds.start} to {rounds.stop - 1}: too many to hold; are they times?"
        )
    whole = pd.DataFrame(file.value, index=file.rounds)
    frame = whole.reindex(rounds)
    measured = frame.notna().to_numpy().T
    if gaps == "floor":
        frame = frame.fillna(least)
    elif gaps == "hold":  # what came before the rounds that are wanted can be held, too
        frame = whole.reindex(whole.index.union(frame.index)).ffill().reindex(rounds)
    if (empty := frame.isna().to_numpy()).any():
        t, m = (int(i) for i in np.argwhere(empty)[0])
        seen = np.flatnonzero(file.rounds == rounds[t])
        where = file.place(int(seen[0]), m) if seen.size else f"{file.path}, round {rounds[t]} of link {file.names[m]}"
        why = (
            "not measured; gaps='hold' or 'floor' would fill it"
            if gaps == "refuse"
            else "not measured, nor any round before it that could be held; begin with a later round"
        )
        raise ValueError(f"{where}: {why}")
    return np.ascontiguousarray(frame.to_numpy(float).T), measured


def _level(name: str, value: float) -> float:
    number = float(check.as_floats(name, value))
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number of dBm, got {value}")
    return number


def _power(decibels: FloatArray | float) -> FloatArray:
    return np.asarray(10 ** (np.asarray(decibels) / 10))


def _complex(text: str) -> complex:
    try:
        return complex(text.replace(" ", "").replace("i", "j"))
    except ValueError:
        return complex(np.nan)


def _is_number(text: str) -> bool:
    return not np.isnan(_complex(text)) or text.lower() == "nan"
