"""``adascale leakage``: what the methods leak over simulated channels."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adascale.cli import common

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTION = """\
Simulate channels and report what each method leaks when its cost is tuned to nu.

The columns: RDP is the Renyi leakage at the scenario's order, summed over rounds, mean over devices; epsilon is the
DP leakage at delta, mean over devices; where devices differ, the largest epsilon is the guarantee for every device
(epsilon_max in --out and --json). Each is a geometric mean over the realisations, with its 95 % t interval on the
logarithm from three realisations on: that of two is sound, and too wide to be of use.

A policy of your own is --policy my_module:MyPolicy, a subclass of adascale.policies.OnlinePolicy with start and step.
What its class declares as tuned is matched until the cost is nu, and is a column of the table; with needs_mean_gain it
is given the channel statistics. A channel model (--channel) and an accountant (--accountant) of your own join alike.

In JSON, null stands for what is no number, and "Infinity" for a leakage without a bound."""

MOST_REALISATIONS = 1_000_000
"""Each is a row of the table for every policy and nu."""

PAPER = ("Optimal", "AdaScale", "EqualAlloc", "EstimFuture", "PowerControl", "LyapunovPowerControl")
"""The policies of the paper's figures, in its order."""

EXAMPLE = "adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --realisations 3 --out leakage.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_scenario(parser)
    common.add_privacy(parser)
    common.add_orders(parser)
    common.add_channel(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--nu", type=float, action="append", required=True, help="convergence level; may be repeated")
    parser.add_argument("--realisations", type=int, default=3, metavar="R", help="channel draws (default: 3)")
    common.add_seed(parser, "seed of the first draw; the others follow")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"one of {common.names('policies')}, or module:Class; may be repeated (default: the paper's)",
    )
    parser.add_argument("--out", type=Path, metavar="CSV", help="write every realisation as a row of this file")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    from adascale.comparison import find_method, leakage_table
    from adascale.files import json_text, write_atomically

    common.check_outputs(common.input_files("--scenario", options.scenario), {"--out": options.out})
    preset = common.read_scenario(options.scenario)
    if not 1 <= options.realisations <= MOST_REALISATIONS:
        raise ValueError(f"--realisations must be 1 ... {MOST_REALISATIONS}, got {options.realisations}")
    chosen = {}
    for name, make in map(find_method, options.policy or PAPER):
        if name in chosen:
            raise ValueError(f"--policy names {name} twice")
        chosen[name] = make
    with common.naming_own_code(), common.noting_orders(options):
        table = leakage_table(
            preset.scenario,
            options.nu,
            range(options.seed, options.seed + options.realisations),
            chosen,
            channel=preset.channel if options.channel is None else common.find_channel(options.channel),
            accountant=common.find_accountant(options.accountant, options.orders),
            delta=options.delta,
            progress=sys.stderr.isatty(),
        )
    reached = table.dropna(subset=["cost"])
    if reached.empty:
        tried = f"{', '.join(chosen)} at nu = {', '.join(f'{nu:g}' for nu in options.nu)}"
        raise RuntimeError(f"no policy can spend nu in any run: {tried}; nothing was written")
    records = json_text(table.to_dict(orient="records")) if options.json else None
    try:
        print(records or _summary(reached).to_string(index=False), flush=True)
    finally:  # also where nobody reads it
        if options.out:
            write_atomically(options.out, table)
    for policy, rows in table.groupby("policy", sort=False):
        if unreached := int(rows["cost"].isna().sum()):
            common.note(f"{policy} cannot spend nu in {unreached} of {len(rows)} runs, left out")
        spent = rows["cost"] / rows["nu"]
        if (abs(spent - 1) > 1e-6).any():
            spends = common.spends(spent.min(), spent.max())
            common.note(f"{policy} spends {spends}; leakages compare at equal cost only")


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """Geometric means with intervals, as text."""
    import pandas as pd

    rows = []
    for (policy, nu), group in table.groupby(["policy", "nu"], sort=False):
        row = {"policy": policy, "nu": f"{nu:g}", "realisations": len(group)}
        labels = {"rdp": f"RDP({group['order'].iloc[0]:g})", "epsilon_max": "largest epsilon", "epsilon": "epsilon"}
        for column, label in labels.items():
            if column not in group:
                continue
            row[label], interval = _mean(group[column])
            if len(group) > 2:
                row[f"{label} 95 %"] = interval
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def _mean(values: pd.Series) -> tuple[str, str]:
    """A geometric mean and its interval, as text; without an interval where a leakage has no logarithm."""
    from adascale.statistics import log_interval

    if (values == float("inf")).any():
        return "inf", ""
    centre, low, high = log_interval(values)
    return f"{centre:.4g}", f"{low:.3g} .. {high:.3g}" if centre > 0 else ""
