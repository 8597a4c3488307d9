"""Compare what policies leak at equal noise, or how much noise they need for an epsilon, on channels or a trace.

Exactly one of --nu, --total and --epsilon is given. With --nu, the mean noise energy is nu above the floor, which is
what full power leaves. With --total, the mean noise energy itself is the total, floor included, which is fair between
channels with different floors. With --epsilon it is the least at which no device exceeds epsilon, by the exact
accountant unless you name another. The nu of --total and --epsilon is found for each realisation from all its rounds,
which no server knows before. Only privacybudget needs no hindsight: it guarantees --epsilon on every channel, and its
nu is what it spent.

Channels are drawn from a model, or with --gains they are blocks of a measured trace (for its forms, see 'adascale
schedule --help'): as many blocks of num_rounds as there are, or of equal length with --realisations. The column seed
has the number of the block. Blocks of one trace are not independent, so intervals may be too narrow. With --split 0.5
the first half is the past: from it, policies get the distribution of the channel or the parameter that cost nu there,
as in schedule, and what they spend on the rest may differ from nu. Without --split they get this from the rounds on
which they are compared, which no server can do.

A last note says what adapting gains here: the epsilon (with --epsilon, the noise) of Optimal, and of the best policy
that a server can run and that spends at most nu in every realisation, relative to that of equalalloc, an even share. It
needs equalalloc and one of these among the policies, and leaves out policies that choose who sends.

kind is optimum, causal, hindsight or reconstruction, and knows is what a policy has besides nu: nothing, the law of the
channel, or gains to come. In each realisation, epsilon is proven and holds for every device, and epsilon_mean is the
mean over devices, which is no guarantee. full_power is the share of rounds at the power limit, and floor_max the
largest floor, of floor_max_round. The table shows medians of floor, total and participation over the
realisations, and geometric means of nu, epsilon and epsilon_mean. With three realisations or more it has 95 % t
intervals of the logarithm, which are narrow for a ratio to --reference, as it is taken within each realisation.
LyapunovPowerControl, of Shi et al., is reconstructed without a reconfigurable surface.

--policy truncated and best:number=8 choose who sends, at the total of the other policies. A parameter that is given, as
in truncated:epsilon=2, is not tuned to --nu, --total or --epsilon.

--policy my_module:MyPolicy is your own subclass of adascale.policies.OnlinePolicy, with start and decide. The parameter
that its class declares as tuned is tuned until the cost is nu, and is a column of --out; with needs_mean_gain it is
given the mean gains. Your own channel model (--channel) and accountant (--accountant) work in the same way.

For a figure, give the table of --out to 'adascale plot'. --format latex needs LaTeX's booktabs.

example:
  adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --out leakage.csv
  adascale leakage --gains gains.csv --split 0.5 --nu 0.04 --policy mine:Median --policy equalalloc --out a.csv
  adascale leakage --total 0.32 --policy optimal --policy truncated --channel antenna-selection:antennas=4
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adascale
from adascale import registry
from adascale.cli import common, marks, report, summary
from adascale.cli import options as shared
from adascale.cli.options import Parser

if TYPE_CHECKING:
    import pandas as pd

    from adascale.channel import ChannelModel, Trace
    from adascale.comparison import Method
    from adascale.presets import Preset

TARGETS = ("nu", "total", "epsilon")  # of adascale.leakage_table, each an option
MOST_REALISATIONS = 1_000_000  # each is a row of the table for every policy and nu

ON_A_TRACE = ("Optimal", "AdaScale", "Learn:budget_mode=hard", "EqualAlloc")
"""The policies that are compared on a trace by default."""
REALISATIONS = 20

# labels of classes that need more than their own
_RECONSTRUCTED = {"LyapunovPowerControl": "Shi et al., reconstructed, no RIS"}


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    repeated: Any = {"action": "append"}
    parser.share("scenario", "interference")
    more = (
        "; may be repeated (default: the paper's, or on a trace some of them and learn)"
    )
    parser.share("policy", more=more, **repeated)
    parser.share("nu", more="; may be repeated", **repeated)
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
    parser.share("channel")
    add("--gains", help="a measured trace, as channel", metavar="FILE", type=Path)
    parser.share(*shared.READING)
    parser.share("split", more="compared on")
    add(
        "--realisations",
        help=f"number of channel realisations (default: {REALISATIONS}), or of blocks of the trace",
        type=int,
        metavar="R",
    )
    parser.share("seed")
    shared.share_epsilon(parser, "orders", "jobs", "scheduler")
    parser.share("out", more="one row per realisation, policy and level")
    add(
        "--format",
        help="form of the printed table; latex is for booktabs",
        choices=("text", "csv", "markdown", "latex"),
        default="text",
    )
    parser.share("json")


def run(options: argparse.Namespace) -> None:
    """Print the means, and write every realisation."""
    inputs = common.input_files("--scenario", options.scenario)
    inputs |= {"--gains": options.gains}
    common.check_outputs(inputs, {"--out": options.out})
    target = _target(options)
    options.accountant = common.accountant_name(options)
    _check(options)
    levels = getattr(options, target)
    preset = common.read_scenario(options.scenario, options.interference)
    methods, reference = _find_methods(options)
    labels = _labels(methods)
    choose_channel = _draws if options.gains is None else _blocks
    scenario, channel, seeds, past = choose_channel(options, preset)
    if past is not None:
        methods = {
            name: adascale.comparison.with_past(method, scenario, past)
            for name, method in methods.items()
        }
    with common.noting_orders(), common.open_executor(options) as executor:
        table = adascale.leakage_table(
            scenario,
            levels,
            seeds,
            methods,
            target=target,
            channel=channel,
            accountant=common.find_accountant(options.accountant, options.orders),
            delta=options.delta,
            progress=sys.stderr.isatty(),
            executor=executor,
        )
    made_with = {
        "channel": channel if options.gains is None else options.gains.name,
        "accountant": options.accountant,
        "target": target,
    }
    table.insert(2, "label", table["policy"].map(labels))  # after dataset and policy
    table[marks.COLUMN] = marks.mark(preset.scenario, options.interference, **made_with)
    reached = table.dropna(subset=["cost"])
    if reached.empty:
        listed = ", ".join(f"{level:g}" for level in levels)
        raise RuntimeError(
            f"no policy can meet --{target} in any realisation: "
            f"{', '.join(methods)} at {target} = {listed}; nothing was written"
        )
    # by default the reference is optimal, even if that is not compared and has no label
    _write(options, table, target, labels.get(reference, reference))


def _write(
    options: argparse.Namespace, table: "pd.DataFrame", target: str, reference: str
) -> None:
    """Print the means or all numbers, write the files, and print notes; ``reference`` is a label."""
    from adascale.files import json_text

    level_column = "nu" if target == "nu" else f"target_{target}"
    reached = table.dropna(subset=["cost"])
    if options.json:
        text = json_text(table.to_dict("records"))
    else:
        rows = summary.table(reached, level_column, reference)
        text = report.format_table(rows, options.format)
    common.print_and_write(text, {options.out: table})
    for label, rows in table.groupby("label", sort=False):
        for note in summary.notes(str(label), rows, target):
            common.note(note)
    for note in summary.advice(reached, level_column):
        common.note(note)


def _target(options: argparse.Namespace) -> str:
    """Return the name of the target, which is given by one option."""
    targets = [name for name in TARGETS if getattr(options, name)]
    if len(targets) != 1:
        raise ValueError(
            f"exactly one of --nu, --total and --epsilon is required, got {' and '.join(targets) or 'none'}"
        )
    return targets[0]


def _check(options: argparse.Namespace) -> None:
    """Check options that depend on each other."""
    if options.json and options.format != "text":
        raise ValueError(f"--json cannot be combined with --format {options.format}")
    number = options.realisations
    if number is not None and not 1 <= number <= MOST_REALISATIONS:
        raise ValueError(
            f"--realisations must be 1 ... {MOST_REALISATIONS}, got {number}"
        )
    if options.gains is None:
        # the options of a trace are the fields of Reading
        defaults = vars(adascale.channel.Reading()) | {"split": None}
        for name, default in defaults.items():
            if getattr(options, name) != default:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} applies only to --gains")
    elif options.channel is not None or options.seed:
        raise ValueError("--gains cannot be combined with --channel or --seed")


def _draws(
    options: argparse.Namespace, preset: "Preset"
) -> tuple[adascale.Scenario, "ChannelModel", range, "Trace | None"]:
    """Return the scenario, the channel model and the seeds of the realisations, without a past."""
    channel = preset.channel
    if options.channel is not None:
        channel = common.find_channel(options.channel)
        common.note(f"the channel is {channel}")
    number = options.realisations or REALISATIONS
    seeds = range(options.seed, options.seed + number)
    return preset.scenario, channel, seeds, None


def _blocks(
    options: argparse.Namespace, preset: "Preset"
) -> tuple[adascale.Scenario, "ChannelModel", range, "Trace | None"]:
    """Read the trace; return the scenario with the rounds of a block, the blocks, their numbers and the past.

    There are as many blocks as --realisations, or as many of T rounds as fit, at least one; they have equal length.
    """
    scenario = preset.scenario
    trace = common.read_trace(options.gains, options, scenario, options.split)
    if trace.gain is None:
        raise ValueError(
            f"{options.gains}: --gains must have the gains of every device, got min_gain"
        )
    rounds, T = trace.gain.shape[1], scenario.num_rounds
    number = options.realisations or max(rounds // T, 1)
    if number > rounds:
        raise ValueError(
            f"--realisations must be at most the {rounds} rounds that are compared on, got {number}"
        )
    length = rounds // number
    past = trace.past
    if past is not None:
        common.note(
            f"the first {past.min_gain.size} rounds of {options.gains} are the past"
        )
    if length != T:
        common.note(f"a block has {length} rounds, where {scenario.name} has {T}")
    channel = adascale.channel.Recorded(gain=trace.gain)
    return replace(scenario, num_rounds=length), channel, range(number), past


def _find_methods(options: argparse.Namespace) -> tuple[dict[str, "Method"], str]:
    """Return the methods by name, and the name of the reference, which is compared only if it was given."""
    find_method = adascale.comparison.find_method
    default = adascale.comparison.PAPER if options.gains is None else ON_A_TRACE
    policies = options.policy or default
    methods = dict(map(find_method, policies))
    if len(methods) < len(policies):
        raise ValueError(f"duplicate --policy in {', '.join(policies)}")
    reference, method = find_method(options.reference or "optimal")
    if options.reference:
        methods.setdefault(reference, method)
    return methods, reference


def _labels(methods: dict[str, "Method"]) -> dict[str, str]:
    """Return by name what stands in tables and figures: the label of the class, and the arguments that are given.

    Words stand without their keys, as in "Learn, hard".  Methods whose labels are equal keep their names.
    """
    labels = {}
    for name, method in methods.items():
        registered, arguments = registry.parse_options(name)
        own = _RECONSTRUCTED.get(registered) or method.policy.label or registered
        texts = [
            value if isinstance(value, str) else f"{key}={value}"
            for key, value in arguments.items()
        ]
        labels[name] = ", ".join([own, *texts])
    every = [*labels.values()]
    return {
        name: label if every.count(label) == 1 else name
        for name, label in labels.items()
    }
