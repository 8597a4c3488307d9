"""Compute the exact epsilon of Poisson-sampled Gaussian mechanisms in sequence, under add/remove adjacency.

lower and upper are proven bounds, and rdp is the Renyi conversion at Opacus' orders. direction says which of two values
is the larger and so counts: add compares the mixture with the null, and remove the null with the mixture.

FILE is a table with a header and one row per round: the column sigma is the noise multiplier, and rate the sampling
rate in [0, 1]; --rate gives one rate for all rounds instead. A column steps says how often each row
counts. The order of rows does not matter. Lines that begin with # are comments.

For a schedule of this package, give --scenario and, as --eta, the file that adascale schedule --out or adascale stream
wrote. A round with eta 0 was skipped and leaks nothing. If devices differ, epsilon, lower, upper and rdp are means over
devices, as in adascale schedule, and epsilon_max, lower_max and so on are the largest: upper_max is the guarantee for
every device.

example:
  adascale epsilon rounds.csv --delta 1e-5 --json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adascale
from adascale.cli import common

if TYPE_CHECKING:
    from adascale.tables import FloatArray, Table

_MOST_ROUNDS = 10_000_000  # largest sum of the steps of a table


def run(options: argparse.Namespace) -> None:
    """Print epsilon and its bounds."""
    import numpy as np

    kinds = _schedules(options)
    exact = [adascale.exact_epsilon(rate, sigma, options.delta) for rate, sigma, _ in kinds]
    with common.noting_orders():
        renyi = [_renyi(rate, sigma, options.delta) for rate, sigma, _ in kinds]
    weights = np.array([weight for *_, weight in kinds])
    found = {each: [getattr(one, each) for one in exact] for each in ("epsilon", "lower", "upper")} | {"rdp": renyi}
    totals: dict[str, Any] = {"rounds": kinds[0][1].size, "delta": options.delta}
    if len(kinds) > 1:
        totals |= {f"{key}_max": max(values) for key, values in found.items()}
    totals |= {key: float(weights @ np.array(values) / weights.sum()) for key, values in found.items()}
    totals["direction"] = max(exact, key=lambda one: one.epsilon).direction
    print(common.shown(totals, options.json))


def _schedules(options: argparse.Namespace) -> list[tuple[FloatArray, FloatArray, float]]:
    """Return rates, noise multipliers and number of devices for every kind of device."""
    import numpy as np

    from adascale.problem import RoundLeakage

    if (options.file is None) == (options.eta is None):
        raise ValueError("give either a FILE of noise multipliers, or --scenario and --eta")
    if options.eta is None:
        if options.scenario is not None:
            raise ValueError("--scenario needs --eta, the file written by 'adascale schedule --out'")
        return [(*_read(options.file, options.rate), 1.0)]
    if options.scenario is None or options.rate is not None:
        raise ValueError("--eta needs --scenario, which gives the sampling rates")
    scenario = common.read_scenario(options.scenario).scenario
    eta = _read_eta(options.eta, scenario)
    with np.errstate(over="ignore", divide="ignore"):
        energy, sent, devices = scenario.noise_scale / eta, eta > 0, RoundLeakage(scenario)
    kinds = zip(devices.rate, devices.unit, devices.count, strict=True)
    return [(sent * rate, np.sqrt(np.where(sent, energy / unit, 1.0)), float(number)) for rate, unit, number in kinds]


def _read(path: Path, rate: float | None) -> tuple[FloatArray, FloatArray]:
    """Read rates and noise multipliers."""
    import numpy as np

    table = _table(path, "sigma", optional=("rate", "steps"))
    sigma = table.column("sigma", lambda s: (s >= 1e-6) & (s <= 1e150), "within 1e-6 ... 1e150")
    if "rate" in table.names:
        rates = table.column("rate", lambda q: (q >= 0) & (q <= 1), "in [0, 1]")
        if rate is not None:
            raise ValueError(f"{path}: --rate cannot be combined with a column rate")
    elif rate is None:
        raise ValueError(f"{path}: expected a column rate, or --rate")
    elif not 0 <= rate <= 1:
        raise ValueError(f"--rate must be in [0, 1], got {rate}")
    else:
        rates = np.full(sigma.size, rate)
    if "steps" in table.names:
        steps = table.column("steps", lambda n: (n >= 1) & (n == np.floor(n)), "whole and >= 1")
        if steps.sum() > _MOST_ROUNDS:
            raise ValueError(f"{path}: steps must add up to at most {_MOST_ROUNDS:,}, got {steps.sum():,.0f}")
        rates, sigma = (np.repeat(each, steps.astype(int)) for each in (rates, sigma))
    return rates, sigma


def _read_eta(path: Path, scenario: adascale.Scenario) -> FloatArray:
    """Read the receive scalings of a schedule, within the power limit if the file has the gains."""
    infinity = float("inf")
    table = _table(path, "eta", optional=("min_gain",), ignored=("floor", "noise_energy", "budget_left", "epsilon"))
    eta = table.column("eta", lambda x: (x >= 0) & (x < infinity), "finite and >= 0")
    if "min_gain" in table.names:
        gain = table.column("min_gain", lambda h: (h > 0) & (h < infinity), "finite and > 0")
        limit = f"at most {scenario.x_max:.6g} * min_gain, the power limit of {scenario.name}"
        table.column("eta", lambda x: x / (1 + 1e-9) <= scenario.x_max * gain, limit)
    return eta


def _table(path: Path, required: str, optional: tuple[str, ...], ignored: tuple[str, ...] = ()) -> Table:
    from adascale.tables import known, read_table

    table = read_table(path.read_bytes(), str(path), known(required, optional=optional, ignored=ignored))
    common.note(table.unended)
    return table


def _renyi(rate: FloatArray, sigma: FloatArray, delta: float) -> float:
    """Compute epsilon by the Renyi conversion at Opacus' orders, for rates that may differ."""
    import numpy as np

    accounting, rate, sigma = adascale.accounting, rate[rate > 0], sigma[rate > 0]
    if rate.size == 0:
        return 0.0
    if (rate == rate[0]).all():
        return float(accounting.schedule_epsilon(rate[0], sigma, delta).epsilon)
    pairs, count = np.unique(np.stack([rate, sigma]), axis=1, return_counts=True)
    curve = [float(count @ accounting.rdp(pairs[0], pairs[1], order)) for order in accounting.DEFAULT_ORDERS]
    return float(accounting.to_dp(curve, accounting.DEFAULT_ORDERS, delta).epsilon)
