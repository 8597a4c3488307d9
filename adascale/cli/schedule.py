"""``adascale schedule``: receive scalings for a server's own channel trace."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adascale.cli import common

DESCRIPTION = """\
Choose the receive scaling eta of every round for a channel trace that you measured.

The trace is a table with a header and one row a round: one column min_gain (the smallest |h_m|^2 / k_m^2), or a column
for every device, h2_1 ... h2_M, with |h_m|^2, or h_1 ... h_M with complex h_m such as 0.1+0.2j. Columns stand in any
order, separated by commas, semicolons, tabs or blanks, and beside them an index, round and time; # begins a comment. Or
it is a .npy file of shape (T,), which is min_gain, or (T, M), real or complex. Gains are linear power ratios, or dB
with --unit db.
EstimFuture and PowerControl need all devices: they plan with every device's mean gain, which is taken from the trace. A
scenario file is TOML with the keys name, num_devices, num_rounds, num_parameters, batch_size, dataset_size, clip_norm,
max_power (W), noise_power (W), order.

In JSON, null stands for what is no number, and "Infinity" for a leakage without a bound."""

EXAMPLE = "adascale schedule --scenario my.toml --gains gains.csv --policy adascale --nu 0.04 --out eta.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_scenario(parser)
    common.add_privacy(parser)
    common.add_orders(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--gains", type=Path, required=True, metavar="FILE", help="the channel trace")
    parser.add_argument("--unit", choices=("linear", "db"), default="linear", help="of its gains (default: linear)")
    parser.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    common.add_policy(parser, "adascale")
    parser.add_argument(
        "--penalty",
        type=float,
        help="AdaScale's V, for a decision that looks at no later round; without it V is tuned to spend nu exactly, "
        "which reads the whole trace",
    )
    parser.add_argument("--out", type=Path, metavar="CSV", help="write round, min_gain, floor, noise_energy, eta")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    import numpy as np
    import pandas as pd

    from adascale import policies
    from adascale.channel import read_gains
    from adascale.comparison import Hindsight, find_method
    from adascale.files import json_text, write_atomically
    from adascale.problem import ReceiveScalingProblem

    common.check_outputs(
        common.input_files("--scenario", options.scenario) | {"--gains": options.gains}, {"--out": options.out}
    )
    scenario = common.read_scenario(options.scenario).scenario
    name, method = find_method(options.policy)
    is_adascale = isinstance(method, Hindsight) and method.policy is policies.AdaScale
    accountant = common.find_accountant(options.accountant, options.orders)
    if options.penalty is not None and not is_adascale:
        raise ValueError(f"--penalty is AdaScale's, got it with --policy {options.policy}")
    trace = read_gains(options.gains, scenario, options.unit)
    problem = ReceiveScalingProblem(scenario, trace.min_gain, options.nu)
    with common.naming_own_code(), common.noting_orders(options):
        policy = policies.AdaScale(options.penalty) if options.penalty is not None else method(problem, trace.mean_gain)
        eta = policy.schedule(problem)
        epsilon = float(problem.epsilon(eta, accountant, options.delta))
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
        "nu": options.nu,
        "rounds": problem.num_rounds,
        **{each: float(getattr(policy, each)) for each in policy.tuned},
        "cost": float(problem.cost(eta)),
        "order": scenario.order,
        "rdp": float(problem.rdp(eta)),
        "delta": options.delta,
        "epsilon": epsilon,
    }
    if options.json:
        print(json_text(totals | {"schedule": table.to_dict(orient="records")}))
    else:
        wide = max(map(len, totals))
        print("\n".join(f"{key:<{wide}} {value:.6g}" if isinstance(value, float) else f"{key:<{wide}} {value}"
                        for key, value in totals.items()))  # fmt: skip
    notes = []
    if problem.num_rounds != scenario.num_rounds:
        notes.append(f"{options.gains} has {problem.num_rounds} rounds, {scenario.name} {scenario.num_rounds}; "
                     "the trace decides")  # fmt: skip
    if (largest := max(float(each.max()) for each in trace if each is not None)) > 1:
        notes.append(f"{options.gains} has gains of {largest:.3g}, more power received than sent; gains in dB need "
                     "--unit db, and path losses are their inverse")  # fmt: skip
    if is_adascale and options.penalty is None:
        notes.append("V was tuned on the whole trace; give --penalty for a decision that looks at no later round")
    elif not isinstance(policy, policies.OnlinePolicy):
        notes.append(f"{name} reads the whole trace")
    elif not is_adascale and (policy.tuned or policy.needs_mean_gain):
        notes.append(f"{name} was tuned on the whole trace, or plans with its mean gains")
    spent = totals["cost"] / options.nu
    if abs(spent - 1) > 1e-6:
        notes.append(f"{name} spends {common.spends(spent, spent)}; leakages compare at equal cost only")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if options.out:
        write_atomically(options.out, table)
