r"""Two public sets of measured links, as rounds of a server and ten devices.

Both lie in the public repository that ``companion/results.toml`` names, which ``git clone`` brings: 14 Mica2 motes in
and around a laboratory (CRAWDAD umich/rss), and 29 nodes of the ORBIT testbed (CRAWDAD rutgers/noise).  Neither is part
of this repository.
"""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from adascale.scenario import FloatArray

MICHIGAN = "datasets/trace3_Michigan/data/css/dataLinear.css"
RUTGERS = "datasets/trace1_Rutgers/data/dbm-20"
NODES = 14
DEVICES = 10
_ORBIT_ROUNDS = 300


class Realisation(NamedTuple):
    """Ten links over the rounds of the evaluation, and what was measured before."""

    trace: str
    group: str
    window: int
    past: FloatArray
    """:math:`|h|^2` of the rounds before them, shape (M, N)."""
    gain: FloatArray
    """:math:`|h|^2` of the evaluated rounds, shape (M, T)."""

    @property
    def key(self) -> dict[str, Any]:
        """The columns that name it in a table."""
        return {"trace": self.trace, "group": self.group, "window": self.window}


def cc1000_dbm(counts: FloatArray) -> FloatArray:
    r"""Received power in dBm from what the Mica2's converter counts at the RSSI pin of its CC1000 radio.

    .. math:: P = -50.0\, V - 45.5 , \qquad V = V_{\mathrm{battery}}\, n / 1024

    The radio's data sheet (Texas Instruments SWRS048A, section 22) for 868 MHz, and ten bits referred to a battery of
    3 V.  A stronger signal is a lower count.
    """
    return -50.0 * 3.0 / 1024 * counts - 45.5


def groups(gain: FloatArray, size: int = DEVICES) -> FloatArray:
    """Groups of so many links, in their order, shape (groups, size, T); what is left over is left out."""
    return gain[: len(gain) // size * size].reshape(-1, size, gain.shape[1])


def michigan(
    folder: Path | str, unit: Callable[[FloatArray], FloatArray] = cc1000_dbm
) -> FloatArray:
    """Gains of the 182 links of the motes on all samples of 0.5 s from which on each has been heard.

    Block i of thirteen rows is what the others heard of mote i (:func:`broadcasts`); a 0 stands for nothing yet.  The
    motes send 1 mW.
    """
    counts = np.loadtxt(Path(folder) / MICHIGAN, delimiter=",")
    start = np.flatnonzero((counts == 0).any(axis=0)).max(initial=-1) + 1
    return 10 ** (unit(counts[:, start:]) / 10)


def broadcasts(gain: FloatArray) -> list[FloatArray]:
    r"""Return the rounds of every mote in the file: the samples at which it was heard, shape (13, rounds).

    The file holds each reading until the next.  All thirteen rows of a block change at the same samples: these are the
    broadcasts of one mote.
    """
    blocks = groups(gain, NODES - 1)
    changed = (np.diff(blocks, axis=-1) != 0).any(axis=1)
    return [
        block[:, np.append(True, new)]
        for block, new in zip(blocks, changed, strict=True)
    ]


def evidence(gain: FloatArray) -> pd.DataFrame:
    r"""Compute what the motes' file tells of its unit and its rows.

    ``what, value``: the ``lowest`` and ``highest`` count; the share of links whose counts are ``skewed up``, and the
    rank correlation of a link's ``mean and spread``; the correlation of the means of ``both directions`` of a pair; the
    mean number of a block's ``rows that change`` where any does, and of ``samples a broadcast``.  When block i changes
    at t, ``until`` and ``since`` say by how much its row of j differs more from block j's row of i, as that stands at
    j's next change, with every sample from t until then, and with every sample since j's last change: standard
    deviations a sample, of readings less their mean over 40 s.
    """
    counts = (-45.5 - 10 * np.log10(gain)) * 1024 / 150
    mean = counts.mean(axis=1)
    ways = _by_pair(mean)
    upper = np.triu_indices(NODES, 1)
    new = np.diff(counts.reshape(NODES, NODES - 1, -1)).round() != 0
    changed = new.sum(axis=1)
    until, since = _growth_of_differences(counts, changed > 0)
    spread = scipy.stats.spearmanr(mean, counts.std(axis=1))
    facts = {
        "lowest": counts.min().round(),
        "highest": counts.max().round(),
        "skewed up": np.mean(scipy.stats.skew(counts, axis=1) > 0),
        "mean and spread": spread.statistic,
        "both directions": np.corrcoef(ways[upper], ways.T[upper])[0, 1],
        "rows that change": np.mean([block[block > 0].mean() for block in changed]),
        "samples a broadcast": np.mean(counts.shape[1] / np.sum(changed > 0, axis=1)),
        "until": until,
        "since": since,
    }
    return pd.DataFrame({"what": [*facts], "value": [*facts.values()]})


def _by_pair(rows):
    """Arrange the rows of the file by sender and receiver, shape (14, 14, ...); NaN for a mote's own."""
    pairs = np.full((NODES, NODES, *rows.shape[1:]), np.nan)
    pairs[~np.eye(NODES, dtype=bool)] = rows
    return pairs


def _growth_of_differences(counts, changed):
    """By how much both directions of a pair differ more with every sample until, and since, the other's change."""
    off = counts - scipy.ndimage.uniform_filter1d(counts, 81, axis=1)
    off = _by_pair(off / np.maximum(off.std(axis=1, keepdims=True), 0.5))
    when = [np.flatnonzero(block) + 1 for block in changed]
    parts = []
    for i, j in permutations(range(NODES), 2):
        k = np.searchsorted(when[j], when[i], side="right")
        inner = (k > 0) & (k < len(when[j]))
        t = when[i][inner]
        before, after = when[j][k[inner] - 1], when[j][k[inner]]
        apart = np.abs(off[i, j, t] - off[j, i, after])
        ages = np.minimum([after - t, t - before], 15)
        parts.append(np.stack([np.ones(len(t)), *ages, apart], axis=1))
    found = np.concatenate(parts)
    return np.linalg.lstsq(found[:, :3], found[:, 3], rcond=None)[0][1:]


def _windows(trace, blocks, num_rounds, past):
    """Cut windows of T rounds from every block, whose earlier rounds are the past of each."""
    return [
        Realisation(
            trace, f"{number}", k, *np.split(block[:, : start + num_rounds], [start], 1)
        )
        for number, block in enumerate(blocks, start=1)
        for k, start in enumerate(
            range(past, block.shape[1] - num_rounds + 1, num_rounds), start=1
        )
    ]


def held_gains(gain: FloatArray, num_rounds: int = 500) -> list[Realisation]:
    """Cut the motes' file into five groups of rows and windows of T samples, the first of them only a past."""
    return _windows("Michigan, held", groups(gain)[:5], num_rounds, num_rounds)


def heard(
    gain: FloatArray,
    num_rounds: int = 75,
    past: int = 50,
    trace: str = "Michigan, broadcasts",
) -> list[Realisation]:
    """Take each mote as the server once: a round is its broadcast, from which ten others measure their channels."""
    blocks = (block[:DEVICES] for block in broadcasts(gain))
    return _windows(trace, blocks, num_rounds, past)


def orbit(folder: Path | str, past: int = 100) -> list[Realisation]:
    """Ten transmitters of every receiver, the first by name of which 99 % of the packets came; a round is a packet.

    A file says by how many dB a packet was above a noise floor, put at -95 dBm as its driver, MadWifi, did;
    readings from 128 are none.  A packet that was lost leaves the last gain standing.  Transmitters send 20 dBm.
    """
    by = {}
    files = (Path(folder) / RUTGERS).glob("*/sdec*")
    for path in sorted(files, key=lambda path: (path.name, path.parent.name)):
        if not path.stat().st_size:  # nothing was heard
            continue
        number, reading = np.loadtxt(path, ndmin=2).T
        heard = pd.Series(reading, number)[reading < 128]
        packets = heard.reindex(range(_ORBIT_ROUNDS))
        if not np.isnan(packets[0]) and packets.notna().mean() >= 0.99:
            receiver = path.name.removeprefix("sdec")
            by.setdefault(receiver, []).append(packets.ffill())
    gains = {
        receiver: 10 ** ((np.array(readings[:DEVICES]) - 95.0 - 20.0) / 10)
        for receiver, readings in by.items()
        if len(readings) >= DEVICES
    }
    return [
        Realisation("ORBIT, packets", receiver, 1, gain[:, :past], gain[:, past:])
        for receiver, gain in gains.items()
    ]


def realisations(folder: Path | str) -> list[Realisation]:
    """Read both data sets, and once more the motes' broadcasts, with counts taken for decibels."""
    gain = michigan(folder)
    wrong = heard(michigan(folder, np.negative), trace="Michigan, a count as 1 dB")
    return held_gains(gain) + heard(gain) + orbit(folder) + wrong
