"""``adascale audit``: canaries in a training, and a lower bound on epsilon that could prove the accountant wrong."""

from __future__ import annotations

import argparse
import sys

from adascale.cli import common

DESCRIPTION = """\
Audit the privacy of a training over the simulated air: put canaries into the data, each by a fair coin, tell from what
is seen which were in, and conclude how large epsilon must be at the least. A correct schedule with a correct accountant
is above all of these bounds with the confidence, and no audit proves that an epsilon holds.

By default the canaries are gradients of norm C, and what is seen is what the server receives in every round. With
--black-box they are mislabelled scans, and what is seen is their loss under the final model. With --paired N there are
no canaries but N trainings with and without one mislabelled scan, which the training itself draws, clips and divides.
Three bounds hold together with the confidence: one_run assumes nothing, rates that the scores are independent (as they
are: each canary has an axis of its own, or each run its own noise), scaled also that the noise is the claimed one but
for its scale. lower is the largest that needs no assumption on the noise.

epsilon is the exact one, proven from above; renyi is the conversion at Opacus' orders. Where a bound exceeds epsilon,
the exit code is 1. --sabotage shows that it would: noise takes the receiver's noise away, clipping gives the canaries
ten times the norm, or has paired runs clip at ten times C, without telling the accountant. Needs the extra: pip install
'adascale[learn]'."""

EXAMPLE = "adascale audit --dataset digits --policy learn --nu 0.04 --canaries 200 --confidence 0.95 --json"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument(
        "--dataset",
        default="digits",
        metavar="NAME|FILE",
        help="digits, mnist, cifar10, a preset file or module:function (default: digits)",
    )
    common.add_policy(parser, "learn")
    parser.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    common.add_seed(parser)
    parser.add_argument("--rounds", type=int, metavar="N", help="a shorter horizon: the first N rounds of the channel")
    parser.add_argument("--canaries", type=int, metavar="K", help="in each training (default: 1000)")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="trainings, at seeds one apart (default: 1)")
    parser.add_argument("--paired", type=int, metavar="N", help="paired runs: N trainings, with and without one sample")
    parser.add_argument("--confidence", type=float, default=0.95, help="of all bounds together (default: 0.95)")
    parser.add_argument("--delta", type=float, default=1e-5, help="delta of every epsilon (default: 1e-5)")
    parser.add_argument("--black-box", action="store_true", help="mislabelled scans and the final model alone")
    parser.add_argument("--sabotage", choices=("noise", "clipping"), help="take this away, and see it found")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    from adascale.comparison import as_method, find_method

    if options.paired is not None and (options.canaries is not None or options.runs != 1):
        raise ValueError("--paired goes with neither --canaries nor --runs")
    if options.paired is None and options.black_box and (options.sabotage == "clipping" or options.runs != 1):
        raise ValueError("--black-box goes with neither --runs nor --sabotage clipping, unless with --paired")
    audit, learning = common.learning("adascale.audit"), common.learning("adascale.learning")
    wanted = common.learning("adascale.runs.specification").make_run(
        options.dataset, options.policy, options.nu, options.seed, rounds=options.rounds, delta=options.delta
    )
    with common.naming_own_code(), common.noting_orders():
        problem, mean_gain = common.learning("adascale.runs.execution").problem_of(wanted)
        eta = as_method(find_method(wanted.policy)[1], wanted.channel)(problem, mean_gain).schedule(problem)
        dataset = learning.load(wanted.training.dataset, wanted.training.input_scaling)
        how = {"delta": options.delta, "confidence": options.confidence, "noise": options.sabotage != "noise"}
        given = (problem, eta, wanted.training, dataset, options.seed)
        norm = 10.0 if options.sabotage == "clipping" else 1.0
        canaries = 1000 if options.canaries is None else options.canaries
        if options.paired is not None:
            found = audit.audit_paired(*given, options.paired, **how, norm=norm)[options.black_box]
        elif options.black_box:
            found = audit.audit_samples(*given, canaries, **how)
        else:
            found = audit.audit_gradients(*given, canaries, **how, runs=options.runs, norm=norm)
    bounds = {name: each for name, each in found._asdict().items() if name != "accounted"}
    told = {
        "dataset": wanted.scenario.name,
        "policy": wanted.policy,
        "nu": wanted.nu,
        "seed": wanted.seed,
        "rounds": wanted.scenario.num_rounds,
        "sabotage": options.sabotage,
        "epsilon": found.accounted,
        "lower": found.lower,
    } | bounds
    print(common.shown(told, options.json))
    if found.refuted:
        sys.stdout.flush()
        which = ", ".join(f"{name} {value:.4g}" for name, value in found.refuted.items())
        raise RuntimeError(
            f"the accounted epsilon {found.accounted:.4g} is refuted by {which}: the training leaks "
            "more than its accountant says"
        )
