"""Channels with one thing taken away, for trainings that show what it did."""

from __future__ import annotations

from dataclasses import dataclass

from adascale.channel import Channel, Rayleigh
from adascale.channel.model import Seeds


@dataclass(frozen=True)
class FadeLevelled(Rayleigh):
    r"""The paper's channel without the deepest fade of each realisation.

    The round of the smallest :math:`\min_m |h_{m,t}|^2` gets the coefficients of the round in which that minimum is
    the (lower) median.  All other rounds, and everything else that a seed draws, stay as they are.
    """

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """As :meth:`ChannelModel.draw <adascale.channel.ChannelModel.draw>`."""
        drawn = super().draw(num_devices, num_rounds, seed)
        bottleneck = drawn.gain.min(axis=-2).reshape(-1, num_rounds)
        lanes = drawn.coefficient.reshape(-1, num_devices, num_rounds)
        order = bottleneck.argsort(axis=-1)
        for lane, (deepest, median) in enumerate(zip(order[:, 0], order[:, (num_rounds - 1) // 2], strict=True)):
            lanes[lane, :, deepest] = lanes[lane, :, median]
        return drawn._replace(coefficient=lanes.reshape(drawn.coefficient.shape))
