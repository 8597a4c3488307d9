"""Presets: the TOML tables ``[scenario]``, ``[channel]`` and ``[training]`` of an experiment, and ``levels``."""

from dataclasses import dataclass
from typing import Any

from adascale import channel
from adascale import checks as check
from adascale.errors import InvalidFile, InvalidInput
from adascale.files import preset_names, read_preset
from adascale.scenario import Scenario

names = preset_names


@dataclass(frozen=True)
class Preset:
    """The scenario, channel, training and grid of an experiment."""

    scenario: Scenario
    channel: channel.ChannelModel
    training: dict[str, Any]
    """Arguments of :class:`~adascale.learning.settings.Training`."""
    levels: tuple[float, ...]
    r"""The grid of :math:`\nu`, ascending."""


def load(name: str) -> Preset:
    """Load a preset by its name, one of :func:`names`, or from a TOML file; ``base`` names a preset to extend."""
    try:
        path, content = read_preset(str(name))
    except ValueError as error:
        reason = str(error)
        if str(name) not in reason:  # an error in a base names only the base
            reason = f"{name}: {reason}"
        raise InvalidFile(reason, str(name)) from None
    try:
        scenario = Scenario.from_table(content["scenario"], str(path))
        options = dict(content["channel"])
        model_name = options.pop("model", "rayleigh")
        if not isinstance(model_name, str):
            raise InvalidInput(
                f"model in [channel] must be a name, got {model_name!r}", "model"
            )
        model = channel.find(model_name, **options)
        levels = check.positive("levels", content["levels"])
        if levels.ndim != 1 or not (levels[1:] > levels[:-1]).all():
            raise InvalidInput(
                f"levels must be ascending numbers, got {content['levels']}", "levels"
            )
    except ValueError as error:
        raise InvalidFile(f"{path}: {error}", str(path)) from None
    return Preset(scenario, model, dict(content["training"]), tuple(levels.tolist()))
