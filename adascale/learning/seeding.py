"""One random stream for each purpose, device and round.

A stream depends on nothing else, so methods at one seed share channels, batches and noise directions, and a training
can resume anywhere.  NumPy draws on the CPU; PyTorch draws dropout masks alone, from a seed of the round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check

PARTITION, MODEL, BATCH, NOISE, DROPOUT = range(5)


def whole_seed(seed: int) -> int:
    """Return a seed, an integer >= 0, as a Python integer."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    return int(seed)


def stream(seed: int, purpose: int, device: int = 0, round_index: int = 0) -> np.random.Generator:
    """Return the generator of a purpose, such as ``BATCH``, a device and a round.

    The seed, an integer >= 0, may be that of :func:`adascale.channel.draw`, which has other streams.
    """
    # channel.draw spawns keys of length one; these have three entries
    return np.random.default_rng(np.random.SeedSequence(whole_seed(seed), spawn_key=(purpose, device, round_index)))


def poisson_batch(seed: int, device: int, round_index: int, size: int, rate: float) -> NDArray[np.intp]:
    """Draw a Poisson batch: positions in 0 ... size - 1, each included independently with probability ``rate``."""
    check.sampling_rate("rate", rate)
    return np.flatnonzero(stream(seed, BATCH, device, round_index).random(size) < rate)
