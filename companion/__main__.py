"""Make a committed result again: ``python -m companion make NAME``; ``python -m companion make --help`` lists them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from adascale.cli.options import Parser
from adascale.files import write_atomically
from adascale.runs.provenance import write_provenance
from adascale.workers import open_executor


class Result(NamedTuple):
    """A committed result."""

    folder: str
    files: str
    """Their names, in the order in which the function yields their text, each with what its provenance states."""
    function: str
    """``module:function`` of the companion."""
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Of :data:`OPTIONS`."""


RESULTS = {
    "audit-digits": Result(
        "results/audit", "digits.csv", "privacy.audits:committed", ("digits",)
    ),
    "audit-mnist": Result(
        "results/audit", "mnist.csv", "privacy.audits:committed", ("mnist",)
    ),
    "audit-paired": Result(
        "results/audit", "paired.csv", "privacy.audits:committed", ("paired",)
    ),
    "causal": Result(
        "results/causal",
        "mnist.csv cifar10.csv",
        "causal.fresh:committed",
        (),
        ("jobs",),
    ),
    "certificate": Result(
        "results/causal",
        "certificate.csv certified.csv",
        "theory.certificates:committed",
    ),
    "channels": Result(
        "results/channels",
        "table_blocks.csv exact.csv table.csv",
        "causal.worlds:committed",
        (),
        ("jobs",),
    ),
    "estimates": Result(
        "results/channels",
        "estimates.csv",
        "training.estimates:committed",
        (),
        ("jobs",),
    ),
    "exact": Result(
        "results/exact",
        "mnist.csv cifar10.csv headline.csv",
        "leakage.exact:committed",
        (),
        ("jobs",),
    ),
    "explorer": Result("book/_static/explorer", "data.js", "explorer:committed"),
    "opening": Result(
        "book/_static/opening",
        "states.svg future.svg observers.svg accuracy.svg",
        "figures.opening:committed",
    ),
    "fork": Result(
        "results/cifar10",
        "fork.csv",
        "training.counterfactual:committed",
        (),
        ("sweep",),
    ),
    "growth": Result("results/causal", "growth.csv", "causal.growth:committed"),
    "hard-accuracy": Result(
        "results/causal",
        "hard_accuracy.csv",
        "causal.privacy_budget:committed_accuracy",
        (),
        ("jobs",),
    ),
    "hard-noise": Result(
        "results/causal",
        "hard_noise.csv",
        "causal.privacy_budget:committed",
        (),
        ("jobs",),
    ),
    "hard-paths": Result(
        "results/causal",
        "hard_paths.csv",
        "causal.privacy_budget:committed_paths",
        (),
        ("jobs",),
    ),
    "links": Result(
        "results/links",
        "leakage.csv scales.csv statistics.csv evidence.csv first_look.csv example.csv",
        "causal.measured_links:committed",
        (),
        ("source",),
    ),
    "noise": Result(
        "results/channels",
        "noise.csv",
        "leakage.senders:committed_noise",
        (),
        ("jobs",),
    ),
    "published": Result(
        "results/benchmarks",
        "matlab.csv",
        "leakage.published:committed",
        (),
        ("source",),
    ),
    "reactive": Result(
        "results/causal",
        "reactive.csv",
        "training.reactive:committed",
        (),
        ("jobs",),
    ),
    "resnet": Result("results/benchmarks", "resnet32.csv", "training.resnet:committed"),
    "scaling": Result("results/guarantees", "scaling.csv", "theory.scaling:committed"),
    "senders": Result(
        "results/channels",
        "senders.csv",
        "leakage.senders:committed",
        (),
        ("jobs",),
    ),
    "weights-contest": Result(
        "results/weights",
        "contest.csv",
        "training.weighted_trainings:committed",
        ("contest",),
    ),
    "weights-quadratic": Result(
        "results/weights", "quadratic.csv", "training.weights:committed"
    ),
    "weights-response": Result(
        "results/weights",
        "response.csv",
        "training.weighted_trainings:committed",
        ("response",),
    ),
    "weights-thirds": Result(
        "results/weights",
        "thirds.csv",
        "training.weighted_trainings:committed",
        ("thirds",),
    ),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "jobs": {
        "type": int,
        "default": 1,
        "metavar": "N",
        "help": "number of processes",
    },
    "sweep": {
        "type": Path,
        "default": Path("results/cifar10/readings.toml"),
        "help": "every run with a policy",
    },
    "source": {
        "type": Path,
        "metavar": "FOLDER",
        "required": True,
        "help": "a clone of the data's repository",
    },
}


def make(name: str, out: Path | None = None, **options: Any) -> list[Path]:
    """Make a result and return its files, with a provenance beside each table, or one where all would be the same."""
    result = RESULTS[name]
    module, _, function = result.function.partition(":")
    folder = Path(result.folder) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    study = getattr(import_module(f"companion.{module}"), function)
    with open_executor(options.pop("jobs", 1)) as executor:
        if "jobs" in result.options:
            options["executor"] = executor
        contents = [*study(*result.arguments, **options)]
    seconds = round(time.perf_counter() - began)
    results = {
        folder / file: content
        for file, content in zip(result.files.split(), contents, strict=True)
    }
    for file, (text, _) in results.items():
        write_atomically(file, text)
    stated = {
        file: facts for file, (_, facts) in results.items() if file.suffix == ".csv"
    }
    first, *further = [*stated.values()] or [{}]
    if further and all(facts == first for facts in further):
        stated = {
            folder / f"{name}.csv": first | {"tables": [file.name for file in stated]}
        }
    for table, facts in stated.items():
        packages = "numpy", "numba", "scipy", "pandas", "torch"
        write_provenance(
            table,
            f"python -m companion make {name}",
            *packages,
            **facts,
            wall_seconds=seconds,
        )
    return [*results]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and make what it names."""
    parser = Parser(prog="python -m companion", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="make")
    names = commands.add_parser(
        "make", help="make a committed result again"
    ).add_subparsers(dest="name", required=True, metavar="NAME")
    for name, result in RESULTS.items():
        command = names.add_parser(name, help=f"{result.folder}: {result.files}")
        command.add_argument(
            "--out", type=Path, metavar="FOLDER", help=f"default: {result.folder}"
        )
        for option in result.options:
            command.add_argument(f"--{option}", **OPTIONS[option])
    for file in make(**vars(parser.parse_args(arguments))):
        print(file)


if __name__ == "__main__":
    main()
