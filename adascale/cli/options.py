"""The parser of the command line, and the options that several commands share."""

import argparse
import math
from pathlib import Path
from typing import Any, NoReturn

from adascale import registry
from adascale.text import short, to_number, to_whole

PRESETS = "mnist, cifar10, digits"


class _Once(argparse.Action):
    """Store the value of an option, and refuse a second one."""

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

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2, without the usage."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def add_scenario(parser: Parser) -> None:
    """Add the scenario and its interference."""
    parser.add_argument(
        "--scenario",
        help=f"{PRESETS} or a TOML file",
        default="mnist",
        metavar="NAME|FILE",
    )
    add_interference(parser)


def add_interference(parser: Parser) -> None:
    """Add the part of the noise that protects."""
    parser.add_argument(
        "--interference",
        help="dB <= 0 of noise_power that protect: the server cannot decode or cancel this part, but can the rest",
        metavar="DB",
        type=float,
    )


def add_reading(parser: Parser) -> None:
    """Add the unit and the gaps of gains that were measured."""
    add = parser.add_argument
    add(
        "--unit",
        help="unit of the gains; loss is path loss in dB, dbm is received power",
        choices=("linear", "db", "loss", "dbm", "csi"),
        default="linear",
    )
    add(
        "--transmit-power",
        help="power of a device, with --unit dbm",
        metavar="DBM",
        type=float,
    )
    add(
        "--gaps",
        help="what missing values are: errors, or filled",
        choices=("refuse", "hold", "floor"),
        default="refuse",
    )
    add(
        "--sensitivity",
        help="value of a gap, with --gaps floor",
        metavar="VALUE",
        type=float,
    )
    add(
        "--max-gaps",
        help="share of the values that may be missing, with --gaps hold or floor (default: 0.1)",
        metavar="SHARE",
        type=float,
    )
    add(
        "--round-time",
        help="time of a round, such as 1, if the clocks of links differ: in seconds for ISO 8601, else as in the file",
        metavar="S",
        type=float,
    )
    add(
        "--resource-blocks",
        help="number of resource blocks over which --transmit-power is spread, if values are RSRP",
        metavar="N",
        type=int,
    )
    add(
        "--columns",
        help="columns of a table to read, by their names in it; the others are ignored",
        metavar="[ROLE=]NAME,...",
    )
    add(
        "--axes",
        help="what each axis of an array is: round, device, subcarrier, even-subcarrier, antenna, transmit or path",
        metavar="AXIS,...",
    )
    add("--variable", help="name of the array in its file", metavar="NAME")


def add_split(parser: Parser, more: str) -> None:
    """Add the part of a trace that is the past; ``more`` says what is done with the rest."""
    text = f"share of the trace that is the past; the rest is {more}"
    parser.add_argument("--split", help=text, metavar="S", type=float)


def add_causal_policy(parser: Parser) -> None:
    """Add the policy that decides round by round, and what it may know before the first round."""
    add_policy(parser, " (default: learn, or privacybudget with --epsilon)")
    parser.add_argument(
        "--past",
        help="earlier trace of the same links, in the same form and unit",
        type=Path,
    )
    add_budget(parser)
    add_epsilon(parser, "privacybudget, truncated")


def add_policy(parser: Parser, more: str = "", **how: Any) -> None:
    """Add the policy; ``more`` is added to its help text."""
    text = f"one of {_names('policies')}{more}"
    parser.add_argument("--policy", help=text, metavar="NAME", **how)


def add_budget(parser: Parser, more: str = "", **how: Any) -> None:
    """Add the noise budget."""
    text = f"noise budget: mean noise energy per round above the floor{more}"
    parser.add_argument("--nu", help=text, type=float, **how)


def add_epsilon(parser: Parser, policies: str) -> None:
    """Add the privacy budget."""
    text = (
        f"epsilon that no device exceeds on any channel, in place of --nu ({policies})"
    )
    parser.add_argument("--epsilon", help=text, type=float)


def add_channel(parser: Parser) -> None:
    """Add the channel model."""
    text = f"channel model: {_names('channels')} (default: the preset's; chains is one, but all for beamforming)"
    parser.add_argument("--channel", help=text, metavar="NAME")


EXACT_WITH_EPSILON = " (default: renyi, or exact with --epsilon)"


def add_accountant(
    parser: Parser, more: str = "", default: str | None = "renyi"
) -> None:
    """Add the accountant of epsilon."""
    text = f"accountant of epsilon: {_names('accountants')}{more}"
    parser.add_argument("--accountant", help=text, metavar="NAME", default=default)


def add_delta(parser: Parser) -> None:
    """Add delta."""
    parser.add_argument(
        "--delta", help="delta of every epsilon", type=float, default=1e-5
    )


def add_orders(parser: Parser) -> None:
    """Add the Renyi orders: arguments of :func:`adascale.accounting.order_grid`, largest first."""
    parser.add_argument(
        "--orders",
        help="range of Renyi orders over which epsilon is minimised (default: 1.1,63)",
        type=lambda text: to_numbers(text, 1, 2, "MAX or MIN,MAX")[::-1],
        metavar="[MIN,]MAX",
    )


def add_dataset(parser: Parser) -> None:
    """Add the data set of a training."""
    parser.add_argument(
        "--dataset",
        help=f"{PRESETS}, a preset file or module:function",
        default="digits",
        metavar="NAME|FILE",
    )


def add_seed(parser: Parser) -> None:
    """Add the seed of the first realisation."""
    parser.add_argument(
        "--seed",
        help="seed of the first realisation",
        type=_seed,
        default=0,
        metavar="N",
    )


def add_rounds(parser: Parser) -> None:
    """Add a shorter horizon."""
    parser.add_argument(
        "--rounds",
        help="use only the first N rounds of the channel",
        type=int,
        metavar="N",
    )


def add_device(parser: Parser) -> None:
    """Add the device of PyTorch."""
    parser.add_argument("--device", help="cpu or cuda", default="cpu")


def add_jobs(parser: Parser) -> None:
    """Add where the work is done."""
    add = parser.add_argument
    add(
        "--jobs",
        help="number of processes on this machine (default: 1)",
        type=int,
        metavar="N",
    )
    text = "Dask scheduler whose workers do the work, such as tcp://10.0.0.1:8786 (extra: cluster)"
    add("--scheduler", help=text, metavar="ADDRESS")


def add_out(parser: Parser, text: str) -> None:
    """Add the table to write."""
    parser.add_argument("--out", help=text, metavar="CSV", type=Path)


def add_json(parser: Parser) -> None:
    """Add the form of what is printed."""
    text = 'print JSON, with null where a number does not exist, and "Infinity" without a bound'
    parser.add_argument("--json", help=text, action="store_true")


def _names(kind: str) -> str:
    names = ", ".join(registry.names(kind)).lower()
    return f"{names}, or module:Class; parameters as NAME:key=value,key=value"


def _seed(text: str) -> int:
    value = to_whole(text)
    if value is None or value < 0:
        raise argparse.ArgumentTypeError(
            f"must be a whole number >= 0 of at most 18 digits, got {short(text)}"
        )
    return value


def _number(text: str) -> float:
    value = to_number(text)
    if value is None or not math.isfinite(value):
        raise argparse.ArgumentTypeError(
            f"expected a finite number without a unit, got {short(text)}"
        )
    return value


def _whole(text: str) -> int:
    value = to_whole(text)
    if value is None:
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at most 18 digits, got {short(text)}"
        )
    return value


def to_numbers(text: str, least: int, most: int, form: str) -> tuple[float, ...]:
    """Return finite numbers, ``least`` to ``most``, that are separated by commas."""
    values = [to_number(field) for field in text.split(",")]
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    if len(numbers) < len(values) or not least <= len(values) <= most:
        raise argparse.ArgumentTypeError(f"expected {form}, got {short(text)}")
    return tuple(numbers)
