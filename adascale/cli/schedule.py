"""``adascale schedule``: receive scalings for a server's own channel trace."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from adascale.cli import causal, common

DESCRIPTION = """\
Choose the receive scaling eta of every round for a channel trace that you measured.

Each round is decided before the next is looked at, by a policy that knows nothing but T and nu (learn). Others know the
law of the channel, mean gains or a parameter from an earlier trace of the same links, --past: constantlevel and resolve
plan with the law, adascale starts with V and a queue from it, estimfuture plans with mean gains, and powercontrol and
policies of your own that have something to tune get the parameter that cost nu there. Given a past, learn begins with
it. The promise says whether nu is kept on average or never exceeded, and the cost what this trace did cost.
With --hindsight it is the paper's protocol, which no server can follow: adascale, or another policy, with all that
there is to tune or to know taken from the trace itself. The policy optimal always sees all of its rounds.

The trace is a table with a header and one row a round: one column min_gain (the smallest |h_m|^2 / k_m^2), or a column
for every device, h2_1 ... h2_M, with |h_m|^2, or h_1 ... h_M with complex h_m such as 0.1+0.2j. Columns stand in any
order, separated by commas, semicolons, tabs or blanks, and beside them an index, round and time; # begins a comment. Or
it is a .npy file of shape (T,), which is min_gain, or (T, M), real or complex. Gains are linear power ratios, or dB
with --unit db. A scenario file is TOML with the keys name, num_devices, num_rounds, num_parameters, batch_size,
dataset_size, clip_norm, max_power (W), noise_power (W), order.

Where devices differ, epsilon and rdp are means over devices, and epsilon_max is the guarantee for every device.
In JSON, null stands for what is no number, and "Infinity" for a leakage without a bound."""

_LEAST_SHARE = 1e-12  # nu in shares of the largest floor: float64 has sixteen digits

EXAMPLE = "adascale schedule --scenario my.toml --gains gains.csv --nu 0.04 --out eta.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_scenario(parser)
    common.add_privacy(parser)
    common.add_orders(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--gains", type=Path, required=True, metavar="FILE", help="the channel trace")
    parser.add_argument("--unit", choices=("linear", "db"), default="linear", help="of its gains (default: linear)")
    parser.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    causal.add_arguments(parser)
    parser.add_argument(
        "--hindsight",
        action="store_true",
        help="the paper's protocol: tune on the whole trace, and plan with its mean gains",
    )
    parser.add_argument("--out", type=Path, metavar="CSV", help="write round, min_gain, floor, noise_energy, eta")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    import numpy as np
    import pandas as pd

    from adascale import policies
    from adascale.channel import read_gains
    from adascale.files import write_atomically
    from adascale.problem import ReceiveScalingProblem, RoundLeakage

    common.check_outputs(
        common.input_files("--scenario", options.scenario) | {"--gains": options.gains, "--past": options.past},
        {"--out": options.out},
    )
    scenario = common.read_scenario(options.scenario).scenario
    accountant = common.find_accountant(options.accountant, options.orders)
    trace = read_gains(options.gains, scenario, options.unit)
    problem = ReceiveScalingProblem(scenario, trace.min_gain, options.nu)
    if options.nu < (least := _LEAST_SHARE * float(problem.floor.max())):
        share = f"{_LEAST_SHARE:g} of the largest noise floor (round {problem.floor.argmax()})"
        raise ValueError(f"--nu must be at least {least:.3g}, {share}, or rounding exceeds it; got {options.nu:g}")
    horizon = replace(scenario, num_rounds=problem.num_rounds)
    name, policy, promise = causal.choose(options, horizon, trace if options.hindsight else None)
    with common.naming_own_code(), common.noting_orders(options):
        eta = policy.schedule(problem)
        epsilon = problem.device_epsilons(eta, accountant, options.delta)
        cost = float(problem.cost(eta))
    if promise == causal.PROMISES["hard"] and cost > options.nu * (1 + 1e-6):
        found = f"its cost is {cost:.6g}, {cost / options.nu:.3g} times nu"
        raise RuntimeError(f"{name} must not exceed nu = {options.nu:g}, but {found}; no schedule was written")
    table = pd.DataFrame(
        {
            "round": np.arange(problem.num_rounds),
            "min_gain": problem.min_gain,
            "floor": problem.floor,
            "noise_energy": problem.noise_energy(eta),
            "eta": eta,
        }
    )
    totals = {
        "scenario": scenario.name,
        "policy": name,
        "rounds": problem.num_rounds,
        **{each: float(getattr(policy, each)) for each in policy.tuned},
        "promise": promise,
        "nu": options.nu,
        "cost": cost,
        "order": scenario.order,
        "rdp": float(problem.rdp(eta)),
        "delta": options.delta,
        **({"epsilon_max": float(epsilon.largest)} if RoundLeakage(scenario).rate.size > 1 else {}),
        "epsilon": float(epsilon.mean),
    }
    try:
        print(common.shown(totals, options.json, schedule=table.to_dict(orient="records")), flush=True)
    finally:  # also where nobody reads it
        if options.out:
            write_atomically(options.out, table)
    notes: list[str | None] = [trace.unended]
    if problem.num_rounds != scenario.num_rounds:
        notes.append(
            f"{options.gains} has {problem.num_rounds} rounds, {scenario.name} {scenario.num_rounds}; the trace decides"
        )
    if trace.above_one:
        notes.append(
            f"{trace.above_one}: more power received than sent; gains in dB need --unit db, and path losses "
            "are their inverse"
        )
    if not isinstance(policy, policies.OnlinePolicy):
        notes.append(f"{name} reads the whole trace")
    elif options.hindsight and options.penalty is None and (policy.tuned or policy.needs_mean_gain or policy.needs_law):
        notes.append(f"{name} was tuned on the whole trace, or plans with its gains; no server can do that")
    spent = cost / options.nu
    if abs(spent - 1) > 1e-6:
        notes.append(f"{name} spends {common.spends(spent, spent)}; leakages compare at equal cost only")
    for note in notes:
        common.note(note)
