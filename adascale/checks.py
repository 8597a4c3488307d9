"""One clear error per bad value: it names the argument, the value and what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _show(value: ArrayLike, bad: NDArray[np.bool_] | None = None) -> str:
    """The offending value: the first bad entry of an array with its index, or the value itself."""
    if bad is None or np.ndim(value) == 0:
        return f"{value!r}" if isinstance(value, str) else f"{value}"
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{np.asarray(value)[index]} at index {index if len(index) > 1 else index[0]}"


def as_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as an array of float64, or a ``ValueError`` that names it."""
    array: NDArray[Any] | None
    try:
        array = np.asarray(value)
    except ValueError:  # a ragged sequence
        array = None
    if array is None or array.dtype.kind not in "iuf":
        shown = " ".join(f"{value!r}".split())
        raise ValueError(f"{name} must be a number or an array of numbers, got {shown[:80]}")
    return array.astype(float)


def positive(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as floats, all of them finite and > 0."""
    array = as_floats(name, value)
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        raise ValueError(f"{name} must be finite and > 0, got {_show(array, bad)}")
    return array


def at_least(name: str, value: ArrayLike, least: float) -> NDArray[np.float64]:
    """``value`` as floats, all of them finite and >= ``least``."""
    array = as_floats(name, value)
    bad = ~(np.isfinite(array) & (array >= least))
    if bad.any():
        raise ValueError(f"{name} must be finite and >= {least}, got {_show(array, bad)}")
    return array


def sampling_rate(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as floats, all of them in (0, 1]."""
    array = as_floats(name, value)
    bad = ~((array > 0) & (array <= 1))
    if bad.any():
        raise ValueError(f"{name} must be in (0, 1], got {_show(array, bad)}")
    return array


def order(name: str, value: ArrayLike) -> float:
    """A single Rényi order: finite and > 1."""
    array = as_floats(name, value)
    if array.ndim != 0:
        raise ValueError(f"{name} must be one number, got an array of shape {array.shape}")
    if not (np.isfinite(array) and array > 1):
        raise ValueError(f"{name} must be finite and > 1, got {_show(value)}")
    return float(array)


def fraction(name: str, value: ArrayLike) -> float:
    """A single probability strictly between 0 and 1."""
    array = as_floats(name, value)
    if array.ndim != 0 or not 0 < array < 1:
        raise ValueError(f"{name} must be one number strictly between 0 and 1, got {_show(value)}")
    return float(array)


def whole(name: str, value: int | np.integer[Any]) -> int:
    """A single whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {_show(value)}")
    return int(value)


def broadcast(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of the named shapes, or a ``ValueError`` that names them all."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes must broadcast together, got {listed}") from None
