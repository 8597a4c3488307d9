"""Choose the receive scaling eta of every round for a channel trace that you measured.

By default each round is decided before the next one is seen, by a policy that knows only T and nu (learn). Other
policies take what they need from an earlier trace of the same links, --past: constantlevel, resolve and
dynamicprogramme plan with the distribution of the channel, adascale starts with V and a queue from it, estimfuture
plans with mean gains, and powercontrol and your own policies with a tuned parameter get the value that cost nu there.
Given a past, learn starts from it. budget_mode says whether nu is met on average or never exceeded, and cost is what
the policy spent on this trace. --hindsight follows the paper's protocol, which no server can use: adascale, or another
policy, takes all this from the trace itself. The policy optimal always sees all rounds.

--epsilon E, in place of --nu, finds what guarantees E to every device on every channel, by the exact accountant. This
is possible where the least noise is known in advance: equalalloc never adds less than the nu that is found, and
truncated gives every sender the same noise. truncated and best choose who sends, so they need the gains of all devices.
A device is idle in a round that its number is not among the senders of; a round without senders has eta 0, and the
server divides by the number of senders. With --nu they spend the same total as the others, the mean floor of all
devices plus nu, on the --past. If their parameters are fixed, as in best:number=8,level=0, they need neither.

The trace is a table with a header and one row per round: a column min_gain (the smallest |h_m|^2 / k_m^2), or a column
per device, h2_1 ... h2_M with |h_m|^2 or h_1 ... h_M with complex h_m such as 0.1+0.2j, in any order, separated by
commas, semicolons, tabs or blanks; an index, round and time are optional, and # begins a comment. Gains are linear
power ratios, or dB with --unit db. With --unit dbm the columns are received powers, and have any names. A table can
also have one row per value, with columns link, value, and round or time; a .npy file has an array of shape (M, T). With
--gaps hold a missing value is the last one of its link, and with --gaps floor it is --sensitivity, in the same unit;
more than --max-gaps of all values, or twice this share of a link's, are an error. If the clocks of the links differ,
--round-time S, in the unit of the times (seconds for ISO 8601), makes a round of the times within S/4 of its middle.
With --split 0.5 the first half of the trace is the past, and the other half is scheduled.

A scenario file is TOML with the keys name, num_devices, num_rounds, num_parameters, batch_size, dataset_size,
clip_norm, max_power (W), noise_power (W), order, and optionally privacy_noise_power (W), the part of the noise that the
server cannot cancel, for which --interference is another way. In Python, adascale.Scenario.mnist().to_toml() shows a
preset's.

epsilon is proven and holds for every device. epsilon_mean is the mean over devices, which is no guarantee, and rdp is
the mean over devices of the Renyi leakage in nats. The column made_with of --out names the scenario, its digest, the
interference, the policy and the version; 'adascale epsilon' refuses the file with another scenario.

example:
  adascale schedule --scenario my.toml --gains gains.csv --nu 0.04 --out eta.csv
  adascale schedule --gains rssi.csv --unit dbm --transmit-power 20 --gaps hold --nu 0.04 --out eta.csv
  adascale plot eta.csv eta.pdf --x round --y noise_energy --linear x
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

import adascale
from adascale.cli import causal, common, marks

_LEAST_SHARE = 1e-12  # least nu over the largest floor, as float64 has sixteen digits


def run(options: argparse.Namespace) -> None:
    """Print the totals, and write the schedule."""
    inputs = common.input_files("--scenario", options.scenario) | {
        "--gains": options.gains,
        "--past": options.past,
    }
    common.check_outputs(inputs, {"--out": options.out})
    scenario = common.read_scenario(options.scenario, options.interference).scenario
    exact = options.orders is None and (
        options.epsilon is not None or "epsilon=" in (options.policy or "")
    )
    accountant = common.find_accountant(
        options.accountant or ("exact" if exact else "renyi"), options.orders
    )
    trace = common.read_trace(options.gains, options, scenario, options.split)
    if trace.past and options.hindsight:
        raise ValueError("--split cannot be combined with --hindsight")
    horizon = replace(scenario, num_rounds=trace.min_gain.size)
    name, policy, budget_mode = causal.choose(
        options, horizon, trace if options.hindsight else trace.past
    )
    nu = options.nu
    problem = adascale.ReceiveScalingProblem(
        scenario, trace.min_gain, 1.0 if nu is None else nu
    )
    floor = problem.min_noise_energy
    if nu is not None and nu < (least := _LEAST_SHARE * float(floor.max())):
        share = f"{_LEAST_SHARE:g} of the largest noise floor (round {floor.argmax()})"
        raise ValueError(
            f"--nu must be at least {least:.3g}, {share}, or rounding exceeds it; got {nu:g}"
        )
    who, shares, given = {}, {}, []
    with common.noting_orders():
        if isinstance(policy, adascale.policies.Selecting):
            if trace.gain is None:
                raise ValueError(
                    f"{name} needs the gains of every device, but {options.gains} has min_gain"
                )
            made: Any = policy.select(horizon, trace.gain)
            eta, cost = made.eta, float(made.total - floor.mean())
            energy, share = (
                np.where(eta > 0, made.noise_energy, np.inf),
                made.participation,
            )
            listed = [
                " ".join(map(str, np.flatnonzero(each) + 1)) for each in made.senders.T
            ]
            who = {"number": made.senders.sum(axis=0), "senders": np.array(listed)}
            shares = {
                "participation": float(share.mean()),
                "participation_min": float(share.min()),
            }
        else:
            energy = policy.schedule(problem)
            made, given, eta, cost = (
                problem,
                [energy],
                problem.eta(energy),
                float(problem.cost(energy)),
            )
        epsilons = adascale.problem.over_devices(
            made.epsilons(*given, accountant, options.delta)
        )
    spent = 1.0 if nu is None else cost / nu
    if budget_mode == causal.BUDGET_MODES["hard"] and spent > 1 + 1e-6:
        found = f"its cost is {cost:.6g}, {spent:.3g} times nu"
        raise RuntimeError(
            f"{name} must not exceed nu = {nu:g}, but {found}; no schedule was written"
        )
    columns = {
        "min_gain": problem.min_gain,
        "floor": floor,
        "noise_energy": energy,
        "eta": eta,
    } | who
    made_with = marks.mark(
        scenario, options.interference, policy=name, nu=nu, rounds=problem.num_rounds
    )
    columns[marks.COLUMN] = np.full(problem.num_rounds, made_with)
    rows = list(
        zip(
            range(problem.num_rounds),
            *(each.tolist() for each in columns.values()),
            strict=True,
        )
    )
    header = ("round", *columns)
    totals = {"scenario": scenario.name, "policy": name, "rounds": problem.num_rounds}
    named = (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    totals |= {
        each: float(value)
        for each in named
        if (value := getattr(policy, each)) is not None
    }
    totals |= {"budget_mode": budget_mode, "nu": nu, "cost": cost} | shares
    totals |= {
        "order": scenario.order,
        "rdp": float(made.rdp(*given)),
        "delta": options.delta,
    }
    totals |= {each: float(value) for each, value in epsilons.items()}
    text = common.shown(
        totals,
        options.json,
        schedule=[dict(zip(header, row, strict=True)) for row in rows],
    )
    common.print_and_write(
        text,
        {
            options.out: "".join(
                f"{','.join(map(str, row))}\n" for row in (header, *rows)
            )
        },
    )
    if trace.past:
        common.note(
            f"the first {trace.past.min_gain.size} rounds of {options.gains} are the past; the next is round 0"
        )
    if problem.num_rounds != scenario.num_rounds:
        common.note(
            f"the trace sets {problem.num_rounds} rounds, where {scenario.name} has {scenario.num_rounds}"
        )
    if not isinstance(policy, adascale.OnlinePolicy | adascale.policies.Selecting):
        common.note(f"{name} reads the whole trace")
    elif options.hindsight and (
        "in hindsight" in budget_mode or policy.needs_mean_gain or policy.needs_law
    ):
        common.note(
            f"{name} was tuned on the whole trace, or plans with its gains, which no server can do"
        )
    if abs(spent - 1) > 1e-6:
        common.note(common.spends(name, spent, spent))
