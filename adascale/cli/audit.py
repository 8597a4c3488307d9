"""Audit the privacy of a training run: find a lower bound on epsilon that could refute the accountant.

Canaries are put into the data, each by a fair coin. From what it observes, the audit guesses which were included, and
concludes how large epsilon must be at least. If schedule and accountant are correct, epsilon exceeds all these bounds
with the given confidence. No audit can prove an epsilon.

The canaries are gradients of norm C, and the audit observes what the server receives in every round. Three bounds hold
jointly. one_run assumes nothing. rates assumes independent scores, which holds because each canary has its own axis and
each run its own noise. scaled also assumes the claimed noise up to a factor. lower is the larger of one_run and rates,
which do not use what is claimed of the noise.

epsilon is proven and holds for every device. accounted is that of the audited devices, which have the sampling rate and
the batch size of the first one, and renyi is theirs by the conversion at Opacus' orders. If a bound exceeds accounted,
the exit code is 1. This command needs the extra: pip install 'adascale[learn]'.

example:
  adascale audit --dataset digits --policy learn --nu 0.04 --canaries 200 --confidence 0.95 --json
"""

import argparse
import importlib

import adascale
from adascale.cli import common
from adascale.cli.options import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    parser.share("dataset")
    parser.share("policy", default="learn")
    parser.share("nu", required=True)
    parser.share("seed", "rounds")
    add(
        "--canaries",
        help="number of canaries per training run",
        type=int,
        default=1000,
        metavar="K",
    )
    add(
        "--runs",
        help="number of training runs, with consecutive seeds",
        type=int,
        default=1,
        metavar="N",
    )
    add(
        "--confidence",
        help="joint confidence level of all bounds",
        type=float,
        default=0.95,
    )
    parser.share("delta", "json")


def run(options: argparse.Namespace) -> None:
    """Print the bounds, and raise a ``RuntimeError`` if one exceeds the accounted epsilon."""
    # refuses NoiseFree, a receiver without noise, which is no policy
    adascale.comparison.find_method(options.policy)
    learning = importlib.import_module("adascale.learning")
    audit = importlib.import_module("adascale.audit")
    execution = importlib.import_module("adascale.runs.execution")
    specification = importlib.import_module("adascale.runs.specification")
    delta = options.delta
    training_run = specification.make_run(
        options.dataset,
        options.policy,
        options.nu,
        options.seed,
        rounds=options.rounds,
        delta=delta,
    )
    with common.noting_orders():
        problem, _, schedule = execution.decided(training_run)
        if isinstance(schedule, adascale.policies.Selection):
            raise ValueError(
                f"--policy {options.policy} chooses who sends; an audit needs all devices in every round"
            )
        training = training_run.training
        result = audit.audit_gradients(
            problem,
            schedule,
            training,
            learning.load(training.dataset, training.input_scaling),
            options.seed,
            options.canaries,
            runs=options.runs,
            delta=delta,
            confidence=options.confidence,
        )
        epsilon = problem.epsilon(schedule, adascale.ExactAccountant(), delta)
    totals = {
        "dataset": training_run.scenario.name,
        "policy": training_run.policy,
        "nu": training_run.nu,
        "seed": training_run.seed,
        "rounds": training_run.scenario.num_rounds,
        "epsilon": float(epsilon),
        "lower": result.lower,
        **result._asdict(),
    }
    print(common.results_text(totals, options.json), flush=True)
    if result.refuted:
        bounds = [f"{name} {value:.4g}" for name, value in result.refuted.items()]
        raise RuntimeError(
            "the training leaks more than accounted: "
            f"epsilon {result.accounted:.6g} is refuted by {', '.join(bounds)}"
        )
