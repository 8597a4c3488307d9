"""Train over the simulated air with the receive scalings of one policy, tuned until their cost is nu.

With one seed, every policy and nu gets the same channels, initial model, batches and noise directions. The digits come
with scikit-learn; mnist and cifar10 are read from the folder ADASCALE_DATA, or from the user's cache: if they are not
there, the error has the line that downloads them. --dataset module:function is your own data, a function without
arguments that returns an adascale.learning.data.RawDataset, and --model module:Class your own network; they are trained
like the digits. Change anything else in a preset file: TOML with the tables scenario, channel and training, whose
dataset and model may be module:function and module:Class, and a base, the preset from which it takes the rest. The
default policy with --epsilon, privacybudget, lets no device exceed it on any channel, and adds as little noise as that
permits. NoiseFree is a receiver without noise, which has no noise budget and gives no privacy. Policies that choose who
sends (truncated, best) get the total noise energy of the others: the mean floor of all devices plus nu.

The history has one row per round, with test loss, accuracy and epsilon so far where the model was evaluated. epsilon is
proven and holds for every device, and epsilon_mean is the mean over devices, which is no guarantee. To resume
a stopped training, call it again with the same --store. This command needs the extra: pip install 'adascale[learn]'.

example:
  adascale train --dataset mnist --policy adascale --nu 0.04 --seed 0 --out run.csv --history history.csv
"""

import argparse
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import adascale
from adascale.cli import causal, common
from adascale.cli import options as shared
from adascale.cli.options import Parser
from adascale.files import preset_chain


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    parser.share("dataset", "interference")
    default = ", or noisefree (default: adascale, or privacybudget with --epsilon)"
    parser.share("policy", more=default)
    parser.share("nu", "epsilon")
    models = ", ".join(adascale.registry.names("models"))
    add(
        "--model",
        help=f"network: {models}, or module:Class (default: the preset's)",
        metavar="NAME",
    )
    parser.share("channel", "seed", "rounds")
    add("--every", help="evaluate every K rounds", type=int, default=25, metavar="K")
    shared.share_epsilon(parser, "device")
    add(
        "--store",
        help="folder of checkpoints and results, used to resume",
        metavar="DIR",
        type=Path,
    )
    parser.share("out", more="the result, one row")
    add("--history", help="write one row per round", metavar="CSV", type=Path)
    parser.share("json")


def run(options: argparse.Namespace) -> None:
    """Train, print the result, and write it."""
    import pandas as pd

    outputs = {"--out": options.out, "--history": options.history}
    common.check_outputs(common.input_files("--dataset", options.dataset), outputs)
    if options.channel is not None:
        common.find_channel(options.channel)  # so that errors name the option
    options.accountant = common.accountant_name(options)
    common.find_accountant(options.accountant)
    names = ["rounds", "channel", "accountant", "every", "delta"]  # fields of a run
    names += ["model"] if options.model else []
    changes = {name: getattr(options, name) for name in names}
    specification = importlib.import_module("adascale.runs.specification")
    training_run = specification.make_run(
        options.dataset, _policy(options), options.nu, options.seed, **changes
    )
    scenario = common.with_less_protection(training_run.scenario, options.interference)
    training_run = replace(training_run, scenario=scenario)
    if options.store is None:
        perform = importlib.import_module("adascale.runs.execution").perform
    else:
        store = importlib.import_module("adascale.runs.store")
        perform = store.Store(options.store).run
    with common.noting_orders():
        row, history = perform(
            training_run, device=options.device, progress=sys.stderr.isatty()
        )
    text = common.results_text(
        row, options.json, history=history.to_dict(orient="records")
    )
    common.print_and_write(
        text, {options.out: pd.DataFrame([row]), options.history: history}
    )
    if options.epsilon is not None and row["cost"] == 0:
        common.note(common.no_noise_note(row["policy"], options.epsilon))
    for note in _notes(options.dataset, training_run):
        common.note(note)


def _policy(options: argparse.Namespace) -> str:
    """Return the name of the policy, which with ``--epsilon`` guarantees it."""
    if (options.nu is None) == (options.epsilon is None):
        raise ValueError("exactly one of --nu and --epsilon must be given")
    if options.epsilon is None:
        return options.policy or "adascale"
    return causal.guarantee_epsilon(options)[0]


def _notes(dataset: str, training_run: Any) -> Iterator[str]:
    """Say how the run differs from its preset."""
    scenario = training_run.scenario
    if training_run.training.dataset == dataset and ":" in dataset:
        yield f"{scenario.name} is trained like the digits; a preset file can change that"
        dataset = "digits"
    preset = adascale.load_preset(dataset).scenario
    if training_run.shortened:
        yield f"{scenario.num_rounds} of {preset.num_rounds} rounds; this is the result of a shortened run"
    if scenario.num_parameters != preset.num_parameters:
        # the file nearest to the data set, as its bases come after it
        files = [
            path.name
            for path, content in preset_chain(dataset)
            if "num_parameters" in content["scenario"]
        ]
        yield (
            f"the network has {scenario.num_parameters} parameters, "
            f"which replace the {preset.num_parameters} in {files[0]}"
        )
