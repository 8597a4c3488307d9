"""Compute delta of Poisson-sampled Gaussian mechanisms at a given epsilon, between proven bounds.

delta is the upper bound. Bounds are rounded outwards to six digits; --json prints all digits. What FILE and --event
are, and what the other names mean: adascale epsilon --help.

example:
  adascale delta --event .01,1.0,1000 --epsilon 2
"""

import argparse

from adascale.cli.events import add_events, print_bound
from adascale.cli.options import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_events(parser)
    parser.add_argument("--epsilon", help="epsilon", type=float, required=True)
    parser.share("json")


def run(options: argparse.Namespace) -> None:
    """Print delta and its bounds."""
    print_bound(options, "delta", epsilon=options.epsilon)
