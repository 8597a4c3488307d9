"""The command ``adascale``: one module a subcommand, imported when it is the one that was asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import NoReturn

from adascale import __version__
from adascale.cli.common import one_line

COMMANDS = {
    "leakage": "leakage of the methods against nu",
    "schedule": "receive scalings for a channel trace",
    "train": "train over the simulated air",
    "sweep": "many trainings, resumable, on many machines",
    "download": "fetch a data set for train",
}
"""The subcommands and what they do; each is a module here with ``DESCRIPTION``, ``EXAMPLE``, ``add`` and ``run``."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 on success, 2 on bad input, 1 where the work could not be done."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given).parse_args(given)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"adascale {options.command}: error: {one_line(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"adascale {options.command}: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, exit code 2; the usage is what --help is for."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser(given: list[str]) -> argparse.ArgumentParser:
    """The parser, with the arguments of the subcommand that is named; importing all of them would take a second."""
    root = _Parser(prog="adascale", description="Adaptive receive scaling for over-the-air federated learning.")
    root.add_argument("--version", action="version", version=f"adascale {__version__}")
    added = root.add_subparsers(dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    for name, summary in COMMANDS.items():
        parser = added.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in given:
            module = importlib.import_module(f"adascale.cli.{name}")
            parser.description, parser.epilog = module.DESCRIPTION, f"example:\n  {module.EXAMPLE}"
            module.add(parser)
            parser.set_defaults(run=module.run)
    return root
