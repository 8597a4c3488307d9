"""What several subcommands share.  What takes long to import is imported by the functions that need it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adascale import registry
from adascale.registry import naming_own_code as naming_own_code  # which the commands take from here

if TYPE_CHECKING:
    from adascale.accounting import Accountant
    from adascale.channel import ChannelModel
    from adascale.presets import Preset


PARAMETERS = "parameters as NAME:key=value,key=value"
"""How a help text says that a name takes parameters."""


def one_line(error: BaseException) -> str:
    """An error's message, without its line breaks."""
    return " ".join(str(error).split())


def visible(text: str) -> str:
    """The text with its control characters as escapes, such as ``\\x1b``."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def note(text: str | None) -> None:
    """Print a note on standard error, if there is one."""
    if text:
        print(f"note: {' '.join(text.split())}", file=sys.stderr)


def shown(totals: dict[str, Any], as_json: bool, **tables: Any) -> str:
    """Return results as lines of names and values, or as JSON with ``tables``."""
    from adascale.files import json_text

    if as_json:
        return json_text(totals | tables)
    lines = {
        key: f"{value:.6g}" if isinstance(value, float) else visible(f"{value}")
        for key, value in totals.items()
        if value is not None
    }
    return "\n".join(f"{key:<{max(map(len, lines))}} {value}" for key, value in lines.items())


def add_seed(parser: argparse.ArgumentParser, what: str = "the realisation") -> None:
    """``--seed``."""
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help=f"{what} (default: 0)")


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 0 of at most 18 digits, got {text!r}")
    return int(text)


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """``--scenario``."""
    parser.add_argument(
        "--scenario",
        default="mnist",
        metavar="NAME|FILE",
        help="mnist, cifar10, digits or a TOML file (default: mnist)",
    )


def add_policy(parser: argparse.ArgumentParser, default: str, *others: str) -> None:
    """``--policy``, one of them; ``others`` are names that this command knows beside the registered ones."""
    known = ", ".join((names("policies"), *others))
    parser.add_argument(
        "--policy", default=default, metavar="NAME", help=f"one of {known}, or module:Class (default: {default})"
    )


def add_privacy(parser: argparse.ArgumentParser) -> None:
    """``--delta`` and ``--accountant``."""
    parser.add_argument("--delta", type=float, default=1e-5, help="delta of the DP leakage (default: 1e-5)")
    parser.add_argument(
        "--accountant",
        default="renyi",
        metavar="NAME",
        help=f"what computes epsilon: {names('accountants')}, or module:Class; {PARAMETERS} (default: renyi)",
    )


def add_orders(parser: argparse.ArgumentParser) -> None:
    """``--orders``."""
    parser.add_argument(
        "--orders",
        type=_orders,
        metavar="[MIN,]MAX",
        help="the smallest and the largest Renyi order among which epsilon is the least (default: 1.1,63)",
    )


def _orders(text: str) -> tuple[float, ...]:
    """One number or two, as the arguments of :func:`adascale.accounting.order_grid`: the largest comes first."""
    try:
        ends = [float(end) for end in text.split(",")]
    except ValueError:
        ends = []
    if len(ends) not in (1, 2):
        raise argparse.ArgumentTypeError(f"expected MAX or MIN,MAX, got {text!r}")
    return tuple(reversed(ends))


def add_channel(parser: argparse.ArgumentParser) -> None:
    """``--channel``."""
    parser.add_argument(
        "--channel",
        metavar="NAME",
        help=f"what channels are drawn from: {names('channels')}, or module:Class; "
        f"{PARAMETERS} (default: the preset's)",
    )


def names(kind: str) -> str:
    """The registered names of a kind, for a help text."""
    return ", ".join(name.lower() for name in registry.names(kind))


def find_channel(name: str) -> ChannelModel:
    """``--channel``."""
    from adascale import channel

    with _naming("--channel", name):
        return channel.find(name)


def find_accountant(name: str, orders: tuple[float, ...] | None = None) -> Accountant:
    """``--accountant`` with ``--orders``."""
    from adascale import accounting

    with _naming("--accountant", name):
        found = accounting.find(name)
    if orders is None:
        return found
    if found != accounting.RenyiAccountant():
        raise ValueError(f"--orders are those of the accountant renyi, got them with --accountant {name}")
    with _naming("--orders", ",".join(f"{end:g}" for end in reversed(orders))):
        return accounting.RenyiAccountant(accounting.order_grid(*orders))


@contextlib.contextmanager
def _naming(option: str, value: str) -> Iterator[None]:
    """Whatever is wrong with the value of an option names both; a class of the user's may raise what it likes."""
    try:
        yield
    except registry.FAILURES as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{option} {value}: {kind}{one_line(error)}") from error


@contextlib.contextmanager
def noting_orders(options: argparse.Namespace | None = None) -> Iterator[None]:
    """A note at the end, where an epsilon was taken at an end of the orders and one beyond would lower it.

    ``options`` are those of a command that has ``--orders``.
    """
    from adascale.accounting import DEFAULT_ORDERS, OrdersTooFew

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OrdersTooFew)
        yield
    worst, gain = None, 1.0
    for each in caught:
        found = each.message
        if not isinstance(found, OrdersTooFew):
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
        elif found.order and found.better and found.epsilon / found.better > gain:
            worst, gain = found, found.epsilon / found.better
    if worst is None or worst.order is None:
        return
    place, enough = "last", f"{2 ** math.ceil(math.log2(worst.order))}"
    if worst.order < worst.end:
        largest = options.orders[0] if options and options.orders else max(DEFAULT_ORDERS)
        place, enough = "first", f"{1 + (worst.order - 1) / 2:.6g},{largest:g}"
    how = f"with --orders {enough} it is lower" if options else f"order {worst.order:.6g} lowers it"
    note(f"an epsilon is that of the {place} order, {worst.end:g}; {how} ({worst.better:.4g} for {worst.epsilon:.4g})")


def spends(least: float, most: float) -> str:
    """What a method spends, in multiples of nu."""
    ends = [f"{end:.3g}" for end in (least, most)]
    return "nothing" if ends[1] == "0" else f"{' to '.join(dict.fromkeys(ends))} times nu"


def input_files(option: str, name: str) -> dict[str, Path | None]:
    """The files of a scenario or preset, for :func:`check_outputs`: its own, and those of its bases."""
    from adascale.files import preset_chain

    files: dict[str, Path | None] = {option: Path(name)}
    with contextlib.suppress(
        ValueError, OSError
    ):  # a scenario alone is no preset; what is wrong is said when it is read
        chain = preset_chain(name)
        files = {f"the base {str(path)!r} of {option}" if i else option: path for i, (path, _) in enumerate(chain)}
    return files


def read_scenario(name: str) -> Preset:
    """A preset by name, a preset's file, or a file of a scenario alone, which then has the paper's channel."""
    from adascale import presets
    from adascale.channel import Rayleigh
    from adascale.files import TABLES, read_toml
    from adascale.scenario import Scenario

    if name in presets.names():
        return presets.load(name)
    if not Path(name).is_file():
        raise ValueError(f"--scenario {name!r} is neither {', '.join(presets.names())} nor a file")
    if {*TABLES, "base"} & set(read_toml(name)):
        return presets.load(name)
    return presets.Preset(Scenario.from_toml(name), Rayleigh(), {}, ())


def check_outputs(inputs: Mapping[str, Path | None], outputs: Mapping[str, Path | None]) -> None:
    """Before the work is done: every output can be written, and none is an input or another output.

    Parameters
    ----------
    inputs, outputs : mapping
        The files by their option, as it is typed; None for what was not given.

    Raises
    ------
    ValueError
        With the option and the file.
    """
    taken = {option: path for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        if reason := _why_not_written(path):
            raise ValueError(f"{option} {str(path)!r} cannot be written: {reason}")
        for other, known in taken.items():
            if _is_same(path, known):
                raise ValueError(f"{option} {str(path)!r} is the file of {other}; it would be overwritten")
        taken[option] = path


def _why_not_written(path: Path) -> str:
    """What keeps a file from being written; nothing where it can be."""
    try:
        target = path.resolve()  # where a link leads
        if target.is_symlink():
            return "its links lead in a circle"
        if target.is_dir():
            return "it is a folder"
        if not target.parent.is_dir():
            return f"there is no folder {str(target.parent)!r}"
        if target.exists() and not target.is_file():
            return "it is no regular file"
        if target.exists() and not os.access(target, os.W_OK):
            return "it is read-only"
        if not os.access(target.parent, os.W_OK | os.X_OK):  # a file is written beside its place, and moved there
            return f"the folder {str(target.parent)!r} is read-only"
        if target.name in ("", ".", ".."):
            return "it has no name"
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long, a null byte, links in a circle
        return one_line(error)
    return ""


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are one file, by whatever links they lead to it."""
    try:
        if one.exists() and other.exists():
            return os.path.samefile(one, other)
        return one.resolve() == other.resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def learning(module: str) -> Any:
    """A module that needs torch, which the core does without."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; this command needs the extra: pip install 'adascale[learn]'") from None
