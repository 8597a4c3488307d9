"""The options of all subcommands, and the parsing of their values."""

import argparse
import math
import re
from pathlib import Path
from typing import Any, NoReturn

from adascale import registry
from adascale.text import short, to_number, to_whole


class _Once(argparse.Action):
    """Store the value of an option, and refuse a second one."""

    given = False

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: str | None = None
    ) -> None:
        if self.given and option:
            raise argparse.ArgumentError(
                self, f"may be given once, got {short(str(values))} as well"
            )
        self.given = True
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


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the arguments of a subcommand."""

    def option(name: str, commands: str, text: str, **how: Any) -> None:
        if command in commands.split():
            kinds = {
                kind: ", ".join(registry.names(kind)).lower()
                for kind in re.findall(r"{(\w+)}", text)
            }
            parser.add_argument(name, help=text.format(**kinds), **how)

    preset, more = (
        "mnist, cifar10, digits",
        "or module:Class; parameters as NAME:key=value,key=value",
    )
    policy, network = (
        f"one of {{policies}}, {more}",
        "network: {models}, or module:Class (default: the preset's)",
    )
    wide = "range of Renyi orders over which epsilon is minimised (default: 1.1,63)"
    budget = "noise budget: mean noise energy per round above the floor"
    path, integer, number, switch = (
        {"type": Path},
        {"type": int},
        {"type": float},
        {"action": "store_true"},
    )
    file, several, policies = "NAME|FILE", {"action": "append"}, {"metavar": "NAME"}
    option(
        "file",
        "epsilon",
        "table with the columns sigma and rate",
        nargs="?",
        metavar="FILE",
        **path,
    )
    option(
        "quantity",
        "accounting",
        "what to compute",
        choices=("epsilon", "delta", "calibrate", "beta"),
    )
    event = (
        "sampling rate, noise multiplier and, unless it is 1, count; may be repeated"
    )
    option(
        "--event",
        "accounting",
        event,
        type=_event,
        metavar="Q,SIGMA[,COUNT]",
        action="append",
    )
    option(
        "--history",
        "accounting",
        "Opacus' JSON, or a table of sigma, rate and count",
        metavar="FILE",
        **path,
    )
    option(
        "--epsilon",
        "accounting",
        "epsilon of delta, and the target of calibrate",
        **number,
    )
    option("--alpha", "accounting", "false-alarm rate of beta", **number)
    option("file", "plot", "a table with a header", metavar="TABLE.csv", **path)
    option("picture", "plot", "the figure", metavar="FILE.pdf|png|svg", **path)
    option(
        "--x", "plot", "column of the horizontal axis", metavar="COLUMN", default="nu"
    )
    option(
        "--y",
        "plot",
        "column of the vertical axis",
        metavar="COLUMN",
        default="epsilon",
    )
    option(
        "--by",
        "plot",
        "column with a line per value; repeatable (default: policy)",
        metavar="COLUMN",
        **several,
    )
    option(
        "--linear",
        "plot",
        "axes that are linear, not logarithmic",
        choices=("x", "y", "xy"),
    )
    option("file", "sweep", "the sweep file", metavar="FILE.toml", **path)
    option(
        "--scenario",
        "leakage schedule stream",
        f"{preset} or a TOML file",
        default="mnist",
        metavar=file,
    )
    option(
        "--scenario", "epsilon", f"{preset} or a TOML file, with --eta", metavar=file
    )
    option(
        "--dataset",
        "train audit",
        f"{preset}, a preset file or module:function",
        default="digits",
        metavar=file,
    )
    decibels = "dB <= 0 of noise_power that protect: the server cannot decode or cancel this part, but can the rest"
    option(
        "--interference",
        "leakage schedule stream train epsilon",
        decibels,
        metavar="DB",
        **number,
    )
    option(
        "--gains",
        "schedule",
        "the channel trace",
        required=True,
        metavar="FILE",
        **path,
    )
    unit, gaps = (
        {"choices": ("linear", "db", "dbm", "csi")},
        {"choices": ("refuse", "hold", "floor")},
    )
    option(
        "--unit",
        "schedule stream",
        "unit of the gains; dbm is received power",
        default="linear",
        **unit,
    )
    option(
        "--transmit-power",
        "schedule stream",
        "power of a device, with --unit dbm",
        metavar="DBM",
        **number,
    )
    option(
        "--gaps",
        "schedule stream",
        "what missing values are: errors, or filled",
        default="refuse",
        **gaps,
    )
    option(
        "--sensitivity",
        "schedule stream",
        "value of a gap, with --gaps floor",
        metavar="VALUE",
        **number,
    )
    share = "share of the values that may be missing, with --gaps hold or floor (default: 0.1)"
    option("--max-gaps", "schedule stream", share, metavar="SHARE", **number)
    option(
        "--round-time",
        "schedule stream",
        "time of a round, if the clocks of links differ",
        metavar="S",
        **number,
    )
    option(
        "--split",
        "schedule",
        "share of the trace that is the past; the rest is scheduled",
        metavar="S",
        **number,
    )
    option(
        "--policy",
        "leakage",
        f"{policy}; may be repeated (default: the paper's)",
        **several,
        **policies,
    )
    option(
        "--policy",
        "benchmark",
        f"{policy}; added to those of the version; may be repeated",
        **several,
        **policies,
    )
    option(
        "--policy",
        "schedule stream",
        f"{policy} (default: learn, or equalalloc with --epsilon)",
        **policies,
    )
    option(
        "--policy", "train", f"{policy}, or noisefree", default="adascale", **policies
    )
    option("--policy", "audit", policy, default="learn", **policies)
    option(
        "--past",
        "schedule stream",
        "earlier trace of the same links, in the same form and unit",
        **path,
    )
    option(
        "--hindsight",
        "schedule",
        "tune and plan on the whole trace, as the paper does",
        **switch,
    )
    option("--nu", "leakage", f"{budget}; may be repeated", **several, **number)
    option(
        "--nu",
        "schedule stream train audit",
        budget,
        required=command in ("train", "audit"),
        **number,
    )
    option(
        "--total",
        "leakage",
        "total noise energy per round, floor included; may be repeated",
        **several,
        **number,
    )
    option(
        "--epsilon",
        "leakage",
        "epsilon that no device exceeds; may be repeated",
        **several,
        **number,
    )
    bound = "epsilon of every device, known before the first round, in place of --nu (equalalloc, truncated)"
    option("--epsilon", "schedule stream", bound, **number)
    option(
        "--reference",
        "leakage",
        "policy to compare the others with (default: optimal, if given)",
        **policies,
    )
    option("--model", "train", network, metavar="NAME")
    channel = f"channel model: {{channels}}, {more} (default: the preset's; chains is one, but all for beamforming)"
    option("--channel", "leakage train", channel, metavar="NAME")
    option(
        "--realisations",
        "leakage",
        "number of channel realisations",
        default=20,
        metavar="R",
        **integer,
    )
    option(
        "--seed",
        "leakage train audit",
        "seed of the first realisation",
        type=_seed,
        default=0,
        metavar="N",
    )
    option(
        "--rounds",
        "train audit",
        "use only the first N rounds of the channel",
        metavar="N",
        **integer,
    )
    option(
        "--every",
        "train",
        "evaluate every K rounds",
        default=25,
        metavar="K",
        **integer,
    )
    option(
        "--canaries",
        "audit",
        "number of canaries per training run",
        default=1000,
        metavar="K",
        **integer,
    )
    option(
        "--runs",
        "audit",
        "number of training runs, with consecutive seeds",
        default=1,
        metavar="N",
        **integer,
    )
    option(
        "--confidence",
        "audit",
        "joint confidence level of all bounds",
        default=0.95,
        **number,
    )
    option(
        "--rate",
        "epsilon",
        "sampling rate of every round, if FILE has no column rate",
        **number,
    )
    option(
        "--eta",
        "epsilon",
        "file written by 'adascale schedule --out' or 'adascale stream'",
        metavar="CSV",
        **path,
    )
    option(
        "--version",
        "benchmark",
        "version of the benchmark",
        choices=("1",),
        required=True,
    )
    option(
        "--train",
        "benchmark",
        "add the scenario digits, with test accuracies",
        **switch,
    )
    accountant = f"accountant of epsilon: {{accountants}}, {more}"
    option(
        "--accountant",
        "benchmark",
        f"{accountant} (default: the version's)",
        metavar="NAME",
    )
    option("--accountant", "leakage train", accountant, default="renyi", metavar="NAME")
    option(
        "--accountant",
        "schedule",
        f"{accountant} (default: renyi, or exact with --epsilon)",
        metavar="NAME",
    )
    all_but_sweep = "leakage schedule stream train audit epsilon accounting"
    option("--delta", all_but_sweep, "delta of every epsilon", default=1e-5, **number)
    option(
        "--orders", "leakage schedule stream", wide, type=_orders, metavar="[MIN,]MAX"
    )
    option("--device", "train sweep", "cpu or cuda", default="cpu")
    option(
        "--jobs",
        "sweep",
        "number of processes on this machine",
        default=1,
        metavar="N",
        **integer,
    )
    option(
        "--threads",
        "sweep",
        "PyTorch threads per process",
        default=1,
        metavar="N",
        **integer,
    )
    option(
        "--report",
        "sweep",
        "start no runs; show progress and write the results so far",
        **switch,
    )
    option(
        "--store",
        "train",
        "folder of checkpoints and results, used to resume",
        metavar="DIR",
        **path,
    )
    option(
        "--store",
        "sweep",
        "folder of the runs, used to resume",
        default=Path("runs"),
        metavar="DIR",
        **path,
    )
    option(
        "--state",
        "stream",
        "file of the completed rounds, used to resume",
        required=True,
        metavar="FILE",
        **path,
    )
    option(
        "--out",
        "benchmark",
        "folder of the files",
        required=True,
        metavar="DIR",
        **path,
    )
    option(
        "--out",
        "leakage",
        "write one row per realisation, policy and level",
        metavar="CSV",
        **path,
    )
    option(
        "--plot",
        "leakage",
        "write a figure for a paper: .pdf, .png or .svg (extra: plot)",
        metavar="FILE",
        **path,
    )
    forms = ("text", "csv", "markdown", "latex")
    option(
        "--format",
        "leakage",
        "form of the printed table; latex is for booktabs",
        choices=forms,
        default="text",
    )
    columns = "write round, min_gain, floor, noise_energy and eta; for truncated and best also number and senders"
    option("--out", "schedule", columns, metavar="CSV", **path)
    option("--out", "train", "write the result, one row", metavar="CSV", **path)
    option(
        "--out", "sweep", "write the table (default: FILE.csv)", metavar="CSV", **path
    )
    option("--history", "train", "write one row per round", metavar="CSV", **path)
    form = 'print JSON, with null where a number does not exist, and "Infinity" without a bound'
    option("--json", "leakage schedule train audit epsilon accounting", form, **switch)


def _seed(text: str) -> int:
    if (value := to_whole(text)) is None or value < 0:
        raise argparse.ArgumentTypeError(
            f"must be a whole number >= 0 of at most 18 digits, got {short(text)}"
        )
    return value


def _number(text: str) -> float:
    if (value := to_number(text)) is None or not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {short(text)}")
    return value


def _whole(text: str) -> int:
    if (value := to_whole(text)) is None:
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at most 18 digits, got {short(text)}"
        )
    return value


def _event(text: str) -> tuple[float, ...]:
    """Parse ``Q,SIGMA`` or ``Q,SIGMA,COUNT``."""
    return _numbers(text, 2, 3, "Q,SIGMA or Q,SIGMA,COUNT")


def _orders(text: str) -> tuple[float, ...]:
    """Parse ``MAX`` or ``MIN,MAX`` to the arguments of :func:`adascale.accounting.order_grid`, largest first."""
    return _numbers(text, 1, 2, "MAX or MIN,MAX")[::-1]


def _numbers(text: str, least: int, most: int, form: str) -> tuple[float, ...]:
    values = [to_number(field) for field in text.split(",")]
    if not least <= len(values) <= most or not all(
        value is not None and math.isfinite(value) for value in values
    ):
        raise argparse.ArgumentTypeError(f"expected {form}, got {short(text)}")
    return tuple(value for value in values if value is not None)
