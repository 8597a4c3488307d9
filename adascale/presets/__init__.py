r"""Presets: everything that belongs to one data set, in one TOML file.

The tables ``[scenario]``, ``[channel]`` and ``[training]`` hold the parameters of
:class:`~adascale.scenario.Scenario`, of a channel model (by name, as ``model``) and of
:class:`~adascale.learning.settings.Training`; ``levels`` is the grid of :math:`\nu`.  Whatever is not said comes from
the preset that ``base`` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adascale import channel, registry
from adascale import checks as check
from adascale.files import preset_names, read_preset
from adascale.scenario import Scenario

names = preset_names


@dataclass(frozen=True)
class Preset:
    r"""An experiment: what is simulated, over which channel, how it is trained, and at which :math:`\nu`."""

    scenario: Scenario
    channel: channel.ChannelModel
    training: dict[str, Any]
    """Arguments of :class:`~adascale.learning.settings.Training`, which needs PyTorch and is made where it is used."""
    levels: tuple[float, ...]
    r"""The grid of :math:`\nu`, ascending."""


def load(name: str) -> Preset:
    r"""A preset by its name, or from a file.

    Parameters
    ----------
    name : str
        One of :func:`names`, or the path of a TOML file.

    Raises
    ------
    ValueError
        If there is no such preset or file, it is not TOML, has an unknown key or lacks one, or holds a value out of
        range; it names the file.
    """
    try:
        path, content = read_preset(str(name))
    except ValueError as error:
        prefix = "" if str(name) in str(error) else f"{name}: "  # of a base, the error names the base alone
        raise ValueError(f"{prefix}{error}") from None
    try:
        scenario = Scenario.from_table(content["scenario"])
        given = dict(content["channel"])
        name = given.pop("model", "rayleigh")
        if not isinstance(name, str):
            raise ValueError(f"model in [channel] must be a name, got {name!r}")
        with registry.naming_own_code():
            model = channel.find(name, **given)
        levels = check.positive("levels", content["levels"])
        if levels.ndim != 1 or not (levels[1:] > levels[:-1]).all():
            raise ValueError(f"levels must be ascending numbers, got {content['levels']}")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Preset(scenario, model, dict(content["training"]), tuple(levels.tolist()))
