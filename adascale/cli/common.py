"""What several subcommands share.  What takes long to import is imported by the functions that need it."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adascale import registry

if TYPE_CHECKING:
    from adascale.presets import Preset


def one_line(error: Exception) -> str:
    """An error's message, without its line breaks."""
    return " ".join(str(error).split())


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """``--scenario``."""
    parser.add_argument(
        "--scenario",
        default="mnist",
        metavar="NAME|FILE",
        help="mnist, cifar10, digits or a TOML file (default: mnist)",
    )


def add_policy(parser: argparse.ArgumentParser, default: str) -> None:
    """``--policy``, one of them."""
    parser.add_argument(
        "--policy", default=default, metavar="NAME", help=f"one of {names('policies')}, or module:Class (default: "
        f"{default})"
    )  # fmt: skip


def add_privacy(parser: argparse.ArgumentParser) -> None:
    """``--delta`` and ``--accountant``."""
    parser.add_argument("--delta", type=float, default=1e-5, help="delta of the DP leakage (default: 1e-5)")
    parser.add_argument(
        "--accountant", default="renyi", metavar="NAME", help=f"what computes epsilon: {names('accountants')}, or "
        "module:Class (default: renyi)"
    )  # fmt: skip


def add_channel(parser: argparse.ArgumentParser) -> None:
    """``--channel``."""
    parser.add_argument(
        "--channel", metavar="NAME", help=f"what channels are drawn from: {names('channels')}, or module:Class, with "
        "parameters as NAME:key=value (default: the preset's)"
    )  # fmt: skip


def names(kind: str) -> str:
    """The registered names of a kind, for a help text."""
    return ", ".join(name.lower() for name in registry.names(kind))


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


def check_writable(path: Path | None, option: str = "--out") -> None:
    """Say so before the work is done, not after it."""
    if path is not None and ((path.exists() and not path.is_file()) or not path.parent.is_dir()):
        raise ValueError(f"{option} {str(path)!r} must be a file in an existing folder")


def learning(module: str) -> Any:
    """A module that needs torch, which the core does without."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; this command needs the extra: pip install 'adascale[learn]'") from None
