"""Compute the exact epsilon of Poisson-sampled Gaussian mechanisms in sequence, under add/remove adjacency.

epsilon, also called upper, is proven and holds for every device. estimate is near the exact value, which lies between
lower and upper, but is not proven. rdp is the Renyi conversion at Opacus' orders, a larger proven bound. direction says
which of two values is the larger and so counts: add compares the mixture with the null, and remove the null with the
mixture. Lower bounds are rounded down to six digits, and epsilons and upper bounds up; --json prints all digits.

FILE is a table with a header and one row per round: the column sigma is the noise multiplier, and rate the sampling
rate in [0, 1]; --rate gives one rate for all rounds instead. A column count (or steps) says how often each row counts.
The order of rows does not matter. Lines that begin with # are comments.

For a schedule of this package, give --scenario and, as --eta, the file that adascale schedule --out wrote, or what
adascale stream wrote at all its starts. If the file says in its column made_with that it was made with another scenario
or interference, it is refused. A round with eta 0 was skipped and leaks nothing. If devices differ, epsilon
and its bounds are those of the device that leaks most, which is named (devices are counted from 1), and rdp is the
largest. epsilon_mean, rdp_mean and so on are means over devices, which are no guarantee. With more than 20 kinds of
devices there are no means, as only those kinds are computed to which no other has as large a rate and as little noise.

example:
  adascale epsilon rounds.csv --delta 1e-5 --json
"""

from __future__ import annotations

import argparse
import codecs
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import adascale
from adascale.cli import common, marks
from adascale.tables import Choice, FloatArray, known, read_table

_IGNORED = ("budget_left", "epsilon", "epsilon_mean")
_MOST_KINDS = 20  # of devices, for means: some seconds
_REPEATED = 10_000_000  # most rounds of the Renyi accountant at one rate
# Without compiled code the Renyi accountant takes a tenth of a second up to here, a third of what Numba's import takes.
# Longer schedules are summed from tables, which need it. Where rates differ, all kinds are tried at all orders.
_FAST_ROUNDS, _FAST_KINDS, _FAST_KINDS_OF_RATES = 5000, 48, 4


def run(options: argparse.Namespace) -> None:
    """Print epsilon and its bounds."""
    kinds, number_of_kinds = _schedules(options)
    if options.eta is None and _is_short(kinds[0][0]):
        common.leave_out_numba(options)
    exact = [adascale.accounting.epsilon(rounds, options.delta) for rounds, *_ in kinds]
    with common.noting_orders():
        renyi = [_renyi(rounds, options.delta) for rounds, *_ in kinds]
    worst = max(range(len(kinds)), key=lambda i: exact[i].upper)
    names = {
        "epsilon": "upper",
        "estimate": "estimate",
        "lower": "lower",
        "upper": "upper",
    }
    found = {
        name: [getattr(one, field) for one in exact] for name, field in names.items()
    } | {"rdp": renyi}
    totals: dict[str, Any] = {
        "rounds": int(kinds[0][0][:, 2].sum()),
        "delta": options.delta,
    }
    if number_of_kinds > 1:
        totals["device"] = kinds[worst][2]
    totals |= {key: values[worst] for key, values in found.items()}
    totals |= {"rdp": max(renyi), "direction": exact[worst].direction}
    if 1 < len(kinds) == number_of_kinds:
        weights = [number for _, number, _ in kinds]
        totals |= {
            f"{key}_mean": float(np.average(values, weights=weights))
            for key, values in found.items()
        }
    if not exact[worst].certified:
        common.note(
            f"epsilon is not certified within one per cent: its proofs are {', '.join(exact[worst].ends)}"
        )
    print(common.shown(totals, options.json))


def _schedules(
    options: argparse.Namespace,
) -> tuple[list[tuple[FloatArray, float, int]], int]:
    """Return rates, noise multipliers and counts, number of devices and the first one, for kinds of devices.

    If there are many kinds, it is for those that may leak most; their number in all comes second.
    """
    if (options.file is None) == (options.eta is None):
        raise ValueError(
            "give either a FILE of noise multipliers, or --scenario and --eta"
        )
    if options.eta is None:
        if (options.scenario, options.interference) != (None, None):
            raise ValueError(
                "--scenario and --interference need --eta, a file written by 'adascale schedule --out'"
            )
        return [(common.read_rounds(options.file, options.rate), 1.0, 1)], 1
    if options.scenario is None or options.rate is not None:
        raise ValueError("--eta needs --scenario, which gives the sampling rates")
    scenario = common.read_scenario(options.scenario, options.interference).scenario
    eta = _read_eta(options.eta, scenario, options.interference)
    sent, leakage = eta > 0, adascale.problem.RoundLeakage(scenario)
    first = np.unique(adascale.problem.kind_of_device(scenario), return_index=True)[
        1
    ]  # in the order of the kinds
    number_of_kinds, kinds = leakage.rate.size, []
    few = number_of_kinds <= _MOST_KINDS
    for i in (
        range(number_of_kinds)
        if few
        else adascale.problem.kinds_that_may_leak_most(leakage).tolist()
    ):
        with np.errstate(over="ignore", divide="ignore"):
            sigma = np.sqrt(
                np.where(sent, scenario.noise_scale / eta / leakage.unit[i], 1.0)
            )
        rounds = np.column_stack([sent * leakage.rate[i], sigma, np.ones(eta.size)])
        kinds.append((rounds, float(leakage.count[i]), int(first[i]) + 1))
    return kinds, number_of_kinds


def _read_eta(
    path: Path, scenario: adascale.Scenario, interference: float | None
) -> FloatArray:
    """Read the receive scalings of a schedule, within the power limit if the file has the gains."""
    texts: dict[str, int] = {}
    table = read_table(_answers(path), str(path), _columns(texts))
    common.note(table.unended)
    if texts:
        marks.check(table, texts, scenario, interference)
    else:
        common.note(marks.note_missing(path))
    common.note(marks.check_rounds(table, scenario, (0,) if texts else (0, 1)))
    eta = table.column("eta", lambda x: (x >= 0) & (x < np.inf), "finite and >= 0")
    if "min_gain" in table.names:
        gain = table.column(
            "min_gain", lambda h: (h > 0) & (h < np.inf), "finite and > 0"
        )
        limit = f"at most {scenario.x_max:.6g} * min_gain, the power limit of {scenario.name}"
        table.column("eta", lambda x: x / (1 + 1e-9) <= scenario.x_max * gain, limit)
    marks.check_columns(table, scenario)
    return eta


def _columns(texts: dict[str, int]) -> Callable[[list[str]], Choice]:
    """Return the choice of columns; ``texts`` gets what the rows say that they were made with, in order."""
    plain = known(
        "eta", optional=("min_gain", "floor", "noise_energy"), ignored=_IGNORED
    )

    def choose(names: list[str]) -> Choice:
        columns = plain([name for name in names if name != marks.COLUMN])
        if marks.COLUMN in names:
            columns[marks.COLUMN] = lambda text: float(
                texts.setdefault(text.strip(), len(texts))
            )
        return columns

    return choose


def _answers(path: Path) -> bytes:
    """Read a file without what ``adascale stream`` writes besides one answer per round, in blank lines' place."""
    header, *lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    if b"senders" in header:
        raise ValueError(
            f"{path}: not every device sends; use epsilon of the stream, or of 'adascale schedule'"
        )
    if b"budget_left" in header and header.startswith(
        ",".join(adascale.streaming.Answer._fields[:-1]).encode()
    ):
        first = {line: i for i, line in reversed([*enumerate(lines)])} | {header: -1}
        lines = [
            line * (first[line] == i and not line.startswith(b"error,"))
            for i, line in enumerate(lines)
        ]
    return b"\n".join([header, *lines])


def _is_short(rounds: FloatArray) -> bool:
    """Check that the Renyi accountant is fast without compiled code."""
    kinds = np.unique(rounds[:, :2], axis=0)
    most = _FAST_KINDS if np.ptp(kinds[:, 0]) == 0 else _FAST_KINDS_OF_RATES
    return bool(rounds[:, 2].sum() <= _FAST_ROUNDS) and len(kinds) <= most


def _renyi(rounds: FloatArray, delta: float) -> float:
    """Compute epsilon by the Renyi conversion at Opacus' orders, for rates that may differ."""
    accounting, (rate, sigma, number) = adascale.accounting, rounds[rounds[:, 0] > 0].T
    if rate.size == 0:
        return 0.0
    if (rate == rate[0]).all() and number.sum() <= _REPEATED:
        return float(
            accounting.schedule_epsilon(
                rate[0], np.repeat(sigma, number.astype(int)), delta
            ).epsilon
        )
    pairs, place = np.unique(np.stack([rate, sigma]), axis=1, return_inverse=True)
    count = np.bincount(place.ravel(), number)
    curve = [
        float((count * accounting.rdp(pairs[0], pairs[1], order)).sum())
        for order in accounting.DEFAULT_ORDERS
    ]
    return float(accounting.to_dp(curve, accounting.DEFAULT_ORDERS, delta).epsilon)
