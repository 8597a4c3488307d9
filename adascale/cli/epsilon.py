"""``adascale epsilon``: the exact epsilon of a schedule of noise multipliers, between proven bounds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adascale.cli import common

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

DESCRIPTION = """\
The exact epsilon of Poisson-sampled Gaussian mechanisms in sequence, under add/remove adjacency, and a lower and an
upper bound that are proven. Beside it stands the value of the Renyi conversion at Opacus' orders (rdp).

FILE is a table with a header and one row a round: the column sigma is the noise multiplier, and rate the sampling rate
in [0, 1]; --rate gives one rate for all rounds instead. The order of rows does not matter, nor do other columns. #
begins a comment.

For a schedule of this package, give --scenario and, as --eta, the file that adascale schedule --out wrote. Where
devices differ, every number is the mean over devices, as in adascale schedule.

direction is add where the mixture is compared with the null, and remove the other way: the larger counts."""

EXAMPLE = "adascale epsilon rounds.csv --delta 1e-5 --json"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="a table with the columns sigma and rate")
    parser.add_argument("--delta", type=float, default=1e-5, help="delta of the DP leakage (default: 1e-5)")
    parser.add_argument("--rate", type=float, help="the sampling rate of every round, where FILE has no column rate")
    parser.add_argument("--scenario", metavar="NAME|FILE", help="mnist, cifar10, digits or a TOML file, with --eta")
    parser.add_argument("--eta", type=Path, metavar="CSV", help="what adascale schedule --out wrote")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    import numpy as np

    from adascale import accounting
    from adascale.files import json_text

    kinds = _schedules(options)
    exact = [accounting.exact_epsilon(rate, sigma, options.delta) for rate, sigma, _ in kinds]
    with common.noting_orders():
        renyi = [_renyi(rate, sigma, options.delta) for rate, sigma, _ in kinds]
    weights = np.array([weight for *_, weight in kinds])
    largest = max(range(len(exact)), key=lambda i: exact[i].epsilon)

    def mean(values: list[float]) -> float:
        return float(weights @ np.array(values) / weights.sum())

    totals: dict[str, Any] = {
        "rounds": kinds[0][1].size,
        "delta": options.delta,
        "epsilon": mean([each.epsilon for each in exact]),
        "lower": mean([each.lower for each in exact]),
        "upper": mean([each.upper for each in exact]),
        "rdp": mean(renyi),
        "direction": exact[largest].direction,
    }
    if options.json:
        print(json_text(totals))
        return
    common.print_totals(totals)


def _schedules(options: argparse.Namespace) -> list[tuple[FloatArray, FloatArray, float]]:
    """Rates, noise multipliers and number of devices of every kind."""
    import numpy as np

    if (options.file is None) == (options.eta is None):
        raise ValueError("give a FILE of noise multipliers, or --scenario and --eta, and not both")
    if options.eta is None:
        if options.scenario is not None:
            raise ValueError("--scenario goes with --eta, the file that adascale schedule --out wrote")
        return [_read(options.file, options.rate)]
    if options.scenario is None or options.rate is not None:
        raise ValueError("--eta needs --scenario, which gives the sampling rates")
    scenario = common.read_scenario(options.scenario).scenario
    eta = _column(_table(options.eta), options.eta, "eta", 0.0, np.inf)
    rate = np.broadcast_to(np.asarray(scenario.sampling_rate, dtype=float), scenario.num_devices)
    size = np.broadcast_to(np.asarray(scenario.batch_size, dtype=float), scenario.num_devices)
    kinds, first, count = np.unique(np.stack([rate, size]), axis=1, return_index=True, return_counts=True)
    del kinds
    root = np.sqrt(scenario.noise_scale / eta / (2 * scenario.num_parameters))
    unit = scenario.num_devices / scenario.clip_norm
    return [(np.full(eta.size, rate[i]), unit * size[i] * root, float(n)) for i, n in zip(first, count, strict=True)]


def _read(path: Path, rate: float | None) -> tuple[FloatArray, FloatArray, float]:
    import numpy as np

    table = _table(path)
    sigma = _column(table, path, "sigma", 0.0, np.inf)
    if rate is None:
        if "rate" not in table.columns:
            raise ValueError(f"{path}: expected a column rate beside sigma, or --rate; got {_listed(table)}")
        return _column(table, path, "rate", -np.finfo(float).tiny, 1.0), sigma, 1.0
    if "rate" in table.columns:
        raise ValueError(f"{path} has a column rate; leave out --rate")
    if not 0 <= rate <= 1:
        raise ValueError(f"--rate must be in [0, 1], got {rate}")
    return np.full(sigma.size, rate), sigma, 1.0


def _table(path: Path) -> pd.DataFrame:
    """A table of text, every entry as it stands."""
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, comment="#", skipinitialspace=True, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: expected a table with a header, separated by commas: {common.one_line(error)}"
        ) from None
    table.columns = table.columns.str.strip()
    if table.empty:
        raise ValueError(f"{path}: expected a row a round below the header, got none")
    return table


def _column(table: pd.DataFrame, path: Path, name: str, above: float, most: float) -> FloatArray:
    """The numbers of a column, each > above, <= most and finite."""
    import numpy as np
    import pandas as pd

    if list(table.columns).count(name) != 1:
        raise ValueError(f"{path}: expected one column {name}, got {_listed(table)}")
    values: FloatArray = pd.to_numeric(table[name].str.strip(), errors="coerce").to_numpy(dtype=float)
    good = np.isfinite(values) & (values > above) & (values <= most)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        wanted = "in [0, 1]" if name == "rate" else "finite and > 0"
        raise ValueError(f"{path}: expected a {name} that is {wanted} in row {row + 1}, got {table[name].iloc[row]!r}")
    return values


def _listed(table: pd.DataFrame) -> str:
    return ", ".join(map(repr, table.columns[:8]))


def _renyi(rate: FloatArray, sigma: FloatArray, delta: float) -> float:
    """The Renyi conversion at Opacus' orders, for rates that may differ."""
    import numpy as np

    from adascale import accounting

    rate, sigma = rate[rate > 0], sigma[rate > 0]
    if rate.size == 0:
        return 0.0
    if (rate == rate[0]).all():
        return float(accounting.schedule_epsilon(rate[0], sigma, delta).epsilon)
    pairs, count = np.unique(np.stack([rate, sigma]), axis=1, return_counts=True)
    curve = [float(count @ accounting.rdp(pairs[0], pairs[1], order)) for order in accounting.DEFAULT_ORDERS]
    return float(accounting.to_dp(curve, accounting.DEFAULT_ORDERS, delta).epsilon)
