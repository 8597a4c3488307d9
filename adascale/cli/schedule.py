"""Choose the receive scaling eta of every round for a channel trace that you measured.

By default each round is decided before the next one is seen, by a policy that knows only T and nu (learn). Other
policies take what they need from an earlier trace of the same links, --past: constantlevel, resolve and
dynamicprogramme plan with the distribution of the channel, adascale starts with V and a queue from it, estimfuture
plans with mean gains, and powercontrol and your own policies with a tuned parameter get the value that cost nu there.
Given a past, learn starts from it. budget_mode says whether nu is met on average or never exceeded, and cost is what
the policy spent on this trace. --hindsight follows the paper's protocol, which no server can use: adascale, or another
policy, takes all this from the trace itself. The policy optimal always sees all rounds.

--epsilon E, in place of --nu, is guaranteed to every device on every channel, by the exact accountant. privacybudget
adds as little noise as that permits; it learns the distribution of the channel, or gets it from --past. With truncated,
every sender has the same noise. truncated and best choose who sends, so they need the gains of all devices.
In each round the devices whose numbers are in the column senders transmit, and the server divides by their number; a
round without senders has eta 0. With --nu these policies get the parameter that spends, on the --past, the same total
as the others: the mean floor of all devices plus nu. With fixed parameters, as in best:number=8,level=0, they need
neither.

The trace is a table with a header and one row per round: a column min_gain (the smallest |h_m|^2 / k_m^2), or a column
per device, h2_1 ... h2_M with |h_m|^2 or h_1 ... h_M with complex h_m such as 0.1+0.2j, in any order, separated by
commas, semicolons, tabs or blanks; round and time are optional, and # begins a comment. Gains are linear
power ratios, or dB with --unit db. With --unit dbm the columns are received powers, and have any names. A table can
also have one row per value, with columns link, value, and round or time. --columns names the columns to read if your
tool calls them otherwise, and ignores the others. Files of NumPy (.npy, .npz), MATLAB and HDF5 have an array of shape
(T, M) or (M, T); for others --axes says what each axis is. Of several subcarriers the weakest counts, and of several
antennas the server uses one at a time. RSRP is the power of one of 12 N resource elements: --resource-blocks N. With
--gaps hold a missing value is the last one of its link, and with --gaps floor it is --sensitivity, in the same unit;
more than --max-gaps of all values, or twice this share of a link's, are an error. If the clocks of the links differ,
--round-time S, in the unit of the times (seconds for ISO 8601), makes a round of the times within S/4 of its middle.
With --split 0.5 the first half of the trace is the past, and the other half is scheduled.

A scenario file is TOML with the keys name, num_devices, num_rounds, num_parameters, batch_size, dataset_size,
clip_norm, max_power (W) or max_power_dbm, noise_power (W) or noise_power_dbm, order, and optionally privacy_noise_power
(W), the part of the noise that the server cannot cancel, for which --interference is another way. In place of the noise
power it can have bandwidth_hz with noise_figure_db (default: 0), from which thermal noise follows, and
interference_dbm, which is added to the noise but does not protect. It may have weights of the devices. In Python,
adascale.Scenario.mnist().to_toml() shows a preset's.

epsilon is proven and holds for every device. accountant says how it was computed: by renyi, which is larger, or by
exact, which is the default with --epsilon. 'adascale epsilon' prints the exact one of a schedule, to publish.
epsilon_mean is the mean over devices, which is no guarantee, and rdp is the mean over devices of the Renyi leakage in
nats. The column made_with of --out names the scenario, its digest, the interference, the policy and the version;
'adascale epsilon' refuses the file with another scenario.

example:
  adascale schedule --scenario my.toml --gains gains.csv --nu 0.04 --out eta.csv
  adascale schedule --gains rssi.csv --unit dbm --transmit-power 20 --gaps hold --nu 0.04 --out eta.csv
  adascale schedule --gains h.mat --unit csi --axes round,device,subcarrier --nu 0.04 --out eta.csv
  adascale plot eta.csv eta.pdf --x round --y noise_energy --linear x
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import adascale
from adascale.cli import causal, common, marks
from adascale.cli import options as shared
from adascale.cli.options import Parser

_ROUNDING = 1e-6  # relative distance of a cost from nu that is not mentioned


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    parser.share("scenario", "interference")
    add("--gains", help="the channel trace", required=True, metavar="FILE", type=Path)
    parser.share(*shared.READING)
    parser.share("split", more="scheduled")
    shared.share_causal_policy(parser)
    add(
        "--hindsight",
        help="tune and plan on the whole trace, as the paper does",
        action="store_true",
    )
    shared.share_epsilon(parser, "orders")
    columns = "round, min_gain, floor, noise_energy and eta; for truncated and best also number and senders"
    parser.share("out", more=columns)
    parser.share("json")


def run(options: argparse.Namespace) -> None:
    """Print the totals, and write the schedule."""
    inputs = common.input_files("--scenario", options.scenario)
    inputs |= {"--gains": options.gains, "--past": options.past}
    common.check_outputs(inputs, {"--out": options.out})
    scenario = common.read_scenario(options.scenario, options.interference).scenario
    accountant_name = common.accountant_name(options)
    accountant = common.find_accountant(accountant_name, options.orders)
    trace = common.read_trace(options.gains, options, scenario, options.split)
    if trace.past and options.hindsight:
        raise ValueError("--split cannot be combined with --hindsight")
    rounds = trace.min_gain.size
    horizon = replace(scenario, num_rounds=rounds)
    observed = trace if options.hindsight else trace.past
    name, policy, budget_mode = causal.choose(options, horizon, observed)
    nu = options.nu
    # a policy that spends no nu ignores the budget of its problem
    problem = adascale.Problem(scenario, trace.min_gain, 1.0 if nu is None else nu)
    with common.noting_orders():
        measured = adascale.comparison.measure(
            policy, problem, trace.gain, accountant, options.delta
        )
    spent = 1.0 if nu is None else float(measured["cost"]) / nu
    if budget_mode == causal.BUDGET_MODES["hard"] and spent > 1 + _ROUNDING:
        raise RuntimeError(
            f"{name} must not exceed nu = {nu:g}, but its cost is {spent:.3g} times nu; no schedule was written"
        )
    made_with = marks.mark(
        scenario, options.interference, policy=name, nu=nu, rounds=rounds
    )
    totals = {"scenario": scenario.name, "policy": name, "rounds": rounds}
    totals |= common.floats(adascale.comparison.reported_parameters(policy))
    totals |= {"budget_mode": budget_mode, "nu": nu}
    totals |= common.floats(measured, "cost")
    if "senders" in measured:
        totals |= common.floats(measured, "participation", "participation_min")
    totals["order"] = scenario.order
    totals |= common.floats(measured, "rdp")
    totals |= {"accountant": accountant_name, "delta": options.delta}
    totals |= common.floats(measured, "epsilon", "epsilon_mean")
    columns = _columns(problem, measured) | {marks.COLUMN: [made_with] * rounds}
    rows = [*zip(*columns.values(), strict=True)]
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    text = common.results_text(totals, options.json, schedule=listed)
    common.print_and_write(text, {options.out: common.csv_text(columns, rows)})
    for note in _notes(options, scenario, trace, name, policy, budget_mode):
        common.note(note)
    for note in _notes_on_cost(options, name, float(measured["cost"])):
        common.note(note)


def _notes_on_cost(
    options: argparse.Namespace, name: str, cost: float
) -> Iterator[str]:
    """Say where the cost is not what was asked for."""
    if options.epsilon is not None and cost == 0:
        yield common.no_noise_note(name, options.epsilon)
    if options.nu is not None and abs(cost / options.nu - 1) > _ROUNDING:
        spent = cost / options.nu
        yield common.spending_note(name, spent, spent)


def _columns(
    problem: adascale.Problem, measured: dict[str, Any]
) -> dict[str, list[Any]]:
    """Return the columns of the schedule, with the numbers of the devices that send where not all do."""
    arrays = {
        "round": np.arange(problem.num_rounds),
        "min_gain": problem.min_gain,
        "floor": problem.min_noise_energy,
        "noise_energy": measured["noise_energy"],
        "eta": measured["eta"],
    }
    columns = {name: array.tolist() for name, array in arrays.items()}
    if "senders" in measured:
        sends = measured["senders"].T
        columns["number"] = sends.sum(axis=1).tolist()
        devices = [np.flatnonzero(row) + 1 for row in sends]
        columns["senders"] = [" ".join(map(str, numbers)) for numbers in devices]
    return columns


def _notes(
    options: argparse.Namespace,
    scenario: adascale.Scenario,
    trace: "adascale.channel.Trace",
    name: str,
    policy: Any,
    budget_mode: str,
) -> Iterator[str]:
    """Say how the trace was used, and what the policy named ``name`` saw of it."""
    rounds = trace.min_gain.size
    if trace.past:
        number = trace.past.min_gain.size
        yield f"the first {number} rounds of {options.gains} are the past; the next is round 0"
    if rounds != scenario.num_rounds:
        yield f"the trace sets {rounds} rounds, where {scenario.name} has {scenario.num_rounds}"
    if not isinstance(policy, adascale.OnlinePolicy | adascale.policies.Selecting):
        yield f"{name} reads the whole trace"
    elif options.hindsight and (
        policy.needs_mean_gain or policy.needs_law or "in hindsight" in budget_mode
    ):
        yield f"{name} was tuned on the whole trace, or plans with its gains, which no server can do"
