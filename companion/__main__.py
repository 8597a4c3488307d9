"""Make a committed result again: ``python -m companion make NAME``; ``python -m companion make --help`` lists them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from adascale.cli.options import Parser
from adascale.files import read_toml, write_atomically
from adascale.runs.provenance import write_provenance
from adascale.workers import open_executor


class Result(NamedTuple):
    """A committed result."""

    folder: str
    files: str
    """Their names, in the order in which the function yields their text, each with what its provenance states."""
    function: str
    """``module:function`` of the companion."""
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    """Of :data:`OPTIONS`."""


RESULTS = {
    name: Result(**entry)
    for name, entry in read_toml(Path(__file__).with_name("results.toml")).items()
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
