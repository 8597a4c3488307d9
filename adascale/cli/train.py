"""``adascale train``: one training over the simulated air."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adascale.cli import common

DESCRIPTION = """\
Train over the simulated air with one policy's receive scalings, tuned until their cost is nu.

At one seed every policy and every nu meets the same channels, initial model, batches and noise directions. The digits
come with scikit-learn; mnist and cifar10 are read from the folder in ADASCALE_DATA, or from the user's cache, where
'adascale download' puts them. A data set and a network of your own are a preset file: TOML with the tables scenario,
channel and training, whose dataset and model may be module:function and module:Class, and what it does not say comes
from the preset that its base names. The history has one row a round; test loss, accuracy and epsilon so far stand where
the model was evaluated. Needs the extra: pip install 'adascale[learn]'."""

EXAMPLE = "adascale train --dataset mnist --policy adascale --nu 0.04 --seed 0 --out run.csv --history history.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_privacy(parser)
    common.add_channel(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--dataset", default="digits", metavar="NAME|FILE", help="digits, mnist, cifar10 or a preset file "
        "(default: digits)"
    )  # fmt: skip
    common.add_policy(parser, "adascale")
    parser.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    parser.add_argument("--seed", type=int, default=0, help="the realisation (default: 0)")
    parser.add_argument("--rounds", type=int, metavar="N", help="a shorter horizon: the first N rounds of the channel")
    parser.add_argument("--every", type=int, default=25, metavar="K", help="evaluate every K rounds (default: 25)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep checkpoints and the result there, and resume")
    parser.add_argument("--out", type=Path, metavar="CSV", help="write the result, one row")
    parser.add_argument("--history", type=Path, metavar="CSV", help="write one row a round")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    import pandas as pd

    from adascale.files import write_atomically

    common.check_writable(options.out)
    common.check_writable(options.history, "--history")
    make_run = common.learning("adascale.runs.specification").make_run
    wanted = make_run(options.dataset, options.policy, options.nu, options.seed, rounds=options.rounds,
                      channel=options.channel, accountant=options.accountant, every=options.every,
                      delta=options.delta)  # fmt: skip
    how = {"device": options.device, "progress": sys.stderr.isatty()}
    if options.store:
        row, history = common.learning("adascale.runs.store").Store(options.store).run(wanted, **how)
    else:
        row, history = common.learning("adascale.runs.execution").perform(wanted, **how)
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
    full = common.read_scenario(options.dataset).scenario
    if wanted.shortened:
        print(f"note: {wanted.scenario.num_rounds} of {full.num_rounds} rounds; the result is one of a shortened run",
              file=sys.stderr)  # fmt: skip
    if wanted.scenario.num_parameters != full.num_parameters:
        print(f"note: the network has {wanted.scenario.num_parameters} parameters, which replace the "
              f"{full.num_parameters} of {full.name}", file=sys.stderr)  # fmt: skip
