"""Functions shared by subcommands.  Slow imports are inside the functions that need them."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adascale
from adascale.errors import collected

if TYPE_CHECKING:
    from adascale.channel import Reading, Trace
    from adascale.tables import FloatArray


def one_line(error: BaseException) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split())


def visible(text: str) -> str:
    r"""Return the text with control characters as escapes, such as ``\x1b``."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text
    )


def note(text: str | None) -> None:
    """Print a note on standard error, if there is one."""
    if text:
        say(f"note: {' '.join(text.split())}")


def say(line: str) -> None:
    """Print a line on standard error, unless it is closed or takes nothing."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)


_UPPER = (
    "epsilon",
    "upper",
    "accounted",
    "rdp",
    "renyi",
)  # beginnings of the names of upper bounds


def shown(totals: dict[str, Any], as_json: bool, **tables: Any) -> str:
    """Return results as lines of names and values, with bounds rounded outwards, or as JSON with ``tables``."""
    from adascale.accounting.interval import round_outward
    from adascale.files import json_text

    if as_json:
        return json_text(totals | tables)
    known = {key: value for key, value in totals.items() if value is not None}
    width = max(map(len, known))
    lines = []
    for key, value in known.items():
        if isinstance(value, float) and key.startswith((*_UPPER, "lower")):
            value = round_outward(value, up=not key.startswith("lower"))
        lines.append(
            f"{key:<{width}} "
            + (f"{value:.6g}" if isinstance(value, float) else visible(f"{value}"))
        )
    return "\n".join(lines)


def print_and_write(text: str, files: Mapping[Path | None, Any]) -> None:
    """Print the text, and write the files that have a name, even if standard output is closed."""
    from adascale.files import write_together

    try:
        print(text, flush=True)
    finally:
        write_together(
            {path: content for path, content in files.items() if path is not None}
        )


def find_channel(name: str) -> adascale.ChannelModel:
    """Return the channel model given by ``--channel``."""
    with _naming("--channel", name):
        return adascale.channel.find(name)


def find_accountant(
    name: str, orders: tuple[float, ...] | None = None
) -> adascale.accounting.Accountant:
    """Return the accountant given by ``--accountant`` and ``--orders``."""
    accounting = adascale.accounting
    with _naming("--accountant", name):
        found = accounting.find(name)
    if orders is None:
        return found
    if found != accounting.RenyiAccountant():
        raise ValueError(
            f"--orders applies only to the accountant renyi, got --accountant {name}"
        )
    with _naming("--orders", ",".join(f"{end:g}" for end in reversed(orders))):
        return accounting.RenyiAccountant(accounting.order_grid(*orders))


@contextlib.contextmanager
def _naming(option: str, value: str) -> Iterator[None]:
    """Name the option and its value in any error, as the user's class may raise anything."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{option} {value}: {kind}{one_line(error)}") from error


@contextlib.contextmanager
def noting_orders() -> Iterator[None]:
    """Print a note at the end on the epsilon that more orders would lower most."""
    from adascale.accounting import OrdersTooFew

    found: list[OrdersTooFew] = []
    with collected(OrdersTooFew, found):
        yield
    if found:
        note(str(max(found, key=lambda each: each.epsilon / (each.better or math.inf))))


def spends(policy: str, least: float, most: float, target: str = "nu") -> str:
    """Return a note on what a policy spends, in multiples of the target."""
    ends = [f"{end:.3g}" for end in (least, most)]
    spent = (
        "nothing"
        if ends[1] == "0"
        else f"{' to '.join(dict.fromkeys(ends))} times {target}"
    )
    return f"{policy} spends {spent}; leakages are comparable only at equal cost"


def input_files(option: str, name: str) -> dict[str, Path | None]:
    """Return the files of a scenario or preset and of its bases, for :func:`check_outputs`."""
    from adascale.files import preset_chain

    try:
        chain = preset_chain(name)
    except (
        ValueError,
        OSError,
    ):  # the file of a scenario is not a preset; other errors are reported when it is read
        return {option: Path(name)}
    return {
        f"the base {str(path)!r} of {option}" if i else option: path
        for i, (path, _) in enumerate(chain)
    }


def reading(options: Namespace) -> Reading:
    """Return the form of a trace that the options give."""
    if (
        options.round_time is not None
        and getattr(options, "gains", options.past) is None
    ):
        raise ValueError(
            "--round-time is for files, here --past; a line of a stream is a round"
        )
    gaps = options.gaps, options.sensitivity, options.max_gaps
    return adascale.channel.Reading(
        options.unit, options.transmit_power, *gaps, options.round_time
    )


def read_trace(
    path: Path,
    options: Namespace,
    scenario: adascale.Scenario,
    split: float | None = None,
) -> Trace:
    """Read a trace, and print its notes."""
    trace = adascale.read_gains(path, scenario, reading(options), split)
    for each in trace.notes:
        note(each)
    return trace


def with_interference(
    scenario: adascale.Scenario, decibels: float | None
) -> adascale.Scenario:
    """Return the scenario in which only a part of the noise protects, as ``--interference`` says it."""
    if decibels is None:
        return scenario
    if not (
        decibels <= 0 and (part := scenario.noise_power * 10 ** (decibels / 10)) > 0
    ):
        raise ValueError(
            f"--interference must be a finite number of dB, at most 0, got {decibels:g}"
        )
    if scenario.privacy_noise_power is not None:
        raise ValueError(
            f"--interference {decibels:g}: the scenario already has a privacy_noise_power"
        )
    return replace(scenario, privacy_noise_power=part)


def read_scenario(
    name: str, interference: float | None = None
) -> adascale.presets.Preset:
    """Read a preset by name or file, or the file of a scenario, to which it adds the paper's channel."""
    from adascale.files import TABLES, read_toml

    presets = adascale.presets
    if (
        name in presets.names()
        or not Path(name).is_file()
        or {*TABLES, "base"} & set(read_toml(name))
    ):
        found = presets.load(name)
    else:
        found = presets.Preset(
            adascale.Scenario.from_toml(name), adascale.Rayleigh(), {}, ()
        )
    return replace(found, scenario=with_interference(found.scenario, interference))


def leave_out_numba(options: Namespace) -> None:
    """Prevent Numba's import where it would take longer than the work, unless other code shares the process.

    With None in its place, Python imports no such module, and functions run as they do where Numba is not installed.
    """
    if options.own_process:
        sys.modules.setdefault("numba", None)  # type: ignore[arg-type]


def read_rounds(path: Path, rate: float | None) -> FloatArray:
    """Read sampling rates, noise multipliers and counts, one row per event; ``rate`` is for a table without rates."""
    import numpy as np

    from adascale import tables

    known = tables.known("sigma", optional=("rate", "count", "steps"))
    table = tables.read_table(path.read_bytes(), str(path), known)
    note(table.unended)
    sigma = table.column(
        "sigma", lambda s: (s >= 1e-6) & (s <= 1e150), "within 1e-6 ... 1e150"
    )
    number = np.ones(sigma.size)
    if "rate" in table.names:
        rates = table.column("rate", lambda q: (q >= 0) & (q <= 1), "in [0, 1]")
        if rate is not None:
            raise ValueError(f"{path}: --rate cannot be combined with a column rate")
    elif rate is None:
        raise ValueError(f"{path}: expected a column rate, or --rate")
    elif not 0 <= rate <= 1:
        raise ValueError(f"--rate must be in [0, 1], got {rate}")
    else:
        rates = np.full(sigma.size, rate)
    if {"count", "steps"} <= set(table.names):
        raise ValueError(
            f"{path}: expected one of the columns count and steps, got both"
        )
    for name in {"count", "steps"} & set(table.names):
        number = table.column(
            name, lambda n: (n >= 1) & (n <= 2.0**53) & (n % 1 == 0), "whole and >= 1"
        )
    return np.column_stack([rates, sigma, number])


def check_outputs(
    inputs: Mapping[str, Path | None], outputs: Mapping[str, Path | None]
) -> None:
    """Check, before any work, that every output can be written and is neither an input nor another output.

    Both map an option, as it is typed, to its file, or to None if it was not given.
    """
    taken = {
        _identity(path): option for option, path in inputs.items() if path is not None
    }
    for option, path in outputs.items():
        if path is not None:
            if reason := _why_not_written(path):
                raise ValueError(f"{option} {str(path)!r} cannot be written: {reason}")
            if other := taken.get(file := _identity(path)):
                raise ValueError(
                    f"{option} {str(path)!r} is the file of {other}; it would be overwritten"
                )
            taken[file] = option


def _why_not_written(path: Path) -> str:
    try:
        target = path.resolve()
        if not target.parent.is_dir():
            return f"there is no folder {str(target.parent)!r}"
        with contextlib.suppress(FileNotFoundError):
            target.lstat()  # raises an error if the name is too long
        if target.is_symlink() or (
            target.exists() and not target.is_file()
        ):  # links in a circle stay links
            return "it is not a regular file"
        # files are written next to their destination and then moved
        closed = (
            each
            for each in (target, target.parent)
            if each.exists() and not os.access(each, os.W_OK)
        )
        return next((f"{str(each)!r} is read-only" for each in closed), "")
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # a name that is too long, a null byte, links in a circle
        return one_line(error)


def _identity(path: Path) -> object:
    """Return what two paths have in common if they lead to one file, also through links."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return (
            (path.stat().st_dev, path.stat().st_ino)
            if path.exists()
            else path.resolve()
        )
    return path
