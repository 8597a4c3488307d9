"""Simulate channels and compare what policies leak when each spends nu.

RDP is the Renyi leakage at the scenario's order, summed over rounds; epsilon is that of differential privacy at delta.
Both are means over devices. If devices differ, only the largest epsilon is a guarantee for every device (epsilon_max in
--out and --json). The table shows geometric means over the realisations and, for three or more of them, the 95 % t
interval of the logarithm.

--policy my_module:MyPolicy is your own subclass of adascale.policies.OnlinePolicy, with start and step. The parameter
that its class declares as tuned is tuned until the cost is nu, and is a column of the table; with needs_mean_gain it
is given the mean gains. Your own channel model (--channel) and accountant (--accountant) work in the same way.

In JSON, null means that a number does not exist, and "Infinity" is an unbounded leakage.

--plot draws epsilon against nu; 'adascale plot' draws other columns of --out. --format latex needs LaTeX's booktabs.

example:
  adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --realisations 3 --out leakage.csv
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING

import adascale
from adascale.cli import common, plot, report

if TYPE_CHECKING:
    import pandas as pd

MOST_REALISATIONS = 1_000_000  # each is a row of the table for every policy and nu

PAPER = ("Optimal", "AdaScale", "EqualAlloc", "EstimFuture", "PowerControl", "LyapunovPowerControl")
"""The policies of the paper's figures, in its order."""


def run(options: argparse.Namespace) -> None:
    """Print the means, and write every realisation."""
    from adascale.files import json_text

    if options.json and options.format != "text":
        raise ValueError(f"--json cannot be combined with --format {options.format}")
    plot.check_name("--plot", options.plot)
    outputs = {"--out": options.out, "--plot": options.plot}
    common.check_outputs(common.input_files("--scenario", options.scenario), outputs)
    preset = common.read_scenario(options.scenario, options.interference)
    if not 1 <= options.realisations <= MOST_REALISATIONS:
        raise ValueError(f"--realisations must be 1 ... {MOST_REALISATIONS}, got {options.realisations}")
    chosen = {}
    for name, make in map(adascale.comparison.find_method, options.policy or PAPER):
        if name in chosen:
            raise ValueError(f"duplicate --policy {name}")
        chosen[name] = make
    seeds = range(options.seed, options.seed + options.realisations)
    with common.noting_orders():
        channel = preset.channel if options.channel is None else common.find_channel(options.channel)
        accountant = common.find_accountant(options.accountant, options.orders)
        how = {"channel": channel, "accountant": accountant, "delta": options.delta, "progress": sys.stderr.isatty()}
        table = adascale.leakage_table(preset.scenario, options.nu, seeds, chosen, **how)
    reached = table.dropna(subset=["cost"])
    if reached.empty:
        tried = f"{', '.join(chosen)} at nu = {', '.join(f'{nu:g}' for nu in options.nu)}"
        raise RuntimeError(f"no policy can spend nu in any realisation: {tried}; nothing was written")
    text = json_text(table.to_dict(orient="records")) if options.json else _summary(reached, options.format)
    picture = report.picture(report.draw(reached), options.plot.suffix) if options.plot else None
    common.print_and_write(text, {options.out: table, options.plot: picture})
    for policy, rows in table.groupby("policy", sort=False):
        if unreached := int(rows["cost"].isna().sum()):
            common.note(f"{policy} cannot spend nu in {unreached} of {len(rows)} realisations, which are left out")
        spent = rows["cost"] / rows["nu"]
        if (abs(spent - 1) > 1e-6).any():
            common.note(common.spends(str(policy), spent.min(), spent.max()))


def _summary(table: pd.DataFrame, form: str) -> str:
    """Format geometric means, and their intervals where a leakage has a logarithm."""
    import pandas as pd

    from adascale.statistics import log_interval

    rows = []
    for (policy, nu), group in table.groupby(["policy", "nu"], sort=False):
        row = {"policy": policy, "nu": f"{nu:g}", "realisations": len(group)}
        labels = {"rdp": f"RDP({group['order'].iloc[0]:g})", "epsilon_max": "largest epsilon", "epsilon": "epsilon"}
        for column, label in labels.items():
            if column in group:
                infinite = bool((group[column] == math.inf).any())
                centre, low, high = (math.inf,) * 3 if infinite else log_interval(group[column])
                row[label] = f"{centre:.4g}"
                if len(group) > 2:
                    row[f"{label} 95 %"] = f"{low:.3g} .. {high:.3g}" if 0 < centre < math.inf else ""
        rows.append(row)
    return report.format_table(pd.DataFrame(rows).fillna(""), form)
