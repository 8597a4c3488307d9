"""Make a committed result again: ``python -m companion make NAME``; ``python -m companion make --help`` lists them."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from adascale.cli.options import Parser
from adascale.files import read_toml, write_atomically
from adascale.runs.provenance import write_provenance
from adascale.workers import open_executor
from companion.results import tabulate


class Result(NamedTuple):
    """A committed result."""

    folder: str
    files: str
    """Their names, in the order in which the function returns their contents."""
    function: str
    """``module:function`` of the companion."""
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    """Of :data:`OPTIONS`."""
    tasks: str = ""
    """The constant of the module with the tasks for each of which the function yields rows."""
    states: Mapping[str, str] = {}
    """What the provenance states: constants of the module by their names, or the text itself."""
    digits: int = 7


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


def make(
    name: str, out: Path | None = None, jobs: int = 1, **options: Any
) -> list[Path]:
    """Make a result and return its files, with a provenance beside each table."""
    result = RESULTS[name]
    module, _, function = result.function.partition(":")
    folder = Path(result.folder) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    study = import_module(f"companion.{module}")
    made = getattr(study, function)
    if result.tasks:
        made = partial(tabulate, made, getattr(study, result.tasks))
    with open_executor(jobs) as executor:
        if "jobs" in result.options:
            options["executor"] = executor
        contents = made(*result.arguments, **options)
        if isinstance(contents, str | pd.DataFrame):
            contents = [contents]
        contents = dict(zip(result.files.split(), contents, strict=True))
    facts = {key: _fact(study, own) for key, own in result.states.items()}
    facts["wall_seconds"] = round(time.perf_counter() - began)
    packages = "numpy", "numba", "scipy", "pandas", "torch"
    for file, content in contents.items():
        write_atomically(folder / file, _text(content, result.digits))
        if file.endswith(".csv"):
            command = f"python -m companion make {name}"
            write_provenance(folder / file, command, *packages, **facts)
    return [folder / file for file in contents]


def _fact(study, own):
    value = getattr(study, own, own)
    return f"{value[0]}-{value[-1]}" if isinstance(value, range) else value


def _text(content, digits):
    if isinstance(content, str):
        return content
    named = any(content.index.names)
    return content.to_csv(index=named, float_format=f"%.{digits}g")


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
