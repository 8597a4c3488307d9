"""Units of a scenario in a file: powers in dBm, and noise by its bandwidth, become watts in one place."""

from collections.abc import Callable, Mapping
from typing import Any

from adascale import checks as check
from adascale.errors import InvalidInput

THERMAL_DENSITY = 1.380649e-23 * 290
"""Power of thermal noise in watts per hertz at 290 K, about -174 dBm per hertz."""


def in_watts(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a scenario that a file gives, with powers in watts.

    Interference is noise for the receiver, but does not protect, as a server may know or cancel it.
    """
    values = dict(table)
    for name in ("max_power", "noise_power"):
        power = values.get(name)
        if isinstance(power, int | float) and power <= 0:
            message = f"{name} must be > 0 W, got {power:g}; in dBm it is {name}_dbm"
            raise InvalidInput(message, name)
    keys = ("noise_figure_db", "interference_dbm")
    if "bandwidth_hz" in values:
        figure, interference = (values.pop(key, None) for key in keys)
        _replace(values, "bandwidth_hz", "noise_power", _thermal(figure or 0.0))
        if interference is not None:
            thermal = values["noise_power"]
            values.setdefault("privacy_noise_power", thermal)
            values["noise_power"] = thermal + _watts("interference_dbm", interference)
    for name in ("max_power", "noise_power"):
        _replace(values, f"{name}_dbm", name, _watts)
    for key in values.keys() & {*keys}:
        raise InvalidInput(f"{key} needs bandwidth_hz", key)
    return values


def _replace(
    values: dict[str, Any], key: str, name: str, convert: Callable[[str, Any], Any]
) -> None:
    """Replace ``key`` of a file, if it is there, by the parameter ``name``: ``convert`` of the key and its value."""
    if key not in values:
        return
    if name in values:
        raise InvalidInput(f"{key} and {name} cannot both be given", key)
    values[name] = convert(key, values.pop(key))


def _watts(key: str, power: Any) -> Any:
    """Return powers in watts, one or a list, that a key gives in dBm."""
    return (10 ** (check.between(key, power, -300, 300) / 10 - 3)).tolist()


def _thermal(figure: Any) -> Callable[[str, Any], float]:
    """Return a function of a key and its bandwidth in Hz that is the thermal noise power, at a noise figure in dB."""
    factor = 10 ** (check.number("noise_figure_db", figure, 0, 100) / 10)
    density = THERMAL_DENSITY * factor
    return lambda key, bandwidth: density * check.number(key, bandwidth, 1e-3, 1e15)
