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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adascale
from adascale.cli import common
from adascale.errors import InvalidFile
from adascale.files import read_json, read_text

_NEEDED = {"delta": "epsilon", "calibrate": "epsilon", "beta": "alpha"}


def run(options: argparse.Namespace) -> None:
    """Print the quantity and its bounds."""
    common.leave_out_numba(options)
    accounting, events = adascale.accounting, options.event or []
    if options.history:
        events = [*events, *_history(options.history)]
    if not events:
        raise ValueError("give the mechanisms by --event or --history")
    needed = _NEEDED.get(options.quantity)
    for name in ("epsilon", "alpha"):
        if (getattr(options, name) is not None) != (name == needed):
            verb = "needs" if name == needed else "does not take"
            raise ValueError(f"{options.quantity} {verb} --{name}")
    totals: dict[str, Any] = {}
    if options.quantity == "epsilon":
        found = accounting.epsilon(events, options.delta)
    elif options.quantity == "delta":
        found = accounting.delta(events, options.epsilon)
    elif options.quantity == "beta":
        found = accounting.beta(events, options.alpha)
    else:
        calibrated = accounting.calibrate(events, options.epsilon, options.delta)
        found, sigma = calibrated.epsilon, calibrated.noise_multiplier
        totals = {
            "scale": calibrated.scale,
            "noise_multiplier": sigma if len(sigma) > 1 else sigma[0],
        }
    totals |= (
        {"epsilon": found.upper} if options.quantity in ("epsilon", "calibrate") else {}
    )
    totals |= {
        key: value
        for key, value in dataclasses.asdict(found).items()
        if key != "negligible"
    }
    totals |= {
        "certified": found.certified,
        "ends": found.ends if options.json else ", ".join(found.ends),
    }
    if not options.json:
        up = {"safe": found.safe > found.lower, "scale": True, "noise_multiplier": True}
        round_outward = accounting.interval.round_outward
        for name in up.keys() & totals.keys():
            each, way = totals[name], up[name]
            totals[name] = (
                tuple(round_outward(x, way) for x in each)
                if isinstance(each, tuple)
                else round_outward(each, way)
            )
    print(common.shown(totals, options.json))


def _history(path: Path) -> Sequence[Sequence[float]]:
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
        expected = (
            "expected Opacus' history, [[noise multiplier, sampling rate, steps], ...]"
        )
        raise InvalidFile(
            f"{path}: {expected} ({common.one_line(error)})", str(path)
        ) from None
    return events
