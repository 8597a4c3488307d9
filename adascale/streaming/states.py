"""The state of a policy as JSON holds it, and back, to the last bit.

A state is written relative to an earlier one: fields that are the same object are left out, and of a longer array only
the part behind the common beginning is written.  What cannot be read back exactly is refused.
"""

import base64
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from adascale.channel import FloorLaw
from adascale.problem import RoundLeakage
from adascale.scenario import Scenario

_CONSTANT = (Scenario, FloorLaw, RoundLeakage)
_SAME: dict[str, Any] = {}


def pack(value: Any, before: Any, trusted: bool = False) -> Any:
    """Return what JSON holds of a value that was ``before``; raise a ``TypeError`` if it cannot be read back exactly.

    If ``trusted``, the same object is the same value: nobody has changed it in its place.
    """
    if value is before and (trusted or isinstance(value, _CONSTANT)):
        return _SAME
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _packed_array(value, before)
    if kind in (tuple, list):
        old: Any = (
            before
            if type(before) is kind and len(before) == len(value)
            else [None] * len(value)
        )
        return {
            kind.__name__: [
                pack(one, other) for one, other in zip(value, old, strict=True)
            ]
        }
    if kind is dict and all(type(key) is str for key in value):
        old = before if type(before) is dict else {}
        return {"dict": {key: pack(one, old.get(key)) for key, one in value.items()}}
    own = kind.__module__.startswith("adascale.")
    changed = {}
    for name in _names(value, before):
        part = pack(getattr(value, name), getattr(before, name), own)
        if part != _SAME:
            changed[name] = part
    return {"fields": changed}


def unpack(packed: Any, before: Any) -> Any:
    """Return the value of which :func:`pack` has made ``packed``, relative to the same ``before``."""
    if not isinstance(packed, dict):
        return packed
    if packed == _SAME:
        return before
    (form, content), *more = packed.items()
    if form in ("tuple", "list"):
        kind: Any = tuple if form == "tuple" else list
        old: Any = (
            before
            if type(before) is kind and len(before) == len(content)
            else [None] * len(content)
        )
        return kind(unpack(one, other) for one, other in zip(content, old, strict=True))
    if form == "dict":
        old = before if type(before) is dict else {}
        return {key: unpack(one, old.get(key)) for key, one in content.items()}
    if form == "fields":
        changed = {
            name: unpack(part, getattr(before, name)) for name, part in content.items()
        }
        return (
            before._replace(**changed)
            if hasattr(before, "_replace")
            else replace(before, **changed)
        )
    return _read_array(form, content, dict(more), before)


def _names(value: Any, before: Any) -> list[str]:
    """Return the names of all that a dataclass or named tuple holds."""
    names: list[str] = []
    if type(value) is type(before) and is_dataclass(value):
        names = [field.name for field in fields(value)]
    elif type(value) is type(before) and isinstance(value, tuple):
        names = list(getattr(value, "_fields", ()))
    if not names or not getattr(value, "__dict__", {}).keys() <= {*names}:
        raise TypeError(f"a {type(value).__name__} cannot be written exactly")
    return names


def _packed_array(value: Any, before: Any) -> dict[str, Any]:
    """Return an array or a NumPy scalar as bytes, without the columns that it begins with in common with ``before``."""
    kind, dtype = type(value), value.dtype
    exact = (
        dtype.kind in "biuf"
        and dtype.itemsize <= 8
        and dtype.isnative
        and value.flags.c_contiguous
    )
    if not (exact and (kind is np.ndarray or isinstance(value, np.generic))):
        raise TypeError(f"a {kind.__name__} of {dtype} cannot be written exactly")
    if isinstance(value, np.generic):
        return {dtype.str: _text(value.tobytes())}
    if value.ndim == 0:
        return {dtype.str: _text(value.tobytes()), "shape": []}
    same = 0
    if type(before) is np.ndarray and before is not value and _alike(value, before):
        same = min(value.shape[-1], before.shape[-1])
        bits = f"u{dtype.itemsize}"
        differ = value[..., :same].view(bits) != before[..., :same].view(bits)
        places = np.nonzero(differ)[-1]
        same = int(places.min(initial=same))
    rest = np.ascontiguousarray(value[..., same:])
    return {dtype.str: _text(rest.tobytes()), "shape": list(value.shape), "same": same}


def _alike(value: Any, before: Any) -> bool:
    return bool(
        value.dtype == before.dtype
        and value.ndim == before.ndim
        and value.shape[:-1] == before.shape[:-1]
    )


def _read_array(dtype: str, text: str, more: dict[str, Any], before: Any) -> Any:
    data = np.frombuffer(base64.b64decode(text), dtype)
    if "shape" not in more:
        return data[0]
    if not more["shape"]:
        return data.reshape(()).copy()
    array, same = np.empty(more["shape"], dtype), more["same"]
    if same:
        array[..., :same] = before[..., :same]
    array[..., same:] = data.reshape(*array.shape[:-1], -1) if data.size else 0
    return array


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
