"""Canaries: samples that an auditor adds to the data of the devices, each by a fair coin."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from adascale import checks as check
from adascale.checks import BoolArray, FloatArray, IndexArray
from adascale.learning.seeding import stream
from adascale.scenario import Scenario

AUDIT = 5
"""Purpose of the audit's random streams, see :mod:`adascale.learning.seeding`."""
COINS, PLACES, BATCHES, RUNS = range(4)
"""Streams of the canaries' coins, places and batches, and of the seeds of repeated trainings."""


def unit(scenario: Scenario) -> float:
    """Return the sensitivity :math:`p_m C / B_m` of device 0 and of those like it, which are audited."""
    size = float(np.ravel(scenario.weighted_batch_size)[0])
    return scenario.clip_norm / (scenario.num_devices * size)


def coins(count: int, seed: int) -> BoolArray:
    """Toss a fair coin per canary: True where it is in the data."""
    return stream(seed, AUDIT, COINS).random(count) < 0.5


def batch_of(
    present: BoolArray, rate: float, seed: int, round_index: int
) -> IndexArray:
    """Draw the canaries of a round's batches from those ``present``, as positions; each is in with ``rate``."""
    rng = stream(seed, AUDIT, BATCHES, round_index)
    return np.flatnonzero((rng.random(present.size) < rate) & present)


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

    coordinate: IndexArray
    sign: FloatArray
    present: BoolArray
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
        self, scenario: Scenario, batch: IndexArray, parameters: Tensor
    ) -> Tensor:
        r"""Return what the canaries at the positions ``batch`` add to :math:`\mathbf s_t`, shaped as ``parameters``."""
        total = torch.zeros_like(parameters)
        values = self.norm * unit(scenario) * self.sign[batch]
        total[self.coordinate[batch]] = torch.as_tensor(values, dtype=total.dtype)
        return total

    def heard(self, scenario: Scenario, residual: Tensor) -> FloatArray:
        """Return the residual along each canary in units of :math:`C/(M B_m)`, shape (k,)."""
        along = residual[self.coordinate].double().cpu().numpy()
        return along * self.sign / unit(scenario)
