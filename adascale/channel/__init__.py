"""Uplink channels: models that are drawn, their law of floors, and traces that were measured."""

from adascale.channel.estimation import (
    AlignmentLaw,
    alignment,
    alignment_bound,
    alignment_law,
    estimate,
    gain_ratio_survival,
    misalignment,
    outdated,
    pilot_error,
    true_noise_multiplier,
)
from adascale.channel.fading import GaussMarkov, Jakes, Nakagami, Rayleigh, Rician, draw
from adascale.channel.floors import EmpiricalFloors, FadingFloors, FloorLaw, RayleighFloors
from adascale.channel.inside import (
    AntennaSelection,
    BlockFading,
    SelectionFloors,
    TappedDelayLine,
    effective_gain,
)
from adascale.channel.links import Links, read_links
from adascale.channel.model import Channel, ChannelModel, cost_hata_path_loss, each_device, find, specification
from adascale.channel.terrain import Motion, Moving, Shadowed, Shadowing, UrbanMicro
from adascale.channel.traces import GainLine, GainLines, Trace, read_gains

__all__ = [
    "AlignmentLaw",
    "AntennaSelection",
    "BlockFading",
    "Channel",
    "ChannelModel",
    "EmpiricalFloors",
    "FadingFloors",
    "FloorLaw",
    "GainLine",
    "GainLines",
    "GaussMarkov",
    "Jakes",
    "Links",
    "Motion",
    "Moving",
    "Nakagami",
    "Rayleigh",
    "RayleighFloors",
    "Rician",
    "SelectionFloors",
    "Shadowed",
    "Shadowing",
    "TappedDelayLine",
    "Trace",
    "UrbanMicro",
    "alignment",
    "alignment_bound",
    "alignment_law",
    "cost_hata_path_loss",
    "draw",
    "each_device",
    "effective_gain",
    "estimate",
    "find",
    "gain_ratio_survival",
    "misalignment",
    "outdated",
    "pilot_error",
    "read_gains",
    "read_links",
    "specification",
    "true_noise_multiplier",
]
