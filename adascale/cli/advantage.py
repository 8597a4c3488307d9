"""Bound the largest true positive rate minus false positive rate of a membership test, from both sides.

advantage is the upper bound; it is delta at epsilon 0. Bounds are rounded outwards to six digits; --json prints all
digits. What FILE and --event are, and what the other names mean: adascale epsilon --help.

example:
  adascale advantage --event .01,1.0,1000
"""

import argparse

from adascale.cli.events import add_events, print_bound
from adascale.cli.options import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_events(parser)
    parser.share("json")


def run(options: argparse.Namespace) -> None:
    """Print the advantage and its bounds."""
    print_bound(options, "advantage")
