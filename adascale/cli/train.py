"""Train over the simulated air with the receive scalings of one policy, tuned until their cost is nu.

With one seed, every policy and nu gets the same channels, initial model, batches and noise directions. The digits come
with scikit-learn; mnist and cifar10 are read from the folder ADASCALE_DATA, or from the user's cache: if they are not
there, the error has the line that downloads them. --dataset module:function is your own data, a function without
arguments that returns an adascale.learning.data.RawDataset, and --model module:Class your own network; they are trained
like the digits. Change anything else in a preset file: TOML with the tables scenario, channel and training, whose
dataset and model may be module:function and module:Class, and a base, the preset from which it takes the rest. The
policy NoiseFree is a receiver without noise, which has no noise budget and gives no privacy. Policies that choose who
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
from typing import Any

import adascale
from adascale.cli import common
from adascale.files import preset_chain


def run(options: argparse.Namespace) -> None:
    """Train, print the result, and write it."""
    import pandas as pd

    outputs = {"--out": options.out, "--history": options.history}
    common.check_outputs(common.input_files("--dataset", options.dataset), outputs)
    if options.channel is not None:
        common.find_channel(options.channel)  # so that errors name the option
    common.find_accountant(options.accountant)
    same = ("rounds", "channel", "accountant", "every", "delta")
    changes = {name: getattr(options, name) for name in same} | (
        {"model": options.model} if options.model else {}
    )
    make_run = importlib.import_module("adascale.runs.specification").make_run
    wanted = make_run(
        options.dataset, options.policy, options.nu, options.seed, **changes
    )
    wanted = replace(
        wanted, scenario=common.with_interference(wanted.scenario, options.interference)
    )
    work = importlib.import_module("adascale.runs.execution").perform
    with common.noting_orders():
        if options.store is not None:
            work = (
                importlib.import_module("adascale.runs.store").Store(options.store).run
            )
        row, history = work(wanted, device=options.device, progress=sys.stderr.isatty())
    text = common.shown(row, options.json, history=history.to_dict(orient="records"))
    common.print_and_write(
        text, {options.out: pd.DataFrame([row]), options.history: history}
    )
    for note in _notes(options.dataset, wanted):
        common.note(note)


def _notes(dataset: str, wanted: Any) -> Iterator[str]:
    scenario = wanted.scenario
    if wanted.training.dataset == dataset and ":" in dataset:
        yield f"{scenario.name} is trained like the digits; a preset file can change that"
        dataset = "digits"
    full = adascale.load_preset(dataset).scenario
    if wanted.shortened:
        yield f"{scenario.num_rounds} of {full.num_rounds} rounds; this is the result of a shortened run"
    if scenario.num_parameters != full.num_parameters:
        said = next(
            path
            for path, content in preset_chain(dataset)
            if "num_parameters" in content["scenario"]
        )
        count = f"{scenario.num_parameters} parameters, which replace the {full.num_parameters} in {said.name}"
        yield f"the network has {count}"
