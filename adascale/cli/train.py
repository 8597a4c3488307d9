"""``adascale train``: one training over the simulated air."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from adascale.cli import common

if TYPE_CHECKING:
    from adascale.runs.execution import Finished
    from adascale.runs.specification import Run

DESCRIPTION = """\
Train over the simulated air with one policy's receive scalings, tuned until their cost is nu.

At one seed every policy and every nu meets the same channels, initial model, batches and noise directions. The digits
come with scikit-learn; mnist and cifar10 are read from the folder in ADASCALE_DATA, or from the user's cache, where
'adascale download' puts them. Data of your own are --dataset module:function, a function without arguments that returns
an adascale.learning.data.RawDataset, with --model module:Class; they are trained on as the digits are. Whatever else is
to be yours stands in a preset file: TOML with the tables scenario, channel and training, whose dataset and model may be
module:function and module:Class, and what it does not say comes from the preset that its base names. The policy
NoiseFree is a receiver without noise: it keeps no budget and protects nobody.

The history has one row a round; test loss, accuracy and epsilon so far stand where the model was evaluated. In JSON an
infinite epsilon is the string "Infinity", and what is not known is null. A training that was stopped goes on if it has
a --store and is called again. Needs the extra: pip install 'adascale[learn]'."""

EXAMPLE = "adascale train --dataset mnist --policy adascale --nu 0.04 --seed 0 --out run.csv --history history.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_privacy(parser)
    common.add_channel(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--dataset",
        default="digits",
        metavar="NAME|FILE",
        help="digits, mnist, cifar10, a preset file or module:function (default: digits)",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help=f"the network: {common.names('models')}, or module:Class (default: the preset's)",
    )
    common.add_policy(parser, "adascale", "NoiseFree")
    parser.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    common.add_seed(parser)
    parser.add_argument("--rounds", type=int, metavar="N", help="a shorter horizon: the first N rounds of the channel")
    parser.add_argument("--every", type=int, default=25, metavar="K", help="evaluate every K rounds (default: 25)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep checkpoints and the result there, and resume")
    parser.add_argument("--out", type=Path, metavar="CSV", help="write the result, one row")
    parser.add_argument("--history", type=Path, metavar="CSV", help="write one row a round")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    import pandas as pd

    from adascale.files import write_together

    outputs = {"--out": options.out, "--history": options.history}
    common.check_outputs(common.input_files("--dataset", options.dataset), outputs)
    if options.channel is not None:
        common.find_channel(options.channel)  # whose errors name the option
    common.find_accountant(options.accountant)
    changes = {} if options.model is None else {"model": options.model}
    wanted = common.learning("adascale.runs.specification").make_run(
        options.dataset,
        options.policy,
        options.nu,
        options.seed,
        rounds=options.rounds,
        channel=options.channel,
        accountant=options.accountant,
        every=options.every,
        delta=options.delta,
        **changes,
    )
    with common.naming_own_code(), common.noting_orders():
        row, history = _train(options, wanted, outputs)
    tables = {options.out: pd.DataFrame([row]), options.history: history}
    try:
        print(common.shown(row, options.json, history=history.to_dict(orient="records")))
    finally:  # also where nobody reads it
        write_together({path: table for path, table in tables.items() if path is not None})
    for note in _notes(options.dataset, wanted):
        common.note(note)


def stopped(options: argparse.Namespace) -> str:
    """What is left of it."""
    if options.store is None:
        return "nothing was kept; with --store DIR the same command would go on from here"
    return f"the same command goes on from what {options.store} holds"


def _train(options: argparse.Namespace, wanted: Run, outputs: Mapping[str, Path | None]) -> Finished:
    """In a store, or for this once."""
    how = {"device": options.device, "progress": sys.stderr.isatty()}
    work: Callable[..., Finished] = common.learning("adascale.runs.execution").perform
    if options.store is not None:
        store = common.learning("adascale.runs.store").Store(options.store)
        for option, path in outputs.items():
            if path is not None and store.owns(path):
                raise ValueError(f"{option} {str(path)!r} lies in the folder of a run of --store")
        work = store.run
    return work(wanted, **how)


def _notes(dataset: str, wanted: Run) -> Iterator[str]:
    """What should be known of a run."""
    from adascale.files import preset_chain
    from adascale.presets import load

    if wanted.training.dataset == dataset and ":" in dataset:
        yield f"{wanted.scenario.name} is trained on as the digits are; a preset file says it otherwise"
        dataset = "digits"
    full = load(dataset).scenario
    if wanted.shortened:
        yield f"{wanted.scenario.num_rounds} of {full.num_rounds} rounds; the result is one of a shortened run"
    if wanted.scenario.num_parameters != full.num_parameters:
        said = next(path for path, content in preset_chain(dataset) if "num_parameters" in content["scenario"])
        yield (
            f"the network has {wanted.scenario.num_parameters} parameters, which replace the {full.num_parameters} "
            f"in {said.name}"
        )
