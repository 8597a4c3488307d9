"""Find how often events can be repeated until their proven epsilon reaches a target.

count is the number of repetitions: steps, if the event is one step. Events given by --fixed are also released, such as
the steps so far. epsilon is the upper bound with these repetitions. Upper bounds are rounded up to six digits;
--json prints all digits. What FILE and --event are: adascale epsilon --help.

example:
  adascale steps --event .01,1.0 --epsilon 2 --fixed .02,1.1,500
"""

import argparse

import adascale
from adascale.cli import options as shared
from adascale.cli.events import add_search, print_interval, search


def add_options(parser: shared.Parser) -> None:
    """Add the options of the command."""
    add_search(parser)


def run(options: argparse.Namespace) -> None:
    """Print the count, and epsilon with it."""
    events, largest = search(options, adascale.accounting.largest_count)
    released = [(q, sigma, largest.count * n) for q, sigma, n in events]
    print_interval(
        options,
        [*released, *options.fixed],
        largest.epsilon,
        count=largest.count,
        epsilon=largest.epsilon.upper,
        delta=options.delta,
    )
