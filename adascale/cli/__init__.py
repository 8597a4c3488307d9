"""The command ``adascale``: leakage of the methods, scalings for a server's own channel trace, trainings and sweeps."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from adascale import policies
from adascale.channel import read_gains
from adascale.cli.parser import parser
from adascale.comparison import POLICIES, leakage_table, load
from adascale.files import write_atomically
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 on success, 2 on bad input, 1 if `schedule` cannot spend the budget."""
    commands = {"leakage": _leakage, "schedule": _schedule, "train": _train, "sweep": _sweep, "download": _download}
    options = parser(commands).parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"adascale {options.command}: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"adascale {options.command}: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _leakage(options) -> None:
    scenario = _scenario(options.scenario)
    if options.realisations < 1:
        raise ValueError(f"--realisations must be >= 1, got {options.realisations}")
    chosen = {}
    for name, make in map(load, options.policy or POLICIES):
        if name in chosen:
            raise ValueError(f"--policy names {name} twice")
        chosen[name] = make
    _check_writable(options.out)
    seeds = range(options.seed, options.seed + options.realisations)
    table = leakage_table(scenario, options.nu, seeds, chosen, delta=options.delta, progress=sys.stderr.isatty())
    if options.out:
        write_atomically(options.out, table)
    if options.json:
        print(table.to_json(orient="records", indent=1))
    else:
        print(_summary(table.dropna(subset=["cost"])).to_string(index=False))
    for policy, rows in table.groupby("policy", sort=False):
        if unreached := int(rows["cost"].isna().sum()):
            print(f"note: {policy} cannot spend nu in {unreached} of {len(rows)} runs, left out", file=sys.stderr)
        spent = rows["cost"] / rows["nu"]
        if (abs(spent - 1) > 1e-6).any():
            print(f"note: {policy} spends {spent.min():.3g} to {spent.max():.3g} times nu; leakages compare at equal "
                  "cost only", file=sys.stderr)  # fmt: skip


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """Geometric means with intervals, as text."""
    from adascale.statistics import log_interval

    rows = []
    for (policy, nu), group in table.groupby(["policy", "nu"], sort=False):
        row = {"policy": policy, "nu": f"{nu:g}", "realisations": len(group)}
        for column, label in (("rdp", f"RDP({group['order'].iloc[0]:g})"), ("epsilon", "epsilon")):
            centre, low, high = log_interval(group[column])
            row[label] = f"{centre:.4g}"
            if len(group) > 1:
                row[f"{label} 95 %"] = f"{low:.3g} .. {high:.3g}"
        rows.append(row)
    return pd.DataFrame(rows)


def _schedule(options) -> None:
    scenario = _scenario(options.scenario)
    name, make = load(options.policy)
    if options.penalty is not None and make is not POLICIES["AdaScale"]:
        raise ValueError(f"--penalty is AdaScale's, got it with --policy {options.policy}")
    _check_writable(options.out)
    trace = read_gains(options.gains, scenario)
    problem = ReceiveScalingProblem(scenario, trace.min_gain, options.nu)
    if problem.num_rounds != scenario.num_rounds:
        print(f"note: {options.gains} has {problem.num_rounds} rounds, {scenario.name} {scenario.num_rounds}; "
              "the trace decides", file=sys.stderr)  # fmt: skip
    if options.penalty is not None:
        policy = policies.AdaScale(options.penalty)
    else:
        policy = make(problem, trace.mean_gain)
        if make is POLICIES["AdaScale"]:
            print("note: V was tuned on the whole trace; give --penalty for a decision that looks at no later round",
                  file=sys.stderr)  # fmt: skip
        elif make is POLICIES["Optimal"]:
            print("note: Optimal reads the whole trace", file=sys.stderr)
        elif getattr(make, "parameter", True) or make.asks:
            print(f"note: {name} was tuned on the whole trace, or plans with its mean gains", file=sys.stderr)
    eta = policies.schedule(policy, problem)
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
        "penalty": float(policy.penalty) if make is POLICIES["AdaScale"] else None,
        "cost": float(problem.cost(eta)),
        "order": scenario.order,
        "rdp": float(problem.rdp(eta)),
        "delta": options.delta,
        "epsilon": float(problem.dp_epsilon(eta, options.delta)),
    }
    if options.out:
        write_atomically(options.out, table)
    if options.json:
        print(json.dumps(totals | {"schedule": table.to_dict(orient="records")}, indent=1))
    else:
        print("\n".join(f"{key:<9} {value:.6g}" if isinstance(value, float) else f"{key:<9} {value}"
                        for key, value in totals.items() if value is not None))  # fmt: skip


def _train(options) -> None:
    _check_writable(options.out)
    _check_writable(options.history, "--history")
    runs = _learning("adascale.runs.specification")
    run = runs.make_run(options.dataset, options.policy, options.nu, options.seed, rounds=options.rounds,
                        every=options.every, delta=options.delta)  # fmt: skip
    how = {"device": options.device, "progress": sys.stderr.isatty()}
    if options.store:
        row, history = _learning("adascale.runs.store").Store(options.store).run(run, **how)
    else:
        row, history = runs.perform(run, **how)
    if options.out:
        write_atomically(options.out, pd.DataFrame([row]))
    if options.history:
        write_atomically(options.history, history)
    if options.json:
        rounds = json.loads(history.to_json(orient="records", double_precision=15))
        print(json.dumps(row | {"history": rounds}, indent=1))
    else:
        print("\n".join(f"{key:<15} {value:.6g}" if isinstance(value, float) else f"{key:<15} {value}"
                        for key, value in row.items() if value is not None))  # fmt: skip
    full = _scenario(options.dataset)
    if run.scenario.num_rounds != full.num_rounds:
        print(f"note: {run.scenario.num_rounds} of {full.num_rounds} rounds; the result is one of a shortened run",
              file=sys.stderr)  # fmt: skip
    if run.scenario.num_parameters != full.num_parameters:
        print(f"note: the network has {run.scenario.num_parameters} parameters, which replace the "
              f"{full.num_parameters} of {full.name}", file=sys.stderr)  # fmt: skip


def _sweep(options) -> None:
    out = options.out or options.file.with_suffix(".csv")
    curves = out.with_name(f"{out.stem}-curves.csv")
    _check_writable(out)
    for name, least in (("jobs", 1), ("threads", 1), ("retries", 0)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name} must be >= {least}, got {getattr(options, name)}")
    module = _learning("adascale.runs.sweep")
    entries, store = module.read_sweep(options.file), module.Store(options.store)
    if options.report:
        print(module.progress(entries, store).to_string(index=False))
        _write_sweep(*module.tables(entries, store), out, curves)
        return
    how = {name: getattr(options, name) for name in ("jobs", "dask", "device", "threads", "retries")}
    outcomes = module.sweep([entry.run for entry in entries], store, **how, progress=sys.stderr.isatty())
    finished = {each.address for each in outcomes if each.state == "finished"}
    table, history = module.tables([entry for entry in entries if entry.run.address in finished], store)
    print(f"{len(finished)} of {len(outcomes)} runs finished")
    _write_sweep(table, history, out, curves)
    failed = {}
    for each in outcomes:
        if each.address not in finished:
            failed.setdefault(each.message, []).append(each.address)
    if failed:
        told = (f"{addresses[0]}{f' and {len(addresses) - 1} more' * (len(addresses) > 1)}: {message}"
                for message, addresses in failed.items())  # fmt: skip
        raise RuntimeError(f"{len(outcomes) - len(finished)} of {len(outcomes)} runs failed: {'; '.join(told)}")


def _write_sweep(table: pd.DataFrame, history: pd.DataFrame, out: Path, curves: Path) -> None:
    if len(table):
        write_atomically(out, table)
        write_atomically(curves, history)
        print(f"{len(table)} rows in {out}, learning curves in {curves}")


def _download(options) -> None:
    print(_learning("adascale.learning.data").download(options.dataset))


def _learning(module: str):
    """A module that needs torch, which the core does without."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; this command needs the extra: pip install 'adascale[learn]'") from None


def _scenario(name: str) -> Scenario:
    known = {"mnist": Scenario.mnist, "cifar10": Scenario.cifar10, "digits": Scenario.digits}
    if name in known:
        return known[name]()
    if not Path(name).is_file():
        raise ValueError(f"--scenario {name!r} is neither mnist, cifar10, digits nor a file")
    return Scenario.from_toml(name)


def _check_writable(path: Path | None, option: str = "--out") -> None:
    """Say so before the work is done, not after it."""
    if path is not None and ((path.exists() and not path.is_file()) or not path.parent.is_dir()):
        raise ValueError(f"{option} {str(path)!r} must be a file in an existing folder")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

