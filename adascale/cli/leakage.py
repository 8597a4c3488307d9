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
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adascale
from adascale.cli import common, marks, plot, report
from adascale.cli import options as shared

if TYPE_CHECKING:
    import pandas as pd

    from adascale.comparison import Method

TARGETS = ("nu", "total", "epsilon")
MOST_REALISATIONS = 1_000_000  # each is a row of the table for every policy and nu

SHOWN = {"LyapunovPowerControl": "Shi et al., reconstructed, no RIS"}
"""Names in what is printed and drawn, where they differ from those in the table."""


def add_options(parser: shared.Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    repeated: Any = {"action": "append"}
    shared.add_scenario(parser)
    shared.add_policy(parser, "; may be repeated (default: the paper's)", **repeated)
    shared.add_budget(parser, "; may be repeated", **repeated)
    add(
        "--total",
        help="total noise energy per round, floor included; may be repeated",
        type=float,
        **repeated,
    )
    add(
        "--epsilon",
        help="epsilon that no device exceeds; may be repeated",
        type=float,
        **repeated,
    )
    add(
        "--reference",
        help="policy to compare the others with (default: optimal, if given)",
        metavar="NAME",
    )
    shared.add_channel(parser)
    add(
        "--realisations",
        help="number of channel realisations",
        type=int,
        default=20,
        metavar="R",
    )
    shared.add_seed(parser)
    shared.add_accountant(parser)
    shared.add_delta(parser)
    shared.add_orders(parser)
    shared.add_out(parser, "write one row per realisation, policy and level")
    add(
        "--plot",
        help="write a figure for a paper: .pdf, .png or .svg (extra: plot)",
        metavar="FILE",
        type=Path,
    )
    add(
        "--format",
        help="form of the printed table; latex is for booktabs",
        choices=("text", "csv", "markdown", "latex"),
        default="text",
    )
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Print the means, and write every realisation."""
    from adascale.files import json_text

    plot.check_name("--plot", options.plot)
    outputs = {"--out": options.out, "--plot": options.plot}
    common.check_outputs(common.input_files("--scenario", options.scenario), outputs)
    target = _check(options)
    levels = getattr(options, target)
    preset = common.read_scenario(options.scenario, options.interference)
    methods, reference = _find_methods(options)
    with common.noting_orders():
        channel = preset.channel
        if options.channel is not None:
            channel = common.find_channel(options.channel)
            common.note(f"the channel is {channel}")
        table = adascale.leakage_table(
            preset.scenario,
            levels,
            range(options.seed, options.seed + options.realisations),
            methods,
            target=target,
            channel=channel,
            accountant=common.find_accountant(options.accountant, options.orders),
            delta=options.delta,
            progress=sys.stderr.isatty(),
        )
    made_with = {"channel": channel, "accountant": options.accountant, "target": target}
    table[marks.COLUMN] = marks.mark(preset.scenario, options.interference, **made_with)
    key = "nu" if target == "nu" else f"target_{target}"
    reached = table.dropna(subset=["cost"])
    if reached.empty:
        listed = ", ".join(f"{level:g}" for level in levels)
        raise RuntimeError(
            f"no policy can meet --{target} in any realisation: "
            f"{', '.join(methods)} at {target} = {listed}; nothing was written"
        )
    reached = reached.assign(policy=reached["policy"].replace(SHOWN))
    if options.json:
        text = json_text(table.to_dict("records"))
    else:
        rows = _summary(reached, key, SHOWN.get(reference, reference))
        text = report.format_table(rows, options.format)
    files: dict[Path | None, Any] = {options.out: table}
    if options.plot:
        y = "total" if target == "epsilon" else "epsilon"
        figure = report.draw(reached, y, key)
        files[options.plot] = report.picture(figure, options.plot.suffix)
    common.print_and_write(text, files)
    for policy, rows in table.groupby("policy", sort=False):
        for note in _notes(str(policy), rows, target):
            common.note(note)


def _check(options: argparse.Namespace) -> str:
    """Check options that depend on each other, and return the target."""
    targets = [name for name in TARGETS if getattr(options, name)]
    if len(targets) != 1:
        raise ValueError(
            f"exactly one of --nu, --total and --epsilon is required, got {' and '.join(targets) or 'none'}"
        )
    if options.json and options.format != "text":
        raise ValueError(f"--json cannot be combined with --format {options.format}")
    if not 1 <= options.realisations <= MOST_REALISATIONS:
        raise ValueError(
            f"--realisations must be 1 ... {MOST_REALISATIONS}, got {options.realisations}"
        )
    return targets[0]


def _find_methods(options: argparse.Namespace) -> tuple[dict[str, "Method"], str]:
    """Return the methods by label, and the label of the reference."""
    find_method = adascale.comparison.find_method
    policies = options.policy or adascale.comparison.PAPER
    methods = dict(map(find_method, policies))
    if len(methods) < len(policies):
        raise ValueError(f"duplicate --policy in {', '.join(policies)}")
    reference, method = find_method(options.reference or "optimal")
    if options.reference:
        methods.setdefault(reference, method)
    return methods, reference


def _notes(policy: str, rows: "pd.DataFrame", target: str) -> Iterator[str]:
    """Say where a policy missed the target."""
    unmet = int(rows["cost"].isna().sum())
    if unmet:
        yield (
            f"{policy} cannot meet --{target} in {unmet} of {len(rows)} realisations, which are left out"
        )
    if target == "epsilon":
        over = (rows["epsilon"] / rows["target_epsilon"]).max()
        if over > 1 + 1e-6:
            yield (
                f"{policy} has up to {over:.4g} times --epsilon: "
                "its parameter is fixed, and epsilon= is for the exact accountant and one receive chain"
            )
        return
    # without all devices, the noise may be below the floor of all of them
    counts_floor = target == "total" or bool((rows["participation"] < 1).any())
    floor = rows["floor"] * counts_floor
    spent = (rows["cost"] + floor) / (rows["nu"] + floor)
    if (abs(spent - 1) > 1e-6).any():
        of = "the total" if counts_floor and target == "nu" else target
        yield common.spends(policy, spent.min(), spent.max(), of)


def _summary(table: "pd.DataFrame", key: str, reference: str) -> "pd.DataFrame":
    """Return medians, geometric means with their intervals, and ratios to the reference in the same realisations."""
    import pandas as pd

    compared = ["total", "nu"] if key == "target_epsilon" else ["epsilon"]
    best = table[table["policy"] == reference].set_index([key, "seed"])
    rows = []
    for (policy, level), group in table.groupby(["policy", key], sort=False):
        row = {"policy": policy, **group.iloc[0][["kind", "knows"]]}
        row[key.replace("_", " ")] = f"{level:g}"
        row["realisations"] = len(group)
        for name in ("floor", "total", "participation"):
            row[name] = f"{group[name].median():.4g}"
        if key != "nu" and (group["nu"] > 0).all():
            row["nu"] = _mean(group["nu"])
        row[f"RDP({group['order'].iloc[0]:g})"] = _mean(group["rdp"])
        row["epsilon"] = _mean(group["epsilon"], is_bound=True)
        row |= _interval("epsilon", group["epsilon"])
        row["mean epsilon"] = _mean(group["epsilon_mean"])
        for name in compared if policy != reference else []:
            ratio = (group.set_index([key, "seed"])[name] / best[name]).dropna()
            if len(ratio) and (ratio > 0).all():
                heading = f"{name} / {reference}"
                row[heading] = _mean(ratio)
                row |= _interval(heading, ratio)
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def _mean(values: "pd.Series", is_bound: bool = False) -> str:
    """Return the geometric mean as text; that of upper bounds is rounded up."""
    from adascale.accounting.interval import round_outward
    from adascale.statistics import log_interval

    mean = math.inf if math.inf in values.to_numpy() else log_interval(values).centre
    return f"{round_outward(mean, up=True, digits=4) if is_bound else mean:.4g}"


def _interval(name: str, values: "pd.Series") -> dict[str, str]:
    """Return the interval of the geometric mean, as a column, if there are enough realisations."""
    from adascale.statistics import log_interval

    if len(values) < 3:
        return {}
    text = ""
    if math.inf not in values.to_numpy():
        centre, low, high = log_interval(values)
        text = f"{low:.4g} .. {high:.4g}" if centre > 0 else ""
    return {f"{name} 95 %": text}
