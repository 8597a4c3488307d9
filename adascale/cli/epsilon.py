"""Compute the exact epsilon of Poisson-sampled Gaussian mechanisms in sequence, under add/remove adjacency.

epsilon, also called upper, is proven and holds for every device. estimate is near the exact value, which lies between
lower and upper, but is not proven; ends are the names of the proofs. renyi is the Renyi conversion at Opacus' orders, a
larger proven bound. direction says which of two values is the larger and so counts: add compares outputs with the
sample to those without it, and remove the reverse (dp_accounting calls the first one REMOVE and the second one ADD).
Lower bounds are rounded down to six digits, and epsilons and upper bounds up; --json prints all digits. --report prints
what belongs to a published epsilon of one training sample. If you protect something else, such as a client, call
adascale.accounting.report in Python, which takes its name as unit.

Give the mechanisms as --event SAMPLING_RATE,NOISE_MULTIPLIER,COUNT, or as FILE: a table with a header, or JSON, with a
column sigma for the noise multiplier, rate for the sampling rate in [0, 1] and, if a row is several rounds, count
(Opacus' names are read, too); Opacus' history as JSON, which is [[noise multiplier, sampling rate, steps], ...] or an
object with this as "history"; or a checkpoint of Opacus. The order of rows does not matter. Lines of a table that begin
with # are comments.

For a schedule of this package, give --scenario and, as --eta, the file that adascale schedule --out wrote, or what
adascale stream wrote at all its starts. If the file says in its column made_with that it was made with another scenario
or interference, it is refused. A round with eta 0 was skipped and leaks nothing. If devices differ, epsilon
and its bounds are those of the device that leaks most, which is named (devices are counted from 1), and renyi is the
largest. epsilon_mean, renyi_mean and so on are means over devices, which are no guarantee. With more than 20 kinds of
devices there are no means, as only those kinds are computed to which no other has as large a rate and as little noise.

example:
  adascale epsilon --event .01,1.0,500 --event .02,1.5,500 --delta 1e-5 --json
"""

from __future__ import annotations

import argparse
import codecs
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import adascale
from adascale.checks import FloatArray
from adascale.cli import common, marks
from adascale.cli import options as shared
from adascale.cli.events import add_events, events_from
from adascale.cli.options import Parser
from adascale.files import json_text
from adascale.tables import Choice, Choose, read_table
from adascale.text import short, to_number

# columns of a schedule that are read or checked, and what a stream also writes
_COLUMNS = ("eta", "min_gain", "floor", "noise_energy")
_IGNORED = ("budget_left", "epsilon", "epsilon_mean")
# kinds of devices up to which each has its epsilon, for means: some seconds
_MOST_KINDS = 20
# most rounds that are written out for the Renyi accountant: 80 MB
_REPEATED = 10_000_000
# Without compiled code the Renyi accountant takes a tenth of a second up to this many rounds at one rate, or pairs of
# rate and noise multiplier: a third of what Numba's import takes. Twelve rows have at most 36 commas.
_FAST_ROUNDS, _FAST_PAIRS, _FAST_COMMAS = 5000, 12, 36


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_events(parser)
    add = parser.add_argument
    add(
        "--scenario",
        help=f"{shared.PRESETS} or a TOML file, with --eta",
        metavar="NAME|FILE",
    )
    parser.share("interference")
    add(
        "--eta",
        help="file written by 'adascale schedule --out' or 'adascale stream'",
        metavar="CSV",
        type=Path,
    )
    add(
        "--report",
        help="print a report instead: what to publish with epsilon; with --json as JSON",
        choices=("text", "markdown"),
        nargs="?",
        const="text",
    )
    parser.share("delta", "json")


class _Kind(NamedTuple):
    """Devices with the same rounds: their number, and the first of them, from 1."""

    rounds: FloatArray
    """Rate, noise multiplier and count, one row per round."""
    number: float = 1.0
    first: int = 1


def run(options: argparse.Namespace) -> None:
    """Print epsilon and its bounds."""
    _check(options)
    delta = options.delta
    if options.eta is None:
        if _is_short(options):
            common.leave_out_numba(options)
        kinds = [_Kind(np.asarray(events_from(options), dtype=float))]
        number_of_kinds = 1
    else:
        kinds, number_of_kinds = _kinds_of_schedule(options)
    with common.noting_orders():
        bounds = [_bounds(kind.rounds, delta) for kind in kinds]
    worst, worst_kind = max(
        zip(bounds, kinds, strict=True), key=lambda pair: pair[0]["upper"]
    )
    if options.report:
        print(_report(options, worst_kind.rounds, delta))
        return
    rounds = int(worst_kind.rounds[:, 2].sum())
    totals: dict[str, Any] = {"rounds": rounds, "delta": delta}
    if number_of_kinds > 1:
        totals["device"] = worst_kind.first
    totals |= worst | {"renyi": max(one["renyi"] for one in bounds)}
    # the setting counts only the rounds that leak
    totals |= adascale.accounting.setting(worst_kind.rounds) | {"rounds": rounds}
    if 1 < len(kinds) == number_of_kinds:
        weights = [kind.number for kind in kinds]
        for name in ("epsilon", "estimate", "lower", "upper", "renyi"):
            values = [one[name] for one in bounds]
            totals[f"{name}_mean"] = float(np.average(values, weights=weights))
    if not worst["certified"]:
        common.note(
            f"epsilon is not certified within one per cent: its proofs are {worst['ends']}"
        )
    print(common.results_text(totals, options.json))


def _bounds(rounds: FloatArray, delta: float) -> dict[str, Any]:
    """Compute epsilon and its bounds by name; ``ends`` says how they are proven if they are not certified."""
    exact = adascale.accounting.epsilon(rounds, delta)
    return {
        "epsilon": exact.upper,
        "estimate": exact.estimate,
        "lower": exact.lower,
        "upper": exact.upper,
        "renyi": _renyi(rounds, delta),
        "direction": exact.direction,
        "certified": exact.certified,
        "ends": ", ".join(exact.ends),
    }


def _report(options: argparse.Namespace, rounds: FloatArray, delta: float) -> str:
    """Return the report of a training as text, Markdown or JSON."""
    unit = "one training sample" + (" of one device" if options.eta else "")
    report = adascale.accounting.report(rounds, delta, unit)
    if options.json:
        return json_text(report)
    return str(report) if options.report == "text" else report._repr_markdown_()


def _check(options: argparse.Namespace) -> None:
    """Check options that depend on each other."""
    has_eta = options.eta is not None
    has_scenario = options.scenario is not None
    if has_eta and (options.file or options.event):
        raise ValueError("give either FILE and --event, or --scenario and --eta")
    if has_eta and not has_scenario:
        raise ValueError("--eta needs --scenario, which gives the sampling rates")
    if not has_eta and (has_scenario or options.interference is not None):
        raise ValueError(
            "--scenario and --interference need --eta, a file written by 'adascale schedule --out'"
        )


def _kinds_of_schedule(options: argparse.Namespace) -> tuple[list[_Kind], int]:
    """Return the kinds of devices of a schedule, those that may leak most if there are many, and the number of all."""
    scenario = common.read_scenario(options.scenario, options.interference).scenario
    eta = _read_eta(options.eta, scenario, options.interference)
    problem = adascale.problem
    leakage = problem.RoundLeakage(scenario)
    first = np.unique(problem.kind_of_device(scenario), return_index=True)[1]
    number_of_kinds = leakage.rate.size
    chosen = np.arange(number_of_kinds)
    if number_of_kinds > _MOST_KINDS:
        chosen = problem.kinds_that_may_leak_most(leakage)
    sent = eta > 0
    kinds = []
    for i in chosen.tolist():
        with np.errstate(over="ignore", divide="ignore"):
            # where nothing is sent, the rate is 0, and any noise multiplier will do
            squared = scenario.noise_scale / eta / leakage.unit_energy[i]
            sigma = np.sqrt(np.where(sent, squared, 1.0))
        rounds = np.column_stack([sent * leakage.rate[i], sigma, np.ones(eta.size)])
        kinds.append(_Kind(rounds, float(leakage.multiplicity[i]), int(first[i]) + 1))
    return kinds, number_of_kinds


def _read_eta(
    path: Path, scenario: adascale.Scenario, interference: float | None
) -> FloatArray:
    """Read the receive scalings of a schedule, within the power limit if the file has the gains."""
    texts: dict[str, int] = {}
    table = read_table(_without_restarts(path), str(path), _columns(texts))
    common.note(table.unended)
    if texts:
        marks.check(table, texts, scenario, interference)
    else:
        common.note(
            f"{path} has no column {marks.COLUMN}, so that only its numbers were checked against the scenario"
        )
    # our own files begin with round 0, others may with 1
    common.note(marks.check_rounds(table, scenario, (0,) if texts else (0, 1)))
    eta = table.column("eta", lambda x: (x >= 0) & (x < np.inf), "finite and >= 0")
    if "min_gain" in table.names:
        gain = table.column(
            "min_gain", lambda h: (h > 0) & (h < np.inf), "finite and > 0"
        )
        limit = f"at most {scenario.x_max:.6g} * min_gain, the power limit of {scenario.name}"
        # with the rounding that a Problem allows
        table.column("eta", lambda x: x / (1 + 1e-9) <= scenario.x_max * gain, limit)
    marks.check_columns(table, scenario)
    return eta


def _columns(texts: dict[str, int]) -> Choose:
    """Return the choice of columns; as a table has only numbers, ``texts`` gets the marks of rows, numbered."""

    def choose(names: list[str]) -> Choice:
        others = [name for name in names if name != marks.COLUMN]
        allowed = (*_COLUMNS, *_IGNORED)
        if "eta" not in others or not {*others} <= {*allowed}:
            got, expected = short(",".join(others)), ", ".join(allowed)
            raise ValueError(f"got the columns {got}, expected {expected}")
        columns: Choice = {name: to_number for name in _COLUMNS if name in others}
        if marks.COLUMN in names:
            columns[marks.COLUMN] = lambda text: float(
                texts.setdefault(text.strip(), len(texts))
            )
        return columns

    return choose


def _without_restarts(path: Path) -> bytes:
    """Read a file, with blank lines for what ``adascale stream`` writes besides one answer per round.

    These are errors, and the headers and answers that a later start writes again.  Lines keep their numbers.
    """
    header, *lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    if b"senders" in header:
        raise ValueError(
            f"{path}: not every device sends; use epsilon of the stream, or of 'adascale schedule'"
        )
    begin = ",".join(adascale.streaming.Answer._fields[:3]).encode()
    if header.startswith(begin) and b"epsilon_mean" in header:
        answered = {header}
        for i, line in enumerate(lines):
            if line in answered or line.startswith(b"error,"):
                lines[i] = b""
            answered.add(line)
    return b"\n".join([header, *lines])


def _is_short(options: argparse.Namespace) -> bool:
    """Guess, before slow imports, that there are few rows: by commas, at most three per row."""
    commas = 3 * len(options.event or [])
    if options.file is not None:
        commas += options.file.read_bytes().count(b",")
    return commas <= _FAST_COMMAS


def _renyi(rounds: FloatArray, delta: float) -> float:
    """Compute epsilon by the Renyi conversion at Opacus' orders, for rates that may differ.

    Rounds at one rate, if they are few or differ much, are written out for the accountant of schedules, which looks at
    few orders.  Otherwise each pair of rate and noise multiplier is computed once, at every order.
    """
    accounting = adascale.accounting
    rate, sigma, repetitions = rounds[rounds[:, 0] > 0].T
    if rate.size == 0:
        return 0.0
    pairs, place = np.unique(np.stack([rate, sigma]), axis=1, return_inverse=True)
    total = repetitions.sum()
    is_varied = pairs.shape[1] > _FAST_PAIRS and total <= _REPEATED
    if (rate == rate[0]).all() and (is_varied or total <= _FAST_ROUNDS):
        repeated = np.repeat(sigma, repetitions.astype(int))
        return float(accounting.schedule_epsilon(rate[0], repeated, delta).epsilon)
    count = np.bincount(place.ravel(), repetitions)
    curve = [
        float((count * accounting.rdp(pairs[0], pairs[1], order)).sum())
        for order in accounting.DEFAULT_ORDERS
    ]
    return float(accounting.to_dp(curve, accounting.DEFAULT_ORDERS, delta).epsilon)
