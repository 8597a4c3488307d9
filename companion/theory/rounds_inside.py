"""What happens inside a round: floors and leakage where a round has several gains (:ref:`sec-inside`)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from adascale import channel
from adascale.comparison import leakage_table
from adascale.statistics import log_interval
from companion.leakage.senders import SCENARIOS
from companion.methods import METHODS

ONE_GAIN = "one gain, as the paper"
INSIDE = {
    ("MNIST", ONE_GAIN): "rayleigh",
    ("MNIST", "2 blocks, energy anywhere"): "block-fading:blocks=2",
    ("MNIST", "2 blocks, energy even"): "block-fading:blocks=2,energy=even",
    (
        "MNIST",
        "16 subcarriers over 100 kHz, even",
    ): "tapped-delay-line:subcarriers=16",
    (
        "MNIST",
        "64 subcarriers over 20 MHz, even",
    ): "tapped-delay-line:bandwidth=2e7,subcarriers=64",
    ("MNIST", "better of 2 antennas"): "antenna-selection:antennas=2",
    ("MNIST", "best of 4 antennas"): "antenna-selection:antennas=4",
    ("CIFAR-10", ONE_GAIN): "rayleigh",
    ("CIFAR-10", "25 blocks, energy anywhere"): "block-fading:blocks=25",
    ("CIFAR-10", "25 blocks, energy even"): "block-fading:blocks=25,energy=even",
}
"""Data sets and what a round looks like, each with its model."""


def inside_table(
    budget: float = 0.04, seeds: Sequence[int] = range(100)
) -> pd.DataFrame:
    """Return the median floor of a round, and the geometric mean of the optimum's ``epsilon`` by Rényi orders above it.

    A row per data set and case of :data:`INSIDE`.
    """
    rows = {}
    for (dataset, case), name in INSIDE.items():
        model = channel.find(name)
        scenario = SCENARIOS[dataset]
        fading = model.draw(scenario.num_devices, scenario.num_rounds, seeds)
        floor = scenario.floor(scenario.min_gain(fading.gain))
        leaked = leakage_table(
            scenario, [budget], seeds, {"Optimal": METHODS["Optimal"]}, channel=model
        )
        rows[dataset, case] = {
            "floor": np.median(floor),
            "epsilon": log_interval(leaked.epsilon).centre,
        }
    return pd.DataFrame(rows).T
