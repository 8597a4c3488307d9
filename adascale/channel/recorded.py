"""A measured trace as a channel model, whose realisations are blocks of the trace."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel.floors import EmpiricalFloors, FloorLaw
from adascale.channel.model import Channel, ChannelModel, Seeds
from adascale.checks import FloatArray
from adascale.scenario import Scenario


@dataclass(frozen=True, eq=False, kw_only=True)
class Recorded(ChannelModel):
    r"""Blocks of a trace: realisation k has its rounds :math:`kT, \dots, (k+1)T - 1`.

    Parameters
    ----------
    gain : numpy.ndarray, shape (M, N), > 0
        Linear gains :math:`|h_{m,t}|^2`, for example of :func:`read_gains`.  Path losses and the distribution of the
        floors are those of the whole trace, so that a policy that plans with them **sees all rounds**.
    """

    gain: FloatArray

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """Return blocks of the trace, whose numbers are given as ``seed``; their distances are unknown (NaN)."""
        check.between("seed", seed, 0, self.gain.shape[1] // num_rounds - 1)
        rounds = np.asarray(seed)[..., None] * num_rounds + np.arange(num_rounds)
        gain = np.moveaxis(self.gain[:, rounds], 0, -2)
        shape = gain.shape[:-1]
        path_loss = np.broadcast_to(1 / self.gain.mean(axis=1), shape)
        return Channel(np.full(shape, np.nan), path_loss, np.sqrt(gain).astype(complex))

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        """Return the empirical distribution of the floors, whatever the mean gains."""
        return EmpiricalFloors.of(scenario, scenario.min_gain(self.gain))
