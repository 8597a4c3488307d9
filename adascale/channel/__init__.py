"""Uplink channels: models that are drawn, their law of floors, and traces that were measured."""

from adascale.channel.floors import EmpiricalFloors, FadingFloors, FloorLaw, RayleighFloors
from adascale.channel.model import Channel, ChannelModel, Rayleigh, cost_hata_path_loss, draw, find, specification
from adascale.channel.traces import GainLine, GainLines, Trace, read_gains

__all__ = [
    "Channel",
    "ChannelModel",
    "EmpiricalFloors",
    "FadingFloors",
    "FloorLaw",
    "GainLine",
    "GainLines",
    "Rayleigh",
    "RayleighFloors",
    "Trace",
    "cost_hata_path_loss",
    "draw",
    "find",
    "read_gains",
    "specification",
]
