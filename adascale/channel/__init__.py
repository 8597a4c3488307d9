"""Uplink channels: models that are drawn, and traces that were measured."""

from adascale.channel.model import Channel, cost_hata_path_loss, draw, rayleigh
from adascale.channel.traces import Trace, read_gains

__all__ = ["Channel", "Trace", "cost_hata_path_loss", "draw", "rayleigh", "read_gains"]
