"""Find the least common factor of all noise multipliers whose proven epsilon is at most a target.

Give the noise multipliers as 1 to find the noise multiplier itself. Events given by --fixed are also released and keep
their noise. epsilon is the upper bound with the noise multipliers that are printed. Noise multipliers and upper
bounds are rounded up to six digits; --json prints all digits. What FILE and --event are: adascale epsilon --help.

example:
  adascale calibrate --event .01,1,1000 --epsilon 2 --fixed .02,1.1,500
"""

import argparse

import adascale
from adascale.cli import options as shared
from adascale.cli.events import (
    add_search,
    print_interval,
    rounded,
    search,
)


def add_options(parser: shared.Parser) -> None:
    """Add the options of the command."""
    add_search(parser)


def run(options: argparse.Namespace) -> None:
    """Print the factor, the noise multipliers, and epsilon with them."""
    events, calibrated = search(options, adascale.accounting.calibrate)
    sigmas = [rounded(options, sigma) for sigma in calibrated.noise_multiplier]
    released = [
        (rate, sigma, count)
        for (rate, _, count), sigma in zip(
            events, calibrated.noise_multiplier, strict=True
        )
    ]
    print_interval(
        options,
        [*released, *options.fixed],
        calibrated.epsilon,
        epsilon=calibrated.epsilon.upper,
        scale=rounded(options, calibrated.scale),
        noise_multiplier=sigmas if len(sigmas) > 1 else sigmas[0],
        delta=options.delta,
    )
