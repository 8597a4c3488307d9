r"""What the control runs say: what two classes a device do.

Every difference is taken within a realisation: at one seed the arms share channel, initial model, batches and noise
directions.  Two partitions share all but which sample is where.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from adascale.statistics import Interval, interval
from companion.formatting import Texts
from companion.summary import band, by_seed

TWO_CLASSES = "two classes a device"
"""What readings begin with whose devices have two classes each."""
UNCLIPPED = "without noise or clipping"
"""What readings end with in which no sample gradient is clipped."""


class Partitions(NamedTuple):
    """The same trainings on two partitions of the data, accuracies in per cent, a row a seed."""

    iid: pd.DataFrame
    """A column an arm, see :func:`two_partitions`."""
    skewed: pd.DataFrame
    """Two classes a device."""

    @property
    def lost(self) -> pd.DataFrame:
        """What two classes a device cost, in points."""
        return self.iid - self.skewed

    def clipping(self) -> dict[str, Interval]:
        """What clipping costs by itself, in points, under each partition."""
        return {
            name: interval(each["no clipping"] - each["no noise"])
            for name, each in zip(self._fields, self, strict=True)
        }

    def more_to_clipping(self) -> pd.Series:
        """How many points more clipping costs with two classes a device, by seed."""
        cost = [each["no clipping"] - each["no noise"] for each in (self.skewed, self.iid)]
        return cost[0] - cost[1]

    def table(self) -> pd.DataFrame:
        """The arms to read: mean accuracy under each partition, and the paired difference with its interval."""
        return pd.DataFrame(
            {
                "i.i.d. [%]": self.iid.mean().map("{:.1f}".format),
                "two classes a device [%]": self.skewed.mean().map("{:.1f}".format),
                "two classes minus i.i.d. [points]": [band(-self.lost[arm], 2, sign=True) for arm in self.lost],
            }
        ).rename_axis("receiver")


def two_partitions(table: pd.DataFrame) -> Partitions:
    r"""Trainings with i.i.d. data beside those with two classes a device.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of sweeps.  Those are taken whose ``reading`` is "as stated", "without noise", "without noise or clipping",
        or begins with "two classes a device", with the policies ``NoiseFree`` and ``AdaScale``.

    Returns
    -------
    Partitions
        The arms ``no clipping`` (and no noise), ``no noise``, and ``ν = ...`` for each :math:`\nu` of AdaScale's, as
        far as both partitions have them, on the seeds that all of these share.
    """
    known = table.reading.isin(["as stated", "without noise", UNCLIPPED]) | table.reading.str.startswith(TWO_CLASSES)
    table = table[known & table.policy.isin(["NoiseFree", "AdaScale"])]
    names = table.nu.map("ν = {:g}".format).where(table.policy == "AdaScale", "no noise")
    table = table.assign(arm=names.where(~table.reading.str.endswith(UNCLIPPED), "no clipping"))
    skewed = table.reading.str.startswith(TWO_CLASSES)
    parts = [by_seed(part, arm=("arm",)) for part in (table[~skewed], table[skewed])]
    arms = [
        arm
        for arm in dict.fromkeys(["no clipping", "no noise", *table.sort_values("nu").arm])
        if all(arm in part for part in parts)
    ]
    if not arms:
        raise ValueError("the table must have trainings of both partitions")
    both = pd.concat([part[arms] for part in parts], axis=1, keys=[0, 1]).dropna()
    return Partitions(both[0], both[1])


def partition_texts(found: Partitions, name: str) -> Texts:
    r"""Of :func:`two_partitions`, for a chapter to glue: ``name``-change-..., -clipping-..., -more and -sensitive.

    The first is what two classes a device change, the last by how many points more the largest :math:`\nu` costs with
    them, against no noise.
    """
    quiet, last = "no noise", found.lost.columns[-1]
    cost = {key: part["no noise"] - part[last] for key, part in found._asdict().items()}
    texts = {
        f"{name}-change-{label}": band(-found.lost[arm], 2, sign=True)
        for label, arm in {"free": "no clipping", "quiet": quiet, "last": last}.items()
        if arm in found.lost
    }
    if "no clipping" in found.lost:
        for key, part in found._asdict().items():
            texts[f"{name}-clipping-{key}"] = band(part["no clipping"] - part[quiet], 1)
        texts[f"{name}-more"] = band(found.more_to_clipping(), 2, sign=True)
    return texts | {
        f"{name}-sensitive": band(cost["skewed"] - cost["iid"], 2, sign=True),
        f"{name}-seeds": f"{len(found.lost)}",
    }
