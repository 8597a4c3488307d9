"""Compute epsilon, delta, noise multipliers or a miss rate of sampled Gaussian mechanisms, between proven bounds.

Give the mechanisms as --event SAMPLING_RATE,NOISE_MULTIPLIER,COUNT, or a log of a training as --history: Opacus'
history as JSON, which is [[noise multiplier, sampling rate, steps], ...] or an object with this as "history", or a
table with the columns sigma, rate and count. calibrate finds the least common factor of all noise multipliers, so give
them as 1 to find the noise multiplier itself. beta is the smallest miss rate of a test with the false-alarm rate
--alpha. The exact value lies between lower and upper, which are proven; epsilon is the upper bound, and estimate is
near the exact value, but not proven. safe is the bound that does not understate the leakage. Lower bounds are rounded
down to six digits, and upper bounds and noise multipliers up; --json prints all digits.

example:
  adascale accounting epsilon --event .01,1.0,500 --event .02,1.5,500 --delta 1e-5 --json
"""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import adascale
from adascale.cli import common
from adascale.cli import options as shared
from adascale.errors import InvalidFile
from adascale.files import read_json, read_text

_NEEDED = {"delta": "epsilon", "calibrate": "epsilon", "beta": "alpha"}
"""The option that a quantity needs."""


def add_options(parser: shared.Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("quantity", help="what to compute", choices=("epsilon", *_NEEDED))
    add(
        "--event",
        help="sampling rate, noise multiplier and, unless it is 1, count; may be repeated",
        type=lambda text: shared.to_numbers(text, 2, 3, "Q,SIGMA or Q,SIGMA,COUNT"),
        metavar="Q,SIGMA[,COUNT]",
        action="append",
    )
    add(
        "--history",
        help="Opacus' JSON, or a table of sigma, rate and count",
        metavar="FILE",
        type=Path,
    )
    add(
        "--epsilon",
        help="epsilon of delta, and the target of calibrate",
        type=float,
    )
    add("--alpha", help="false-alarm rate of beta", type=float)
    shared.add_delta(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Print the quantity and its bounds."""
    common.leave_out_numba(options)
    events = [*(options.event or [])]
    if options.history:
        events += _read_history(options.history)
    if not events:
        raise ValueError("give the mechanisms by --event or --history")
    quantity, needed = options.quantity, _NEEDED.get(options.quantity)
    for name in ("epsilon", "alpha"):
        if (getattr(options, name) is not None) != (name == needed):
            verb = "needs" if name == needed else "does not take"
            raise ValueError(f"{quantity} {verb} --{name}")
    totals, interval = _compute(options, events)
    if quantity in ("epsilon", "calibrate"):
        totals["epsilon"] = interval.upper
    totals |= dataclasses.asdict(interval)
    del totals["negligible"]
    totals |= {"certified": interval.certified, "ends": interval.ends}
    if not options.json:
        round_outward = adascale.accounting.interval.round_outward
        totals["ends"] = ", ".join(interval.ends)
        up = interval.safe > interval.lower
        totals["safe"] = round_outward(interval.safe, up)
        for name in {"scale", "noise_multiplier"} & totals.keys():
            totals[name] = _rounded_up(totals[name])
    print(common.shown(totals, options.json))


def _compute(
    options: argparse.Namespace, events: list[Any]
) -> tuple[dict[str, Any], Any]:
    """Return the interval of the quantity, and what calibrate found besides."""
    accounting, epsilon, delta = adascale.accounting, options.epsilon, options.delta
    if options.quantity == "calibrate":
        calibrated = accounting.calibrate(events, epsilon, delta)
        sigma = calibrated.noise_multiplier
        totals = {
            "scale": calibrated.scale,
            "noise_multiplier": sigma if len(sigma) > 1 else sigma[0],
        }
        return totals, calibrated.epsilon
    quantities: dict[str, tuple[Callable[..., Any], float]] = {
        "epsilon": (accounting.epsilon, delta),
        "delta": (accounting.delta, epsilon),
        "beta": (accounting.beta, options.alpha),
    }
    function, argument = quantities[options.quantity]
    return {}, function(events, argument)


def _rounded_up(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_rounded_up, value))
    return adascale.accounting.interval.round_outward(value, up=True)


def _read_history(path: Path) -> Sequence[Sequence[float]]:
    """Read a log of a training, as Opacus' history or as a table."""
    if not read_text(path).lstrip().startswith(("[", "{")):
        return [tuple(row) for row in common.read_rounds(path, None).tolist()]
    content = read_json(path)
    try:
        rows = content["history"] if isinstance(content, dict) else content
        if not rows:
            raise ValueError("it has no rows")
        events = [(rate, sigma, steps) for sigma, rate, steps in rows]
        adascale.accounting.events.compose_events(events)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidFile(
            f"{path}: expected Opacus' history, [[noise multiplier, sampling rate, steps], ...] "
            f"({common.one_line(error)})",
            str(path),
        ) from None
    return events
