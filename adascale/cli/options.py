"""The parser of the command line, and the options that several commands share."""

import argparse
import math
from pathlib import Path
from typing import Any, NoReturn

from adascale import registry
from adascale.text import short, to_number, to_whole

PRESETS = "mnist, cifar10, digits"


class _Once(argparse.Action):
    """Store the value of an option, and refuse a second one; arguments by position come once anyway."""

    is_set = False

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: str | None = None
    ) -> None:
        if self.is_set and option:
            raise argparse.ArgumentError(
                self, f"may be given once, got {short(str(values))} as well"
            )
        self.is_set = True
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, which reads numbers as tables do.

    An option is given once, unless its action collects values.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **(options | {"allow_abbrev": False}))
        self.register("action", None, _Once)
        self.register("type", int, _whole)
        self.register("type", float, _number)

    def share(self, *names: str, more: str = "", **how: Any) -> None:
        """Add options of :data:`SHARED`; ``more`` is added to their help, ``how`` to their other arguments."""
        for name in names:
            option = SHARED[name] | how
            option["help"] += more
            self.add_argument(f"--{name}", **option)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2, without the usage."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def _names(kind: str) -> str:
    """Return what can be given for a kind of :data:`adascale.registry.NAMES`, for help."""
    names = ", ".join(registry.names(kind)).lower()
    return f"{names}, or module:Class; parameters as NAME:key=value,key=value"


_EXACT = " (default: renyi, or exact with --epsilon)"  # see common.accountant_name

READING = (
    "unit",
    "transmit-power",
    "gaps",
    "sensitivity",
    "max-gaps",
    "round-time",
    "resource-blocks",
    "columns",
    "axes",
    "variable",
)
"""The options of measured gains, which are the fields of :class:`adascale.channel.Reading`."""

SHARED: dict[str, dict[str, Any]] = {
    "scenario": {
        "help": f"{PRESETS} or a TOML file",
        "default": "mnist",
        "metavar": "NAME|FILE",
    },
    "interference": {
        "help": "dB <= 0 of noise_power that protect: the server cannot decode or cancel this part, but can the rest",
        "metavar": "DB",
        "type": float,
    },
    "unit": {
        "help": "unit of the gains; loss is path loss in dB, dbm is received power",
        "choices": ("linear", "db", "loss", "dbm", "csi"),
        "default": "linear",
    },
    "transmit-power": {
        "help": "power of a device, with --unit dbm",
        "metavar": "DBM",
        "type": float,
    },
    "gaps": {
        "help": "what missing values are: errors, or filled",
        "choices": ("refuse", "hold", "floor"),
        "default": "refuse",
    },
    "sensitivity": {
        "help": "value of a gap, with --gaps floor",
        "metavar": "VALUE",
        "type": float,
    },
    "max-gaps": {
        "help": "share of the values that may be missing, with --gaps hold or floor",
        "metavar": "SHARE",
        "type": float,
        "default": 0.1,
    },
    "round-time": {
        "help": "time of a round, such as 1, if the clocks of links differ: "
        "in seconds for ISO 8601, else as in the file",
        "metavar": "S",
        "type": float,
    },
    "resource-blocks": {
        "help": "number of resource blocks over which --transmit-power is spread, if values are RSRP",
        "metavar": "N",
        "type": int,
    },
    "columns": {
        "help": "columns of a table to read, by their names in it; the others are ignored",
        "metavar": "[ROLE=]NAME,...",
    },
    "axes": {
        "help": "what each axis of an array is: round, device, subcarrier, even-subcarrier, antenna, transmit or path",
        "metavar": "AXIS,...",
    },
    "variable": {"help": "name of the array in its file", "metavar": "NAME"},
    "split": {
        "help": "share of the trace that is the past; the rest is ",
        "metavar": "S",
        "type": float,
    },
    "policy": {"help": f"one of {_names('policies')}", "metavar": "NAME"},
    "past": {
        "help": "earlier trace of the same links, in the same form and unit",
        "type": Path,
    },
    "nu": {
        "help": "noise budget: mean noise energy per round above the floor",
        "type": float,
    },
    "epsilon": {
        "help": "epsilon that no device exceeds on any channel, in place of --nu (privacybudget, truncated)",
        "type": float,
    },
    "channel": {
        "help": f"channel model: {_names('channels')} (default: the preset's; chains is one, but all for beamforming)",
        "metavar": "NAME",
    },
    "accountant": {
        "help": f"accountant of epsilon: {_names('accountants')}",
        "metavar": "NAME",
    },
    "delta": {"help": "delta of every epsilon", "type": float, "default": 1e-5},
    "orders": {
        "help": "range of Renyi orders over which epsilon is minimised (default: 1.1,63)",
        "type": lambda text: to_numbers(text, 1, 2, "MAX or MIN,MAX")[::-1],
        "metavar": "[MIN,]MAX",
    },
    "dataset": {
        "help": f"{PRESETS}, a preset file or module:function",
        "default": "digits",
        "metavar": "NAME|FILE",
    },
    "seed": {
        "help": "seed of the first realisation",
        "type": lambda text: _whole(text, 0, "must be a whole number >= 0"),
        "default": 0,
        "metavar": "N",
    },
    "rounds": {
        "help": "use only the first N rounds of the channel",
        "type": int,
        "metavar": "N",
    },
    "device": {"help": "cpu or cuda", "default": "cpu"},
    "jobs": {
        "help": "number of processes on this machine (default: 1)",
        "type": int,
        "metavar": "N",
    },
    "scheduler": {
        "help": "Dask scheduler whose workers do the work, such as tcp://10.0.0.1:8786 (extra: cluster)",
        "metavar": "ADDRESS",
    },
    "out": {"help": "write ", "metavar": "CSV", "type": Path},
    "json": {
        "help": 'print JSON, with null where a number does not exist, and "Infinity" without a bound',
        "action": "store_true",
    },
}
"""The arguments of ``add_argument`` for the options of several commands.

Help that ends in a blank is completed by the command, see :meth:`Parser.share`.
``orders`` are arguments of :func:`adascale.accounting.order_grid`, largest first.
"""


def share_causal_policy(parser: Parser) -> None:
    """Add the policy that decides round by round, and what it may know before the first round."""
    default = " (default: learn, or privacybudget with --epsilon)"
    parser.share("policy", more=default)
    parser.share("past", "nu", "epsilon")


def share_epsilon(parser: Parser, *more: str) -> None:
    """Add how epsilon is computed, and ``more`` shared options."""
    parser.share("accountant", more=_EXACT)
    parser.share("delta", *more)


def _number(text: str) -> float:
    value = to_number(text)
    if value is None or not math.isfinite(value):
        raise argparse.ArgumentTypeError(
            f"expected a finite number without a unit, got {short(text)}"
        )
    return value


def _whole(
    text: str, least: float = -math.inf, expected: str = "expected a whole number"
) -> int:
    """Return a whole number >= ``least``; an error begins with ``expected``."""
    value = to_whole(text)
    if value is None or value < least:
        raise argparse.ArgumentTypeError(
            f"{expected} of at most 18 digits, got {short(text)}"
        )
    return value


def to_numbers(text: str, least: int, most: int, form: str) -> tuple[float, ...]:
    """Return finite numbers that are separated by commas: ``least`` to ``most`` of them, or an error with the form."""
    values = [to_number(field) for field in text.split(",")]
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    if len(numbers) < len(values) or not least <= len(values) <= most:
        raise argparse.ArgumentTypeError(f"expected {form}, got {short(text)}")
    return tuple(numbers)
