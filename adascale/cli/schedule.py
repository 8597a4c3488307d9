"""``adascale schedule``: receive scalings for a server's own channel trace."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adascale.cli import common

DESCRIPTION = """\
Choose the receive scaling eta of every round for a channel trace that you measured.

The trace is a CSV with a header and one row a round: either one column min_gain (the smallest |h_m|^2 / k_m^2), or one
column a device, h2_1 ... h2_M, with |h_m|^2 as linear power gains. EstimFuture and PowerControl need the latter: they
plan with every device's mean gain, which is taken from the trace. A scenario file is TOML with the keys name,
num_devices, num_rounds, num_parameters, batch_size, dataset_size, clip_norm, max_power (W), noise_power (W), order."""

EXAMPLE = "adascale schedule --scenario my.toml --gains gains.csv --policy adascale --nu 0.04 --out eta.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_scenario(parser)
    common.add_privacy(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--gains", type=Path, required=True, metavar="CSV", help="the channel trace")
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

    from adascale import accounting, policies
    from adascale.channel import read_gains
    from adascale.comparison import Hindsight, find_method
    from adascale.files import write_atomically
    from adascale.problem import ReceiveScalingProblem

    scenario = common.read_scenario(options.scenario).scenario
    name, method = find_method(options.policy)
    is_adascale = isinstance(method, Hindsight) and method.policy is policies.AdaScale
    accountant = accounting.find(options.accountant)
    if options.penalty is not None and not is_adascale:
        raise ValueError(f"--penalty is AdaScale's, got it with --policy {options.policy}")
    common.check_writable(options.out)
    trace = read_gains(options.gains, scenario)
    problem = ReceiveScalingProblem(scenario, trace.min_gain, options.nu)
    if problem.num_rounds != scenario.num_rounds:
        print(f"note: {options.gains} has {problem.num_rounds} rounds, {scenario.name} {scenario.num_rounds}; "
              "the trace decides", file=sys.stderr)  # fmt: skip
    policy: policies.Policy
    if options.penalty is not None:
        policy = policies.AdaScale(options.penalty)
    else:
        policy = method(problem, trace.mean_gain)
        if is_adascale:
            print("note: V was tuned on the whole trace; give --penalty for a decision that looks at no later round",
                  file=sys.stderr)  # fmt: skip
        elif not isinstance(policy, policies.OnlinePolicy):
            print(f"note: {name} reads the whole trace", file=sys.stderr)
        elif policy.tuned or policy.needs_mean_gain:
            print(f"note: {name} was tuned on the whole trace, or plans with its mean gains", file=sys.stderr)
    eta = policy.schedule(problem)
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
        "epsilon": float(problem.epsilon(eta, accountant, options.delta)),
    }
    if options.out:
        write_atomically(options.out, table)
    if options.json:
        print(json.dumps(totals | {"schedule": table.to_dict(orient="records")}, indent=1))
    else:
        wide = max(map(len, totals))
        print("\n".join(f"{key:<{wide}} {value:.6g}" if isinstance(value, float) else f"{key:<{wide}} {value}"
                        for key, value in totals.items()))  # fmt: skip
