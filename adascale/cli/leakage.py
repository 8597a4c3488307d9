"""Simulate channels and compare what policies leak at equal noise, or how much noise they need for an epsilon.

For a measured trace there is 'adascale schedule --hindsight'. Exactly one of --nu, --total and --epsilon is given. With
--nu, the mean noise energy is nu above the floor, which is the least at full power. With --total it is equal with its
floor, as is fair between channels with other floors. With --epsilon it is the least at which no device exceeds epsilon.
The nu of --total and --epsilon is found for each realisation from all its rounds, which no server knows before.

kind is optimum, causal, hindsight or reconstruction, and knows is what a policy has besides nu: nothing, the law of the
channel, or gains to come. In each realisation, epsilon is proven and holds for every device, and epsilon_mean is the
mean over devices, which is no guarantee. The table shows medians of floor, total and participation over the
realisations, and geometric means of nu, epsilon and epsilon_mean. With three realisations or more it has 95 % t
intervals of the logarithm, which are narrow for a ratio to --reference, as it is taken within each realisation.
LyapunovPowerControl, of Shi et al., is reconstructed without a reconfigurable surface.

--policy truncated and best:number=8 choose who sends, at the total of the other policies. A parameter that is given, as
in truncated:epsilon=2, is not tuned to --nu, --total or --epsilon.

--policy my_module:MyPolicy is your own subclass of adascale.policies.OnlinePolicy, with start and decide. The parameter
that its class declares as tuned is tuned until the cost is nu, and is a column of --out; with needs_mean_gain it is
given the mean gains. Your own channel model (--channel) and accountant (--accountant) work in the same way.

--plot draws epsilon or the total; 'adascale plot' draws other columns of --out. --format latex needs LaTeX's booktabs.

example:
  adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --out leakage.csv
  adascale leakage --total 0.32 --policy optimal --policy truncated --channel antenna-selection:antennas=4
"""

import argparse
import math
import sys
from typing import TYPE_CHECKING

import adascale
from adascale.cli import common, marks, plot, report

if TYPE_CHECKING:
    import pandas as pd

MOST_REALISATIONS = 1_000_000  # each is a row of the table for every policy and nu

PAPER = (
    "Optimal",
    "AdaScale",
    "EqualAlloc",
    "EstimFuture",
    "PowerControl",
    "LyapunovPowerControl",
)
"""The policies of the paper's figures, in its order."""

SHOWN = {
    "LyapunovPowerControl": "Shi et al., reconstructed, no RIS"
}  # other names in what is printed and drawn


def run(options: argparse.Namespace) -> None:
    """Print the means, and write every realisation."""
    from adascale.files import json_text

    if options.json and options.format != "text":
        raise ValueError(f"--json cannot be combined with --format {options.format}")
    plot.check_name("--plot", options.plot)
    outputs = {"--out": options.out, "--plot": options.plot}
    common.check_outputs(common.input_files("--scenario", options.scenario), outputs)
    given = [name for name in ("nu", "total", "epsilon") if getattr(options, name)]
    if len(given) != 1:
        raise ValueError(
            f"exactly one of --nu, --total and --epsilon is required, got {' and '.join(given) or 'none'}"
        )
    target, levels = given[0], getattr(options, given[0])
    preset = common.read_scenario(options.scenario, options.interference)
    if not 1 <= options.realisations <= MOST_REALISATIONS:
        raise ValueError(
            f"--realisations must be 1 ... {MOST_REALISATIONS}, got {options.realisations}"
        )
    chosen = {}
    for name, make in map(adascale.comparison.find_method, options.policy or PAPER):
        if name in chosen:
            raise ValueError(f"duplicate --policy {name}")
        chosen[name] = make
    reference, make = adascale.comparison.find_method(options.reference or "optimal")
    if options.reference:
        chosen.setdefault(reference, make)
    seeds = range(options.seed, options.seed + options.realisations)
    with common.noting_orders():
        channel = (
            preset.channel
            if options.channel is None
            else common.find_channel(options.channel)
        )
        common.note(options.channel and f"the channel is {channel}")
        accountant = common.find_accountant(options.accountant, options.orders)
        how = {
            "channel": channel,
            "accountant": accountant,
            "delta": options.delta,
            "progress": sys.stderr.isatty(),
        }
        table = adascale.leakage_table(
            preset.scenario, levels, seeds, chosen, target=target, **how
        )
    made_with = {"channel": channel, "accountant": options.accountant, "target": target}
    table[marks.COLUMN] = marks.mark(preset.scenario, options.interference, **made_with)
    key, y = (
        ("nu" if target == "nu" else f"target_{target}"),
        ("total" if target == "epsilon" else "epsilon"),
    )
    reached = table.dropna(subset=["cost"]).assign(
        policy=lambda rows: rows["policy"].replace(SHOWN)
    )
    if reached.empty:
        tried = f"{', '.join(chosen)} at {target} = {', '.join(f'{level:g}' for level in levels)}"
        raise RuntimeError(
            f"no policy can meet --{target} in any realisation: {tried}; nothing was written"
        )
    reference = SHOWN.get(reference, reference)
    text = (
        json_text(table.to_dict("records"))
        if options.json
        else _summary(reached, key, reference, options.format)
    )
    picture = (
        report.picture(report.draw(reached, y, key), options.plot.suffix)
        if options.plot
        else None
    )
    common.print_and_write(text, {options.out: table, options.plot: picture})
    for policy, rows in table.groupby("policy", sort=False):
        if unmet := int(rows["cost"].isna().sum()):
            common.note(
                f"{policy} cannot meet --{target} in {unmet} of {len(rows)} realisations, which are left out"
            )
        alone = (
            target == "nu" and (rows["participation"] < 1).any()
        )  # below the floor of all devices
        shift = rows["floor"] * (alone or target == "total")
        spent = (rows["cost"] + shift) / (rows["nu"] + shift)
        if target != "epsilon" and (abs(spent - 1) > 1e-6).any():
            common.note(
                common.spends(
                    str(policy),
                    spent.min(),
                    spent.max(),
                    "the total" if alone else target,
                )
            )
        if (
            target == "epsilon"
            and (over := (rows["epsilon"] / rows[key]).max()) > 1 + 1e-6
        ):
            why = "its parameter is fixed, and epsilon= is for the exact accountant and one receive chain"
            common.note(f"{policy} has up to {over:.4g} times --epsilon: {why}")


def _summary(table: "pd.DataFrame", key: str, reference: str, form: str) -> str:
    """Format geometric means with their intervals, and ratios to the reference in the same realisations."""
    import pandas as pd

    from adascale.accounting.interval import round_outward
    from adascale.statistics import log_interval

    def geometric(name: str, values: "pd.Series", ends: bool = True) -> dict[str, str]:
        centre, low, high = (
            (math.inf,) * 3 if (values == math.inf).any() else log_interval(values)
        )
        shown = f"{low:.4g} .. {high:.4g}" if 0 < centre < math.inf else ""
        if name == "epsilon":
            centre = round_outward(centre, up=True, digits=4)
        return {name: f"{centre:.4g}"} | (
            {f"{name} 95 %": shown} if ends and len(values) > 2 else {}
        )

    rows, compared = [], ["total", "nu"] if key == "target_epsilon" else ["epsilon"]
    best = table[table["policy"] == reference].set_index([key, "seed"])
    for (policy, level), group in table.groupby(["policy", key], sort=False):
        row = {
            "policy": policy,
            **group.iloc[0][["kind", "knows"]],
            key.replace("_", " "): f"{level:g}",
        }
        row["realisations"] = len(group)
        row |= {
            each: f"{group[each].median():.4g}"
            for each in ("floor", "total", "participation")
        }
        if key != "nu" and (group["nu"] > 0).all():
            row |= geometric("nu", group["nu"], ends=False)
        row |= geometric(f"RDP({group['order'].iloc[0]:g})", group["rdp"], ends=False)
        row |= geometric("epsilon", group["epsilon"]) | geometric(
            "mean epsilon", group["epsilon_mean"], ends=False
        )
        for name in compared if policy != reference else []:
            ratio = (group.set_index([key, "seed"])[name] / best[name]).dropna()
            if len(ratio) and (ratio > 0).all():
                row |= geometric(f"{name} / {reference}", ratio)
        rows.append(row)
    return report.format_table(pd.DataFrame(rows).fillna(""), form)
