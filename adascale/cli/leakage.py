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
DP leakage at delta, mean over devices. Each is a geometric mean over the realisations, with its 95 % t interval on the
logarithm from two realisations on.

A policy of your own is --policy my_module:MyPolicy, a subclass of adascale.policies.OnlinePolicy with start and step.
What its class declares as tuned is matched until the cost is nu, and is a column of the table; with needs_mean_gain it
is given the channel statistics. A channel model (--channel) and an accountant (--accountant) of your own join alike."""

EXAMPLE = "adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --realisations 3 --out leakage.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_scenario(parser)
    common.add_privacy(parser)
    common.add_channel(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--nu", type=float, action="append", required=True, help="convergence level; may be repeated")
    parser.add_argument("--realisations", type=int, default=3, metavar="R", help="channel draws (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw; the others follow (default: 0)")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"one of {common.names('policies')}, or module:Class; may be repeated (default: the paper's)",
    )
    parser.add_argument("--out", type=Path, metavar="CSV", help="write every realisation as a row of this file")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    from adascale import accounting, channel
    from adascale.comparison import find_method, leakage_table
    from adascale.files import write_atomically
    from adascale.paper.methods import METHODS

    preset = common.read_scenario(options.scenario)
    if options.realisations < 1:
        raise ValueError(f"--realisations must be >= 1, got {options.realisations}")
    chosen = {}
    for name, make in map(find_method, options.policy or METHODS):
        if name in chosen:
            raise ValueError(f"--policy names {name} twice")
        chosen[name] = make
    common.check_writable(options.out)
    table = leakage_table(
        preset.scenario,
        options.nu,
        range(options.seed, options.seed + options.realisations),
        chosen,
        channel=preset.channel if options.channel is None else channel.find(options.channel),
        accountant=accounting.find(options.accountant),
        delta=options.delta,
        progress=sys.stderr.isatty(),
    )
    if options.out:
        write_atomically(options.out, table)
    if options.json:
        print(table.to_json(orient="records", indent=1))
    else:
        print(_summary(table.dropna(subset=["cost"])).to_string(index=False))
    for policy, rows in table.groupby("policy", sort=False):
        if unreached := int(rows["cost"].isna().sum()):
            print(f"note: {policy} cannot spend nu in {unreached} of {len(rows)} runs, left out", file=sys.stderr)
        spent = rows["cost"] / rows["nu"]
        if (abs(spent - 1) > 1e-6).any():
            print(f"note: {policy} spends {spent.min():.3g} to {spent.max():.3g} times nu; leakages compare at equal "
                  "cost only", file=sys.stderr)  # fmt: skip


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """Geometric means with intervals, as text."""
    import pandas as pd

    from adascale.statistics import log_interval

    rows = []
    for (policy, nu), group in table.groupby(["policy", "nu"], sort=False):
        row = {"policy": policy, "nu": f"{nu:g}", "realisations": len(group)}
        for column, label in (("rdp", f"RDP({group['order'].iloc[0]:g})"), ("epsilon", "epsilon")):
            centre, low, high = log_interval(group[column])
            row[label] = f"{centre:.4g}"
            if len(group) > 1:
                row[f"{label} 95 %"] = f"{low:.3g} .. {high:.3g}"
        rows.append(row)
    return pd.DataFrame(rows)
