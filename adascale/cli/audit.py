"""Audit the privacy of a training run: find a lower bound on epsilon that could refute the accountant.

Canaries are put into the data, each by a fair coin. From what it observes, the audit guesses which were included, and
concludes how large epsilon must be at least. If schedule and accountant are correct, epsilon exceeds all these bounds
with the given confidence. No audit can prove an epsilon.

The canaries are gradients of norm C, and the audit observes what the server receives in every round. Three bounds hold
jointly. one_run assumes nothing. rates assumes independent scores, which holds because each canary has its own axis and
each run its own noise. scaled also assumes the claimed noise up to a factor. lower is the larger of one_run and rates,
which assume nothing about the noise.

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


def run(options: argparse.Namespace) -> None:
    """Print the bounds, and raise a ``RuntimeError`` if one exceeds the accounted epsilon."""
    adascale.comparison.find_method(
        options.policy
    )  # a receiver without noise is no policy here
    audit, learning = (
        importlib.import_module("adascale.audit"),
        importlib.import_module("adascale.learning"),
    )
    make_run = importlib.import_module("adascale.runs.specification").make_run
    changes = {"rounds": options.rounds, "delta": options.delta}
    wanted = make_run(
        options.dataset, options.policy, options.nu, options.seed, **changes
    )
    with common.noting_orders():
        problem, _, schedule = importlib.import_module(
            "adascale.runs.execution"
        ).decided(wanted)
        if isinstance(schedule, adascale.policies.Selection):
            raise ValueError(
                f"--policy {options.policy} chooses who sends; an audit needs all devices in every round"
            )
        dataset = learning.load(wanted.training.dataset, wanted.training.input_scaling)
        given = (
            problem,
            schedule,
            wanted.training,
            dataset,
            options.seed,
            options.canaries,
        )
        how = {
            "runs": options.runs,
            "delta": options.delta,
            "confidence": options.confidence,
        }
        found = audit.audit_gradients(*given, **how)
        epsilon = float(
            problem.epsilon(schedule, adascale.ExactAccountant(), options.delta)
        )
    totals = {
        "dataset": wanted.scenario.name,
        "policy": wanted.policy,
        "nu": wanted.nu,
        "seed": wanted.seed,
    }
    totals |= {
        "rounds": wanted.scenario.num_rounds,
        "epsilon": epsilon,
        "lower": found.lower,
    } | found._asdict()
    print(common.shown(totals, options.json), flush=True)
    if found.refuted:
        bounds = ", ".join(
            f"{name} {value:.4g}" for name, value in found.refuted.items()
        )
        accounted = f"epsilon {found.accounted:.6g} is refuted by {bounds}"
        raise RuntimeError(f"the training leaks more than accounted: {accounted}")
