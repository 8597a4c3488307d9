"""The command ``adascale``: leakage of the methods, scalings for a server's own channel trace, trainings and sweeps."""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from adascale import policies
from adascale._files import write_atomically
from adascale.experiments import POLICIES, leakage_table, load
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

_LEAKAGE = """\
Simulate the paper's channels and report what each method leaks when its cost is tuned to nu.

The columns: RDP is the Renyi leakage at the scenario's order, summed over rounds, mean over devices; epsilon is the
DP leakage at delta, at the best order, mean over devices. Each is a geometric mean over the realisations, with its
95 % t interval on the logarithm from two realisations on.

A policy of your own is --policy my_module:MyPolicy, a class with start and step. Where its constructor needs an
argument, that parameter is tuned until the cost is nu; one called mean_gain receives the channel statistics."""

_SCHEDULE = """\
Choose the receive scaling eta of every round for a channel trace that you measured.

The trace is a CSV with a header and one row a round: either one column min_gain (the smallest |h_m|^2 / k_m^2), or one
column a device, h2_1 ... h2_M, with |h_m|^2 as linear power gains. EstimFuture and PowerControl need the latter: they
plan with every device's mean gain, which is taken from the trace. A scenario file is TOML with the keys name,
num_devices, num_rounds, num_parameters, batch_size, dataset_size, clip_norm, max_power (W), noise_power (W), order."""

_TRAIN = """\
Train over the simulated air with one policy's receive scalings, tuned until their cost is nu.

At one seed every policy and every nu meets the same channels, initial model, batches and noise directions. The digits
come with scikit-learn; mnist and cifar10 are read from the folder in ADASCALE_DATA, or from the user's cache, where
'adascale download' puts them. The history has one row a round; test loss, accuracy and epsilon so far stand where the
model was evaluated. Needs the extra: pip install 'adascale[learn]'."""

_SWEEP = """\
Bring every run of a sweep file into a store, and write their table.

The file is TOML: [[runs]] blocks with a reading (a name for the block), dataset, policy, nu, seed and whatever else is
to be changed of the paper's setting; a list stands for all of its values, and all combinations are run. Runs that the
store holds are not run again; a run that was stopped or killed goes on from its last checkpoint; failed ones are tried
again, and reported. Sweeps may share a store, and so may the workers of a Dask cluster. Beside the table lie the
learning curves, in NAME-curves.csv. Needs the extra: pip install 'adascale[sweep]'."""

_DOWNLOAD = """\
Fetch a data set through torchvision, checksums verified, into the folder in ADASCALE_DATA or into the user's cache.

Nothing else ever downloads. Needs the extra: pip install 'adascale[learn]'."""

_EXAMPLES = {
    "leakage": "example:\n  adascale leakage --scenario mnist --nu 0.01 --nu 0.16 --realisations 3 --out leakage.csv",
    "schedule": "example:\n  adascale schedule --scenario my.toml --gains gains.csv --policy adascale --nu 0.04 "
    "--out eta.csv",
    "train": "example:\n  adascale train --dataset mnist --policy adascale --nu 0.04 --seed 0 --out run.csv "
    "--history history.csv",
    "sweep": "example:\n  adascale sweep results/mnist/accuracy.toml --store runs --jobs 2",
    "download": "example:\n  adascale download mnist",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, exit code 2; the usage is what --help is for."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 on success, 2 on bad input, 1 if `schedule` cannot spend the budget."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"adascale {options.command}: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"adascale {options.command}: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> _Parser:
    parser = _Parser(prog="adascale", description="Adaptive receive scaling for over-the-air federated learning.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{leakage,schedule,train,sweep,download}")
    summaries = {
        "leakage": "leakage of the methods against nu",
        "schedule": "receive scalings for a channel trace",
        "train": "train over the simulated air",
        "sweep": "many trainings, resumable, on many machines",
        "download": "fetch a data set for train",
    }
    texts = {"leakage": _LEAKAGE, "schedule": _SCHEDULE, "train": _TRAIN, "sweep": _SWEEP, "download": _DOWNLOAD}
    made = {}
    for name, text in texts.items():
        made[name] = commands.add_parser(
            name,
            help=summaries[name],
            description=text,
            epilog=_EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    leakage, schedule, train = made["leakage"], made["schedule"], made["train"]
    for each in (leakage, schedule):
        each.add_argument(
            "--scenario",
            default="mnist",
            metavar="NAME|FILE",
            help="mnist, cifar10, digits or a TOML file (default: mnist)",
        )
    for each in (leakage, schedule, train):
        each.add_argument("--delta", type=float, default=1e-5, help="delta of the DP leakage (default: 1e-5)")
        each.add_argument("--json", action="store_true", help="print JSON instead of a table")
    leakage.add_argument("--nu", type=float, action="append", required=True, help="convergence level; may be repeated")
    leakage.add_argument("--realisations", type=int, default=3, metavar="R", help="channel draws (default: 3)")
    leakage.add_argument("--seed", type=int, default=0, help="seed of the first draw; the others follow (default: 0)")
    leakage.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"one of {_names()}, or module:Class; may be repeated (default: all)",
    )
    leakage.add_argument("--out", type=Path, metavar="CSV", help="write every realisation as a row of this file")
    leakage.set_defaults(run=_leakage)
    schedule.add_argument("--gains", type=Path, required=True, metavar="CSV", help="the channel trace")
    schedule.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    schedule.add_argument(
        "--policy", default="adascale", metavar="NAME", help=f"one of {_names()}, or module:Class (default: adascale)"
    )
    schedule.add_argument(
        "--penalty",
        type=float,
        help="AdaScale's V, for a decision that looks at no later round; without it V is tuned to spend nu exactly, "
        "which reads the whole trace",
    )
    schedule.add_argument("--out", type=Path, metavar="CSV", help="write round, min_gain, floor, noise_energy, eta")
    schedule.set_defaults(run=_schedule)
    train.add_argument("--dataset", default="digits", metavar="NAME", help="digits, mnist or cifar10 (default: digits)")
    train.add_argument(
        "--policy", default="adascale", metavar="NAME", help=f"one of {_names()}, or module:Class (default: adascale)"
    )
    train.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    train.add_argument("--seed", type=int, default=0, help="the realisation (default: 0)")
    train.add_argument("--rounds", type=int, metavar="N", help="a shorter horizon: the first N rounds of the channel")
    train.add_argument("--every", type=int, default=25, metavar="K", help="evaluate every K rounds (default: 25)")
    train.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    train.add_argument("--store", type=Path, metavar="DIR", help="keep checkpoints and the result there, and resume")
    train.add_argument("--out", type=Path, metavar="CSV", help="write the result, one row")
    train.add_argument("--history", type=Path, metavar="CSV", help="write one row a round")
    train.set_defaults(run=_train)
    sweep = made["sweep"]
    sweep.add_argument("file", type=Path, metavar="FILE.toml", help="the sweep file")
    sweep.add_argument("--store", type=Path, default=Path("runs"), metavar="DIR", help="the store (default: runs)")
    sweep.add_argument("--out", type=Path, metavar="CSV", help="the table (default: FILE.csv)")
    sweep.add_argument("--jobs", type=int, default=1, metavar="N", help="processes on this machine (default: 1)")
    sweep.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, tcp://host:port, instead of processes here")
    sweep.add_argument("--threads", type=int, default=1, metavar="N", help="PyTorch's threads a process (default: 1)")
    sweep.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    sweep.add_argument(
        "--retries", type=int, default=1, metavar="N", help="further passes over what failed (default: 1)"
    )
    sweep.set_defaults(run=_sweep)
    made["download"].add_argument("dataset", help="mnist or cifar10")
    made["download"].set_defaults(run=_download)
    return parser


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
    runs = _learning("adascale.experiments.runs")
    run = runs.make_run(options.dataset, options.policy, options.nu, options.seed, rounds=options.rounds,
                        every=options.every, delta=options.delta)  # fmt: skip
    how = {"device": options.device, "progress": sys.stderr.isatty()}
    if options.store:
        row, history = _learning("adascale.experiments.store").Store(options.store).run(run, **how)
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
    module = _learning("adascale.experiments.sweep")
    entries, store = module.read_sweep(options.file), module.Store(options.store)
    how = {name: getattr(options, name) for name in ("jobs", "dask", "device", "threads", "retries")}
    outcomes = module.sweep([entry.run for entry in entries], store, **how, progress=sys.stderr.isatty())
    finished = {each.address for each in outcomes if each.state == "finished"}
    table, history = module.tables([entry for entry in entries if entry.run.address in finished], store)
    print(f"{len(finished)} of {len(outcomes)} runs finished")
    if len(table):
        write_atomically(out, table)
        write_atomically(curves, history)
        print(f"{len(table)} rows in {out}, learning curves in {curves}")
    failed = {}
    for each in outcomes:
        if each.address not in finished:
            failed.setdefault(each.message, []).append(each.address)
    if failed:
        told = (f"{addresses[0]}{f' and {len(addresses) - 1} more' * (len(addresses) > 1)}: {message}"
                for message, addresses in failed.items())  # fmt: skip
        raise RuntimeError(f"{len(outcomes) - len(finished)} of {len(outcomes)} runs failed: {'; '.join(told)}")


def _download(options) -> None:
    print(_learning("adascale.learning.data").download(options.dataset))


def _learning(module: str):
    """A module that needs torch, which the core does without."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; this command needs the extra: pip install 'adascale[learn]'") from None


class Trace(NamedTuple):
    """A channel trace."""

    min_gain: np.ndarray
    r""":math:`h_{\min,t}^2` of every round, shape (T,)."""
    mean_gain: np.ndarray | None
    r"""The mean over the rounds of :math:`|h_{m,t}|^2 / k_m^2`, shape (M,), where the trace has all devices."""


def read_gains(path, scenario: Scenario) -> Trace:
    r"""Read a channel trace.

    Parameters
    ----------
    path : path-like
        A CSV with a header and one row a round: a column ``min_gain``, or columns ``h2_1`` ... ``h2_M`` with the raw
        :math:`|h_{m,t}|^2` (linear), of which the minimum over :math:`k_m^2` is taken.
    scenario : Scenario
        Gives M and :math:`k_m^2`.

    Raises
    ------
    ValueError
        If the header is another one, or a row has a wrong number of fields or a gain that is no positive number; it
        names the line.
    """
    devices = [f"h2_{m}" for m in range(1, scenario.num_devices + 1)]
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [(number, row) for number, row in enumerate(csv.reader(file), start=1) if row]
    if not rows:
        raise ValueError(f"{path} is empty; expected a header and one row a round")
    header = [name.strip() for name in rows[0][1]]
    if header not in (["min_gain"], devices):
        raise ValueError(
            f"{path}: header {','.join(header)!r}; expected 'min_gain', or 'h2_1' to 'h2_{scenario.num_devices}'"
        )
    gains = []
    for number, row in rows[1:]:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {number}: expected {len(header)} fields, got {len(row)}")
        gains.append([_gain(field, f"{path}, line {number}") for field in row])
    if not gains:
        raise ValueError(f"{path} has no rows; expected one a round")
    gains = np.array(gains).T
    if header == ["min_gain"]:
        return Trace(gains[0], None)
    return Trace(scenario.min_gain(gains), gains.mean(axis=-1) / scenario.batch_second_moment)


def _gain(field: str, where: str) -> float:
    try:
        value = float(field)
    except ValueError:
        value = float("nan")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{where}: expected a gain that is finite and > 0, got {field!r}")
    return value


def _scenario(name: str) -> Scenario:
    known = {"mnist": Scenario.mnist, "cifar10": Scenario.cifar10, "digits": Scenario.digits}
    if name in known:
        return known[name]()
    if not Path(name).is_file():
        raise ValueError(f"--scenario {name!r} is neither mnist, cifar10, digits nor a file")
    return Scenario.from_toml(name)


def _names() -> str:
    return ", ".join(name.lower() for name in POLICIES)


def _check_writable(path: Path | None, option: str = "--out") -> None:
    """Say so before the work is done, not after it."""
    if path is not None and ((path.exists() and not path.is_file()) or not path.parent.is_dir()):
        raise ValueError(f"{option} {str(path)!r} must be a file in an existing folder")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
