"""Simulate channels and compare what policies leak when each spends nu.

RDP is the Renyi leakage at the scenario's order, summed over rounds; epsilon is that of differential privacy at delta.
Both are means over devices. If devices differ, only the largest epsilon is a guarantee for every device (epsilon_max in
--out and --json). The table shows geometric means over the realisations and, for three or more of them, the 95 % t
interval of the logarithm.

--policy my_module:MyPolicy is your own subclass of adascale.policies.OnlinePolicy, with start and step. The parameter
that its class declares as tuned is tuned until the cost is nu, and is a column of the table; with needs_mean_gain it
is given the mean gains. Your own channel model (--channel) and accountant (--accountant) work in the same way.

In JSON, null means that a number does not exist, and "Infinity" is an unbounded leakage.

example:
  adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --realisations 3 --out leakage.csv
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from adascale.cli import common
from adascale.registry import naming_own_code

if TYPE_CHECKING:
    import pandas as pd

MOST_REALISATIONS = 1_000_000
"""Largest number of realisations; each is a row of the table for every policy and nu."""

PAPER = ("Optimal", "AdaScale", "EqualAlloc", "EstimFuture", "PowerControl", "LyapunovPowerControl")
"""The policies of the paper's figures, in its order."""


def run(options: argparse.Namespace) -> None:
    """Print the means, and write every realisation."""
    from adascale.comparison import find_method, leakage_table
    from adascale.files import json_text

    common.check_outputs(common.input_files("--scenario", options.scenario), {"--out": options.out})
    preset = common.read_scenario(options.scenario)
    if not 1 <= options.realisations <= MOST_REALISATIONS:
        raise ValueError(f"--realisations must be 1 ... {MOST_REALISATIONS}, got {options.realisations}")
    chosen = {}
    for name, make in map(find_method, options.policy or PAPER):
        if name in chosen:
            raise ValueError(f"duplicate --policy {name}")
        chosen[name] = make
    with naming_own_code(), common.noting_orders(options):
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
        raise RuntimeError(f"no policy can spend nu in any realisation: {tried}; nothing was written")
    text = json_text(table.to_dict(orient="records")) if options.json else _summary(reached)
    common.print_and_write(text, {options.out: table})
    for policy, rows in table.groupby("policy", sort=False):
        if unreached := int(rows["cost"].isna().sum()):
            common.note(f"{policy} cannot spend nu in {unreached} of {len(rows)} realisations, which are left out")
        spent = rows["cost"] / rows["nu"]
        if (abs(spent - 1) > 1e-6).any():
            common.note(common.spends(str(policy), spent.min(), spent.max()))


def _summary(table: pd.DataFrame) -> str:
    """Format geometric means with their intervals."""
    import pandas as pd

    rows = []
    for (policy, nu), group in table.groupby(["policy", "nu"], sort=False):
        row = {"policy": policy, "nu": f"{nu:g}", "realisations": len(group)}
        labels = {"rdp": f"RDP({group['order'].iloc[0]:g})", "epsilon_max": "largest epsilon", "epsilon": "epsilon"}
        for column, label in labels.items():
            if column in group:
                row[label], interval = _mean(group[column])
                if len(group) > 2:
                    row[f"{label} 95 %"] = interval
        rows.append(row)
    return str(pd.DataFrame(rows).fillna("").to_string(index=False))


def _mean(values: pd.Series) -> tuple[str, str]:
    """Format a geometric mean and its interval, which does not exist if a leakage has no logarithm."""
    from adascale.statistics import log_interval

    if (values == float("inf")).any():
        return "inf", ""
    centre, low, high = log_interval(values)
    return f"{centre:.4g}", f"{low:.3g} .. {high:.3g}" if centre > 0 else ""
