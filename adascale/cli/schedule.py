"""Choose the receive scaling eta of every round for a channel trace that you measured.

By default each round is decided before the next one is seen, by a policy that knows only T and nu (learn). Other
policies take what they need from an earlier trace of the same links, --past: constantlevel, resolve and
dynamicprogramme plan with the distribution of the channel, adascale starts with V and a queue from it, estimfuture
plans with mean gains, and powercontrol and your own policies with a tuned parameter get the value that cost nu there.
Given a past, learn starts from it. budget_mode says whether nu is met on average or never exceeded, and cost is what
the policy spent on this trace. --hindsight follows the paper's protocol, which no server can use: adascale, or another
policy, takes all this from the trace itself. The policy optimal always sees all rounds.

The trace is a table with a header and one row per round: a column min_gain (the smallest |h_m|^2 / k_m^2), or a column
per device, h2_1 ... h2_M with |h_m|^2 or h_1 ... h_M with complex h_m such as 0.1+0.2j, in any order, separated by
commas, semicolons, tabs or blanks; an index, round and time are optional, and # begins a comment. Gains are linear
power ratios, or dB with --unit db.
A scenario file is TOML with the keys name, num_devices, num_rounds, num_parameters, batch_size, dataset_size,
clip_norm, max_power (W), noise_power (W), order and, if the server can cancel a part of the noise, that of the rest,
privacy_noise_power (W), which --interference replaces.

If devices differ, epsilon and rdp are means over devices, and epsilon_max is the guarantee for every device. In JSON,
null means that a number does not exist, and "Infinity" is an unbounded leakage.

example:
  adascale schedule --scenario my.toml --gains gains.csv --nu 0.04 --out eta.csv
"""

import argparse
from dataclasses import replace

import adascale
from adascale.cli import causal, common

_LEAST_SHARE = 1e-12  # least nu over the largest floor, as float64 has sixteen digits


def run(options: argparse.Namespace) -> None:
    """Print the totals, and write the schedule."""
    from adascale.problem import RoundLeakage

    inputs = common.input_files("--scenario", options.scenario) | {"--gains": options.gains, "--past": options.past}
    common.check_outputs(inputs, {"--out": options.out})
    scenario = common.read_scenario(options.scenario, options.interference).scenario
    accountant = common.find_accountant(options.accountant, options.orders)
    trace = adascale.read_gains(options.gains, scenario, options.unit)
    problem = adascale.ReceiveScalingProblem(scenario, trace.min_gain, options.nu)
    if options.nu < (least := _LEAST_SHARE * float(problem.min_noise_energy.max())):
        share = f"{_LEAST_SHARE:g} of the largest noise floor (round {problem.min_noise_energy.argmax()})"
        raise ValueError(f"--nu must be at least {least:.3g}, {share}, or rounding exceeds it; got {options.nu:g}")
    horizon = replace(scenario, num_rounds=problem.num_rounds)
    name, policy, budget_mode = causal.choose(options, horizon, trace if options.hindsight else None)
    with common.noting_orders():
        eta = policy.schedule(problem)
        epsilon, largest = problem.device_epsilons(eta, accountant, options.delta)
        cost = float(problem.cost(eta))
    spent = cost / options.nu
    if budget_mode == causal.BUDGET_MODES["hard"] and spent > 1 + 1e-6:
        found = f"its cost is {cost:.6g}, {spent:.3g} times nu"
        raise RuntimeError(f"{name} must not exceed nu = {options.nu:g}, but {found}; no schedule was written")
    energy = problem.noise_energy(eta)
    columns = {"min_gain": problem.min_gain, "floor": problem.min_noise_energy, "noise_energy": energy, "eta": eta}
    rows = list(zip(range(problem.num_rounds), *(each.tolist() for each in columns.values()), strict=True))
    header = ("round", *columns)
    totals = {"scenario": scenario.name, "policy": name, "rounds": problem.num_rounds}
    totals |= {each: float(getattr(policy, each)) for each in policy.tuned}
    totals |= {"budget_mode": budget_mode, "nu": options.nu, "cost": cost}
    totals |= {"order": scenario.order, "rdp": float(problem.rdp(eta)), "delta": options.delta}
    if RoundLeakage(scenario).rate.size > 1:
        totals["epsilon_max"] = float(largest)
    totals["epsilon"] = float(epsilon)
    text = common.shown(totals, options.json, schedule=[dict(zip(header, row, strict=True)) for row in rows])
    common.print_and_write(text, {options.out: "".join(f"{','.join(map(str, row))}\n" for row in (header, *rows))})
    common.note(trace.unended)
    if problem.num_rounds != scenario.num_rounds:
        rounds = f"{problem.num_rounds} rounds, {scenario.name} {scenario.num_rounds}"
        common.note(f"{options.gains} has {rounds}; the trace sets the number of rounds")
    if trace.above_one:
        units = "gains in dB need --unit db, and path losses are their inverse"
        common.note(f"{trace.above_one}: more power received than sent; {units}")
    if not isinstance(policy, adascale.OnlinePolicy):
        common.note(f"{name} reads the whole trace")
    elif options.hindsight and (policy.tuned or policy.needs_mean_gain or policy.needs_law):
        common.note(f"{name} was tuned on the whole trace, or plans with its gains, which no server can do")
    if abs(spent - 1) > 1e-6:
        common.note(common.spends(name, spent, spent))
