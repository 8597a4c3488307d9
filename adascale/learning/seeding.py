"""One random stream for each purpose, device and round, so that runs share draws and can resume anywhere."""

import numpy as np

from adascale.checks import IndexArray

PARTITION, MODEL, BATCH, NOISE, DROPOUT = range(5)  # the audit's purpose is 5


def stream(
    seed: int, purpose: int, device: int = 0, round_index: int = 0
) -> np.random.Generator:
    """Return the random generator for a purpose such as ``BATCH``, a device and a round."""
    # these keys have three entries; those of channel.draw have one
    key = purpose, device, round_index
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def poisson_batch(
    seed: int, device: int, round_index: int, size: int, rate: float
) -> IndexArray:
    """Draw a Poisson batch: ascending positions in 0 ... size - 1, each included with probability ``rate``."""
    return np.flatnonzero(stream(seed, BATCH, device, round_index).random(size) < rate)
