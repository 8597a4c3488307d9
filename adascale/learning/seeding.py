r"""One random stream for each purpose, device and round.

A stream is named by the seed, the purpose and its place, and by nothing else.  So two methods at one seed see the same
channels, the same batches and the same noise directions; one more device changes nothing for the others; and a run can
be taken up in the middle.  Everything is drawn by NumPy on the CPU, so that CPU and GPU train on the same draws;
what dropout layers drop is PyTorch's, from a seed of the round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check

PARTITION, MODEL, BATCH, NOISE, DROPOUT = range(5)


def stream(seed: int, purpose: int, device: int = 0, round_index: int = 0) -> np.random.Generator:
    """The generator of a purpose, a device and a round.

    Parameters
    ----------
    seed : int
        The realisation, >= 0: the one of :func:`adascale.channel.draw`, whose own streams are others.
    purpose : int
        ``PARTITION``, ``MODEL``, ``BATCH``, ``NOISE`` or ``DROPOUT``.
    device, round_index : int
        Where, >= 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    # channel.draw spawns keys of length one; these have three entries
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(purpose, device, round_index)))


def poisson_batch(seed: int, device: int, round_index: int, size: int, rate: float) -> NDArray[np.intp]:
    r"""A Poisson batch: each of ``size`` samples enters independently with probability ``rate``.

    Returns
    -------
    numpy.ndarray
        The chosen positions in 0 ... size - 1, ascending; often of another length than :math:`q_m n_m`, sometimes
        empty.
    """
    check.sampling_rate("rate", rate)
    return np.flatnonzero(stream(seed, BATCH, device, round_index).random(size) < rate)
