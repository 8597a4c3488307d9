r"""Presets: everything that belongs to one data set, in one TOML file.

The tables ``[scenario]``, ``[channel]`` and ``[training]`` hold the parameters of
:class:`~adascale.scenario.Scenario`, of a channel model (by name, as ``model``) and of
:class:`~adascale.learning.settings.Training`; ``levels`` is the grid of :math:`\nu`.  Other values come from the preset
that ``base`` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adascale import channel, registry
from adascale import checks as check
from adascale.errors import InvalidFile, InvalidInput
from adascale.files import from_mapping, preset_names, read_preset
from adascale.scenario import Scenario

names = preset_names


@dataclass(frozen=True)
class Preset:
    """An experiment."""

    scenario: Scenario
    channel: channel.ChannelModel
    training: dict[str, Any]
    """Arguments of :class:`~adascale.learning.settings.Training`, which needs PyTorch and is made where it is used."""
    levels: tuple[float, ...]
    r"""The grid of :math:`\nu`, ascending."""


def load(name: str) -> Preset:
    """Load a preset by its name, one of :func:`names`, or from the TOML file with this path."""
    try:
        path, content = read_preset(str(name))
    except ValueError as error:
        prefix = "" if str(name) in str(error) else f"{name}: "  # an error in a base names the base alone
        raise InvalidFile(f"{prefix}{error}", str(name)) from None
    try:
        scenario = from_mapping(Scenario, content["scenario"])
        given = dict(content["channel"])
        name = given.pop("model", "rayleigh")
        if not isinstance(name, str):
            raise InvalidInput(f"model in [channel] must be a name, got {name!r}", "model")
        with registry.naming_own_code():
            model = channel.find(name, **given)
        levels = check.positive("levels", content["levels"])
        if levels.ndim != 1 or not (levels[1:] > levels[:-1]).all():
            raise InvalidInput(f"levels must be ascending numbers, got {content['levels']}", "levels")
    except ValueError as error:
        raise InvalidFile(f"{path}: {error}", str(path)) from None
    return Preset(scenario, model, dict(content["training"]), tuple(levels.tolist()))
