"""Compute the smallest miss rate of a membership test with a given false-alarm rate, between proven bounds.

beta is the lower bound, which does not understate the leakage. Bounds are rounded outwards to six digits; --json prints
all digits. What FILE and --event are, and what the other names mean: adascale epsilon --help.

example:
  adascale beta --event .01,1.0,1000 --alpha .01
"""

import argparse

from adascale.cli.events import add_events, print_bound
from adascale.cli.options import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_events(parser)
    parser.add_argument("--alpha", help="false-alarm rate", type=float, required=True)
    parser.share("json")


def run(options: argparse.Namespace) -> None:
    """Print the miss rate and its bounds."""
    print_bound(options, "beta", up=False, alpha=options.alpha)
