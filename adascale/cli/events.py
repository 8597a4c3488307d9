"""Options and results that the commands of the accountant share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import adascale
from adascale.cli import common
from adascale.cli import options as shared
from adascale.cli.options import Parser
from adascale.text import short, to_number


def add_events(parser: Parser) -> None:
    """Add the mechanisms, as options and as a file."""
    add = parser.add_argument
    add(
        "file",
        help="table or log of a training, with a column sigma, a column rate, and count if a row is several rounds; "
        "Opacus' names, JSON, and its history or checkpoint are read as well",
        nargs="?",
        metavar="FILE",
        type=Path,
    )
    add(
        "--columns",
        help="columns of FILE if it has others, or a number for all rows, as in rate=0.01,sigma=noise",
        metavar="NAME=COLUMN,...",
    )
    add(
        "--event",
        help="sampling rate, noise multiplier and, unless it is 1, count; may be repeated",
        type=_to_event,
        metavar="Q,SIGMA[,COUNT]",
        action="append",
    )


def add_search(parser: Parser) -> None:
    """Add the mechanisms, the epsilon to be met by a search, and what is also released."""
    add_events(parser)
    parser.add_argument(
        "--epsilon", help="largest epsilon that is allowed", type=float, required=True
    )
    parser.add_argument(
        "--fixed",
        help="event that is also released and stays as it is, such as an earlier phase; may be repeated",
        type=_to_event,
        metavar="Q,SIGMA[,COUNT]",
        action="append",
        default=[],
    )
    parser.share("delta", "json")


def events_from(options: argparse.Namespace) -> Any:
    """Return the events of the file and of the options, as rows of rate, noise multiplier and count."""
    if options.file is None and options.columns:
        raise ValueError("--columns needs a FILE")
    if options.file is None and not options.event:
        raise ValueError("give the mechanisms by FILE or --event")
    rows = [(*event, 1.0)[:3] for event in options.event or []]  # 1 without a count
    if options.file is None:
        return rows
    columns = _to_columns(options.columns) if options.columns else None
    content = adascale.accounting.read_events(options.file, columns)
    return np.vstack([content, *rows])


def print_bound(
    options: argparse.Namespace, quantity: str, up: bool = True, **parameters: float
) -> None:
    """Print the upper bound, or unless ``up`` the lower one, of a quantity of the accountant, and the interval.

    ``quantity`` names a function of :mod:`adascale.accounting` of the events and, in this order, the ``parameters``.
    """
    common.leave_out_numba(options)
    events = events_from(options)
    interval = getattr(adascale.accounting, quantity)(events, *parameters.values())
    safe = rounded(options, interval.upper if up else interval.lower, up)
    print_interval(options, events, interval, **{quantity: safe}, **parameters)


def print_interval(
    options: argparse.Namespace, events: Any, interval: Any, **first: Any
) -> None:
    """Print the safe bound and what was asked, which are ``first``, then the interval and what else belongs to it."""
    accounting = adascale.accounting
    setting = accounting.setting(events)
    ends = interval.ends if options.json else ", ".join(interval.ends)
    bounds = {
        "lower": interval.lower,
        "upper": interval.upper,
        "estimate": interval.estimate,
        "direction": interval.direction,
        "certified": interval.certified,
        "ends": ends,
    }
    print(common.results_text(first | bounds | setting, options.json))


def search(options: argparse.Namespace, find: Any) -> tuple[Any, Any]:
    """Return the events, and what ``find``, a search of the accountant, returns for the epsilon of the options."""
    common.leave_out_numba(options)
    events = events_from(options)
    return events, find(events, options.epsilon, options.delta, options.fixed)


def rounded(options: argparse.Namespace, value: float, up: bool = True) -> float:
    """Return a bound for printing, rounded up or down to six digits, or as it is if --json prints all digits."""
    if options.json:
        return value
    return adascale.accounting.interval.round_outward(value, up)


def _to_event(text: str) -> tuple[float, ...]:
    return tuple(shared.to_numbers(text, 2, 3, "Q,SIGMA or Q,SIGMA,COUNT"))


def _to_columns(text: str) -> dict[str, str | float]:
    """Return by name a column of FILE, or a number for all rows."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    columns: dict[str, str | float] = {}
    for name, _, column in pairs:
        number = to_number(column)
        columns[name] = column if number is None else number
    if len(columns) < len(pairs) or "" in columns.values():
        raise ValueError(f"--columns: expected NAME=COLUMN,..., got {short(text)}")
    return columns
