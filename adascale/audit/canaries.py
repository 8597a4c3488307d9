"""Canaries: samples that an auditor adds to the data of the devices, each by a fair coin."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adascale import checks as check
from adascale.learning.seeding import stream
from adascale.scenario import Scenario

AUDIT = 5
"""Purpose of the audit's random streams, see :mod:`adascale.learning.seeding`."""
COINS, PLACES, BATCHES, RUNS = range(4)
"""Streams of the canaries' coins, places and batches, and of the seeds of repeated trainings."""


def audited_devices(scenario: Scenario) -> NDArray[np.intp]:
    """Return the devices with the sampling rate and the batch size of device 0."""
    kinds = [
        np.broadcast_to(each, scenario.num_devices)
        for each in (scenario.sampling_rate, scenario.batch_size)
    ]
    return np.flatnonzero(np.all([each == each[0] for each in kinds], axis=0))


def unit(scenario: Scenario) -> float:
    """Return the sensitivity :math:`C/(M B_m)` of the audited devices."""
    return scenario.clip_norm / (
        scenario.num_devices * float(np.ravel(scenario.batch_size)[0])
    )


def coins(count: int, seed: int) -> NDArray[np.bool_]:
    """Toss a fair coin per canary: True where it is in the data."""
    return stream(seed, AUDIT, COINS).random(check.whole("canaries", count)) < 0.5


def batch_of(
    present: NDArray[np.bool_], rate: float, seed: int, round_index: int
) -> NDArray[np.intp]:
    """Draw the canaries of a round's batches from those in the data."""
    return np.flatnonzero(
        (stream(seed, AUDIT, BATCHES, round_index).random(present.size) < rate)
        & present
    )


@dataclass(frozen=True)
class GradientCanaries:
    r"""Canary gradients :math:`\pm c\, C\, \mathbf e_{j_i}`, each along its own axis (Nasr et al. 2023).

    They enter :math:`\mathbf s_t` divided by :math:`M B_m`.

    Parameters
    ----------
    coordinate, sign, present : numpy.ndarray, shape (k,)
        Distinct :math:`j_i` in 0 ... d - 1, 1 or -1, and whether each is in the data.
    norm : float, :math:`c > 0`
    """

    coordinate: NDArray[np.intp]
    sign: NDArray[np.float64]
    present: NDArray[np.bool_]
    norm: float = 1.0

    @classmethod
    def draw(
        cls, scenario: Scenario, count: int, seed: int, norm: float = 1.0
    ) -> "GradientCanaries":
        """Draw coordinates, signs and coins of at most d canaries."""
        check.whole("canaries", count, most=scenario.num_parameters)
        check.positive("norm", norm)
        rng = stream(seed, AUDIT, PLACES)
        coordinate = rng.permutation(scenario.num_parameters)[:count]
        return cls(coordinate, rng.choice([-1.0, 1.0], count), coins(count, seed), norm)

    def signal(
        self, scenario: Scenario, chosen: NDArray[np.intp], parameters: Tensor
    ) -> Tensor:
        r"""Return what the chosen canaries add to :math:`\mathbf s_t`, shape (d,)."""
        added = torch.zeros_like(parameters)
        values = self.norm * unit(scenario) * self.sign[chosen]
        added[torch.as_tensor(self.coordinate[chosen])] = torch.as_tensor(
            values, dtype=added.dtype
        )
        return added

    def heard(self, scenario: Scenario, residual: Tensor) -> NDArray[np.float64]:
        """Return the residual along each canary in units of :math:`C/(M B_m)`, shape (k,)."""
        along: NDArray[np.float64] = (
            residual[torch.as_tensor(self.coordinate)].double().cpu().numpy()
        )
        return along * self.sign / unit(scenario)
