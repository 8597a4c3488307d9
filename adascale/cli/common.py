"""Functions shared by subcommands.  Slow imports are inside the functions that need them."""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adascale
from adascale.errors import collected

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from adascale.channel import Reading, Trace


def one_line(error: BaseException) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split())


def visible(text: str) -> str:
    r"""Return the text with control characters as escapes, such as ``\x1b``."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text
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


# beginnings of the names of upper bounds
_UPPER = ("epsilon", "upper", "accounted", "rdp", "renyi")


def results_text(totals: dict[str, Any], as_json: bool, **tables: Any) -> str:
    """Return results as lines of names and values, with bounds rounded outwards, or as JSON with ``tables``."""
    from adascale.accounting.interval import round_outward
    from adascale.files import json_text

    if as_json:
        return json_text(totals | tables)
    present = {key: value for key, value in totals.items() if value is not None}
    width = max(map(len, present))
    lines = []
    for key, value in present.items():
        text = visible(str(value))
        if isinstance(value, float):
            is_bound = key.startswith((*_UPPER, "lower"))
            up = not key.startswith("lower")
            text = f"{round_outward(value, up) if is_bound else value:.6g}"
        lines.append(f"{key:<{width}} {text}")
    return "\n".join(lines)


def floats(values: Mapping[str, Any], *names: str) -> dict[str, float]:
    """Return values by name as plain numbers, those of all names by default."""
    return {name: float(values[name]) for name in names or values}


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV; its fields must not contain a comma."""
    return "".join(f"{','.join(map(str, row))}\n" for row in (header, *rows))


def print_and_write(text: str, files: Mapping[Path | None, Any]) -> None:
    """Print the text, and write the files that have a name, even if standard output is closed."""
    from adascale.files import write_together

    try:
        print(text, flush=True)
    finally:
        write_together(
            {path: content for path, content in files.items() if path is not None}
        )


@contextlib.contextmanager
def open_executor(options: Namespace) -> Iterator[Executor | None]:
    """Open the executor of ``--jobs`` or ``--scheduler``; None without them."""
    from adascale import workers

    jobs, scheduler = options.jobs, options.scheduler
    if jobs is not None and scheduler is not None:
        raise ValueError("--jobs cannot be combined with --scheduler")
    with workers.open_executor(1 if jobs is None else jobs, scheduler) as executor:
        yield executor


def find_channel(name: str) -> adascale.ChannelModel:
    """Return the channel model given by ``--channel``."""
    with _naming("--channel", name):
        return adascale.channel.find(name)


def accountant_name(options: Namespace) -> str:
    """Return the name of the accountant: by default exact if an epsilon is guaranteed, else renyi.

    Where several policies are compared, ``options.policy`` is a list, and only ``--epsilon`` counts.
    """
    means_exact = options.epsilon is not None or "epsilon=" in (options.policy or "")
    has_orders = getattr(options, "orders", None) is not None
    default = "exact" if means_exact and not has_orders else "renyi"
    return str(options.accountant or default)


def find_accountant(
    name: str, order_ends: tuple[float, ...] | None = None
) -> adascale.accounting.Accountant:
    """Return the accountant given by ``--accountant``, and the ends of ``--orders``, largest first."""
    accounting = adascale.accounting
    with _naming("--accountant", name):
        accountant = accounting.find(name)
    if order_ends is None:
        return accountant
    if accountant != accounting.RenyiAccountant():
        raise ValueError(
            f"--orders applies only to the accountant renyi, got --accountant {name}"
        )
    with _naming("--orders", ",".join(f"{end:g}" for end in reversed(order_ends))):
        return accounting.RenyiAccountant(accounting.order_grid(*order_ends))


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

    too_few: list[OrdersTooFew] = []
    with collected(OrdersTooFew, too_few):
        yield
    if too_few:
        # better is None where it was not computed
        worst = max(too_few, key=lambda w: w.epsilon / (w.better or math.inf))
        note(str(worst))


def spending_note(policy: str, least: float, most: float, target: str = "nu") -> str:
    """Return a note on what a policy spends: from ``least`` to ``most``, in multiples of the target."""
    low, high = f"{least:.4g}", f"{most:.4g}"
    multiples = high if low == high else f"{low} to {high}"
    spent = "nothing" if high == "0" else f"{multiples} times {target}"
    return f"{policy} spends {spent}; leakages are comparable only at equal cost"


def no_noise_note(policy: str, epsilon: float) -> str:
    """Return a note on an epsilon that a policy meets even at full power, so without more noise than the floor."""
    return f"full power keeps epsilon = {epsilon:g}: {policy} adds no noise"


def input_files(option: str, name: str) -> dict[str, Path | None]:
    """Return the files of a scenario or preset and of its bases, for :func:`check_outputs`."""
    from adascale.files import preset_chain

    try:
        chain = preset_chain(name)
    except (ValueError, OSError):
        # the file of a scenario is not a preset; other errors are reported when it is read
        return {option: Path(name)}
    return {
        f"the base {str(path)!r} of {option}" if i else option: path
        for i, (path, _) in enumerate(chain)
    }


def reading(options: Namespace) -> Reading:
    """Return the form of a trace that the options give; refuse options for files where there is no file."""
    path = getattr(options, "gains", getattr(options, "past", None))
    for name in ("round_time", "axes", "variable"):
        if path is None and getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{option} is for files, here --past; a line of a stream is a round"
            )
    names = [field.name for field in fields(adascale.channel.Reading)]
    return adascale.channel.Reading(**{name: getattr(options, name) for name in names})


def read_trace(
    path: Path,
    options: Namespace,
    scenario: adascale.Scenario,
    split: float | None = None,
) -> Trace:
    """Read a trace, and print its notes."""
    trace = adascale.read_gains(path, scenario, reading(options), split)
    for text in trace.notes:
        note(text)
    return trace


def with_less_protection(
    scenario: adascale.Scenario, decibels: float | None
) -> adascale.Scenario:
    """Return the scenario in which a part of the noise protects: ``decibels`` of all, as ``--interference`` says."""
    if decibels is None:
        return scenario
    # 0 if it would be more than all, or is below the smallest double
    part = scenario.noise_power * 10 ** (decibels / 10) if decibels <= 0 else 0.0
    if part == 0:
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
    """Read a preset by name or file, or the file of a scenario, which gets the paper's channel."""
    from adascale.files import TABLES, read_toml

    presets = adascale.presets
    # what is neither a preset nor a file is loaded as a preset, whose error lists them
    if (
        name in presets.names()
        or not Path(name).is_file()
        or {*TABLES, "base"} & set(read_toml(name))
    ):
        preset = presets.load(name)
    else:
        scenario = adascale.Scenario.from_toml(name)
        preset = presets.Preset(scenario, adascale.Rayleigh(), {}, ())
    return replace(preset, scenario=with_less_protection(preset.scenario, interference))


def leave_out_numba(options: Namespace) -> None:
    """Prevent Numba's import where it would take longer than the work, unless :func:`main` was called from other code.

    With None in its place, Python imports no such module, and functions run as they do where Numba is not installed.
    """
    if options.own_process:
        sys.modules.setdefault("numba", None)  # type: ignore[arg-type]


def check_outputs(
    inputs: Mapping[str, Path | None], outputs: Mapping[str, Path | None]
) -> None:
    """Check, before any work, that every output can be written and is neither an input nor another output.

    Both map an option, as it is typed, to its file, or to None if it was not given.
    """
    options = {
        path.resolve(): option for option, path in inputs.items() if path is not None
    }
    for option, path in outputs.items():
        if path is None:
            continue
        target = path.resolve()
        if target in options:
            raise ValueError(
                f"{option} {str(path)!r} is the file of {options[target]}; it would be overwritten"
            )
        options[target] = option
        reason = _why_not_written(target)
        if reason:
            raise ValueError(f"{option} {str(path)!r} cannot be written: {reason}")


def _why_not_written(target: Path) -> str:
    """Say why a file cannot be written, "" if it can."""
    folder = target.parent
    if not folder.is_dir():
        return f"there is no folder {str(folder)!r}"
    with contextlib.suppress(FileNotFoundError):  # other errors are the reason
        if not stat.S_ISREG(target.stat().st_mode):
            return "it is not a regular file"
    # files are written next to their destination and then moved
    for path in (target, folder):
        if path.exists() and not os.access(path, os.W_OK):
            return f"{str(path)!r} is read-only"
    return ""
