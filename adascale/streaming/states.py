"""The state of a policy as JSON holds it, and back, to the last bit.

A state is written relative to an earlier one: parts that are the same object are left out, and of an array only what
follows its common beginning with the earlier one.  JSON has ``{}`` for a part that is the same object, ``{"list":
{"0": ..., "1": ...}}`` for a list, and so on.
"""

import base64
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np


def pack(value: Any, before: Any) -> Any:
    """Return what JSON holds of a value that was ``before``; raise a ``TypeError`` if it cannot be read back."""
    if value is before:
        return {}
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is np.ndarray or isinstance(value, np.generic):
        return {"array": _pack_array(value, before)}
    parts, old_parts = _parts(value), _parts(before) if type(before) is kind else {}
    packed = {name: pack(part, old_parts.get(name)) for name, part in parts.items()}
    if kind in (dict, list, tuple):
        return {kind.__name__: packed}
    if packed.keys() != old_parts.keys():
        raise TypeError(f"a {kind.__name__} cannot be read back")
    return {"changed": {name: part for name, part in packed.items() if part != {}}}


def unpack(packed: Any, before: Any) -> Any:
    """Return the value of which :func:`pack` has made ``packed``, relative to the same ``before``."""
    if not isinstance(packed, dict):
        return packed
    if not packed:
        return before
    [(form, content)] = packed.items()
    if form == "array":
        return _unpack_array(content, before)
    old_parts = (
        _parts(before) if type(before).__name__ == form or form == "changed" else {}
    )
    parts = {name: unpack(part, old_parts.get(name)) for name, part in content.items()}
    if form == "changed" and is_dataclass(before):
        return replace(before, **parts)  # type: ignore[type-var]
    if form == "changed":
        return before._replace(**parts)
    return (
        parts
        if form == "dict"
        else {"list": list, "tuple": tuple}[form](parts.values())
    )


def _parts(value: Any) -> dict[str, Any]:
    """Return what a container holds, by name."""
    if type(value) is dict and all(type(name) is str for name in value):
        return value
    if type(value) in (list, tuple):
        return {f"{index}": part for index, part in enumerate(value)}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    raise TypeError(f"a {type(value).__name__} cannot be written exactly")


def _pack_array(value: Any, before: Any) -> dict[str, Any]:
    if value.dtype.kind not in "biuf":
        raise TypeError(f"an array of {value.dtype} cannot be written exactly")
    data, same = _bytes(value), 0
    common = min(len(data), len(_bytes(before)))
    if common:
        first, second = (
            np.frombuffer(part, "u1", common) for part in (data, _bytes(before))
        )
        differ = first != second
        same = int(differ.argmax()) if differ.any() else common
    rest = base64.b64encode(data[same:]).decode()
    return {"dtype": value.dtype.str, "shape": value.shape, "same": same, "rest": rest}


def _unpack_array(content: dict[str, Any], before: Any) -> Any:
    data = _bytes(before)[: content["same"]] + base64.b64decode(content["rest"])
    array = np.frombuffer(data, content["dtype"]).reshape(content["shape"], order="F")
    return array.copy(order="C")[()]


def _bytes(value: Any) -> bytes:
    """Return the entries of an array, the last axis slowest, so that new rounds are at the end."""
    is_array = isinstance(value, np.ndarray | np.generic)
    return np.asarray(value).tobytes("F") if is_array else b""
