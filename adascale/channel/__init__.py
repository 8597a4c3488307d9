"""Uplink channels: models, their distributions of noise floors, and measured traces."""

from adascale.channel.fading import GaussMarkov, Jakes, Nakagami, Rayleigh, Rician, draw
from adascale.channel.floors import (
    EmpiricalFloors,
    FadingFloors,
    FloorLaw,
    RayleighFloors,
    SelectionFloors,
)
from adascale.channel.gains import GainLines, Trace, read_gains
from adascale.channel.model import (
    Channel,
    ChannelModel,
    cost_hata_path_loss,
    each_device,
    find,
    specification,
)
from adascale.channel.multi_gain import (
    AntennaSelection,
    Beamforming,
    BlockFading,
    TappedDelayLine,
    effective_gain,
)
from adascale.channel.reading import Reading
from adascale.channel.recorded import Recorded
from adascale.channel.shadowing import Moving, Shadowed, UrbanMicro

__all__ = [
    "AntennaSelection",
    "Beamforming",
    "BlockFading",
    "Channel",
    "ChannelModel",
    "EmpiricalFloors",
    "FadingFloors",
    "FloorLaw",
    "GainLines",
    "GaussMarkov",
    "Jakes",
    "Moving",
    "Nakagami",
    "Rayleigh",
    "RayleighFloors",
    "Reading",
    "Recorded",
    "Rician",
    "SelectionFloors",
    "Shadowed",
    "TappedDelayLine",
    "Trace",
    "UrbanMicro",
    "cost_hata_path_loss",
    "draw",
    "each_device",
    "effective_gain",
    "find",
    "read_gains",
    "specification",
]
