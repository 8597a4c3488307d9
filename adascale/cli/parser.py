"""What the command ``adascale`` understands, and how it explains itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from adascale.comparison import POLICIES

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
learning curves, in NAME-curves.csv. While a sweep is under way, --report beside it shows how far it is, and writes
unfinished runs too: a row without results, and the learning curve so far.

Needs the extra: pip install 'adascale[sweep]'."""

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


def parser(commands: dict[str, Callable]) -> argparse.ArgumentParser:
    """The parser; ``commands`` are the functions of the parsed options, by name."""
    root = _Parser(prog="adascale", description="Adaptive receive scaling for over-the-air federated learning.")
    added = root.add_subparsers(dest="command", required=True, metavar="{leakage,schedule,train,sweep,download}")
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
        made[name] = added.add_parser(
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
    sweep.add_argument(
        "--report", action="store_true", help="run nothing: show how far the runs are, and write what the store holds"
    )
    made["download"].add_argument("dataset", help="mnist or cifar10")
    for name, run in commands.items():
        made[name].set_defaults(run=run)
    return root


def _names() -> str:
    return ", ".join(name.lower() for name in POLICIES)
