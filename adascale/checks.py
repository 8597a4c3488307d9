"""One clear error per bad value: it names the argument, the value and what was expected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.errors import InvalidInput

MOST_ENTRIES = 100_000_000
"""The largest array that is made from a few numbers alone, which is 1.6 GB of complex numbers."""


def _show(value: ArrayLike, bad: NDArray[np.bool_] | None = None) -> str:
    """The offending value: the first bad entry of an array with its index, or the value itself."""
    if bad is None or np.ndim(value) == 0:
        return f"{value!r}" if isinstance(value, str) else f"{value}"
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{np.asarray(value)[index]} at index {index if len(index) > 1 else index[0]}"


def as_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a fresh array of float64 in C order, or ``InvalidInput`` that names it; a mask may hide nothing."""
    if _hides(value):
        raise InvalidInput(f"{name} must have no masked entries; fill them or leave them out", name)
    array: NDArray[Any] | None
    try:
        array = np.asarray(value)
    except ValueError:  # a ragged sequence
        array = None
    if array is not None and array.dtype.kind == "O":
        array = _unboxed(array)
    if array is None or array.dtype.kind not in "iuf":
        shown = " ".join(f"{value!r}".split())
        raise InvalidInput(f"{name} must be a number or an array of numbers, got {shown[:80]}", name)
    with np.errstate(over="ignore"):  # of a wider float
        return array.astype(float, order="C")  # the order too, in which numpy adds, is then the same for every layout


def _unboxed(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers that numpy took as objects, as it does nullable columns of pandas and whole numbers of any length."""
    if any(isinstance(one, bool) or not isinstance(one, int | float | np.integer | np.floating) for one in array.flat):
        return array
    return np.array([_rounded(one) for one in array.flat]).reshape(array.shape)


def _rounded(value: float) -> float:
    """As a float, infinite where float64 ends."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _hides(value: object) -> bool:
    """Whether some entry is masked; ``numpy.asarray`` would take what lies beneath."""
    if isinstance(value, list | tuple):
        return any(map(_hides, value))
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def positive(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as floats, all of them finite and > 0."""
    array = as_floats(name, value)
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        raise InvalidInput(f"{name} must be finite and > 0, got {_show(array, bad)}", name)
    return array


def at_least(name: str, value: ArrayLike, least: float) -> NDArray[np.float64]:
    """``value`` as floats, all of them finite and >= ``least``."""
    array = as_floats(name, value)
    bad = ~(np.isfinite(array) & (array >= least))
    if bad.any():
        raise InvalidInput(f"{name} must be finite and >= {least}, got {_show(array, bad)}", name)
    return array


def sampling_rate(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as floats, all of them in (0, 1]."""
    array = as_floats(name, value)
    bad = ~((array > 0) & (array <= 1))
    if bad.any():
        raise InvalidInput(f"{name} must be in (0, 1], got {_show(array, bad)}", name)
    return array


def order(name: str, value: ArrayLike) -> float:
    """A single Rényi order: finite and > 1."""
    array = as_floats(name, value)
    if array.ndim != 0:
        raise InvalidInput(f"{name} must be one number, got an array of shape {array.shape}", name)
    if not (np.isfinite(array) and array > 1):
        raise InvalidInput(f"{name} must be finite and > 1, got {_show(value)}", name)
    return float(array)


def fraction(name: str, value: ArrayLike) -> float:
    """A single probability strictly between 0 and 1."""
    array = as_floats(name, value)
    if array.ndim != 0 or not 0 < array < 1:
        raise InvalidInput(f"{name} must be one number strictly between 0 and 1, got {_show(value)}", name)
    return float(array)


def whole(name: str, value: int | np.integer[Any]) -> int:
    """A single whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{name} must be a whole number >= 1, got {_show(value)}", name)
    return int(value)


def within(name: str, array: NDArray[np.float64], low: float, high: float) -> None:
    """No entry of ``array`` is outside what keeps the power limit and the floors within floating point."""
    bad = ~((array >= low) & (array <= high))
    if bad.any():
        raise InvalidInput(
            f"{name} must be within {low:.3g} ... {high:.3g}, where floating point holds the power limit "
            f"and the noise energy of this scenario, got {_show(array, bad)}",
            name,
        )


def entries(name: str, *shape: int) -> None:
    """No more than :data:`MOST_ENTRIES` in an array of this shape, before memory is asked for it."""
    if math.prod(shape) > MOST_ENTRIES:
        asked = " x ".join(map(str, shape))
        raise InvalidInput(f"{name} must have at most {MOST_ENTRIES:,} entries at once, got {asked}", name)


def held(what: str, *arrays: ArrayLike) -> None:
    """A ``ValueError`` that ``what`` is beyond floating point, unless every entry is finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(f"beyond floating point: {what}")


def broadcast(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of the named shapes, or a ``ValueError`` that names them all."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes must broadcast together, got {listed}") from None
