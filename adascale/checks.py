"""Checks of arguments: :class:`~adascale.errors.InvalidInput` names the argument and its value."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.errors import InvalidInput
from adascale.text import shown

BoolArray = NDArray[np.bool_]
ComplexArray = NDArray[np.complex128]
FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
MOST_ENTRIES = 100_000_000
"""Largest size of an array made from a few numbers (1.6 GB of complex numbers)."""


def as_floats(name: str, value: ArrayLike) -> FloatArray:
    """Return a new C-ordered float64 array of the value; refuse an array of booleans, text and masked entries."""
    # NumPy would drop the mask, also that of an array in a list
    parts = value if isinstance(value, list | tuple) else [value]
    if any(map(np.ma.is_masked, parts)):
        raise InvalidInput(
            f"{name} must have no masked entries; fill them or leave them out", name
        )
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":  # nullable columns of pandas, large integers
            real = [isinstance(x, Real) and not isinstance(x, bool) for x in array.flat]
            array = array.astype(float) if all(real) else array
        if array.dtype.kind not in "iuf":
            raise ValueError
    except (ValueError, OverflowError):
        # a ragged sequence as well, or an integer above the largest float64
        raise InvalidInput(
            f"{name} must be a number or an array of numbers, got {shown(value)}", name
        ) from None
    # a longdouble may overflow; C order, so that NumPy adds in the same order for every memory layout
    with np.errstate(over="ignore"):
        return array.astype(float, order="C")


def _checked(
    name: str,
    value: ArrayLike,
    expected: str,
    good: Callable[[FloatArray], BoolArray],
) -> FloatArray:
    """Return ``value`` as floats if all of them are good."""
    array = as_floats(name, value)
    bad = ~good(array)
    if bad.any():
        index = tuple(np.argwhere(bad)[0].tolist())
        place = f" at index {index if index[1:] else index[0]}" if index else ""
        raise InvalidInput(
            f"{name} must be {expected}, got {array[index]}{place}", name
        )
    return array


def _one(
    name: str,
    value: ArrayLike,
    expected: str,
    good: Callable[[FloatArray], BoolArray],
) -> float:
    """Return ``value`` as a float if it is one good number."""
    array = _checked(name, value, expected, good)
    if array.ndim:
        raise InvalidInput(f"{name} must be {expected}, got {shown(value)}", name)
    return float(array)


def positive(name: str, value: ArrayLike, last: str = "") -> FloatArray:
    """Return ``value`` as floats, all finite and > 0; if ``last`` names a last axis, it must have an entry or more."""
    array = _checked(name, value, "finite and > 0", lambda x: (x > 0) & (x < math.inf))
    if last and (array.ndim == 0 or array.shape[-1] == 0):
        raise InvalidInput(
            f"{name} must have a last axis of {last}, got shape {array.shape}", name
        )
    return array


def per_device(name: str, value: ArrayLike, num_devices: int) -> FloatArray:
    """Return ``value`` as floats, all finite and > 0, with one per device on the last axis."""
    array = positive(name, value)
    if array.shape[-1:] != (num_devices,):
        raise InvalidInput(
            f"{name} must have shape (..., {num_devices}), got {array.shape}", name
        )
    return array


def at_least(name: str, value: ArrayLike, least: float) -> FloatArray:
    """Return ``value`` as floats, all finite and >= ``least``."""
    expected = f"finite and >= {least}"
    return _checked(name, value, expected, lambda x: (x >= least) & (x < math.inf))


def between(name: str, value: ArrayLike, low: float, high: float) -> FloatArray:
    """Return ``value`` as floats, all in [low, high]."""
    expected = f"in [{low:g}, {high:g}]"
    return _checked(name, value, expected, lambda x: (x >= low) & (x <= high))


def sampling_rate(name: str, value: ArrayLike) -> FloatArray:
    """Return ``value`` as floats, all in (0, 1]."""
    return _checked(name, value, "in (0, 1]", lambda x: (x > 0) & (x <= 1))


def order(name: str, value: ArrayLike) -> float:
    """Return one Rényi order, finite and > 1."""
    return _one(name, value, "finite and > 1", lambda x: (x > 1) & (x < math.inf))


def fraction(name: str, value: ArrayLike) -> float:
    """Return one number in (0, 1)."""
    expected = "one number strictly between 0 and 1"
    return _one(name, value, expected, lambda x: (x > 0) & (x < 1))


def number(name: str, value: ArrayLike, low: float, high: float = math.inf) -> float:
    """Return one finite number in [low, high]."""
    expected = f"one number in [{low:g}, {high:g}]"
    if high == math.inf:
        expected = f"one finite number >= {low:g}"
    return _one(
        name, value, expected, lambda x: np.isfinite(x) & (x >= low) & (x <= high)
    )


def whole(
    name: str, value: int | np.integer[Any], least: int = 1, most: float = math.inf
) -> int:
    """Return one integer in [least, most]."""
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integer or value < least:
        raise InvalidInput(
            f"{name} must be a whole number >= {least}, got {shown(value)}", name
        )
    if value > most:
        raise InvalidInput(
            f"{name} must be at most {most:,}, got {shown(int(value))}", name
        )
    return int(value)


def entries(name: str, *shape: int) -> None:
    """Require at most :data:`MOST_ENTRIES` in an array of this shape."""
    if math.prod(shape) > MOST_ENTRIES:
        size = " x ".join(map(str, shape))
        raise InvalidInput(
            f"{name} must have at most {MOST_ENTRIES:,} entries at once, got {size}",
            name,
        )


def finite(what: str, *arrays: ArrayLike) -> None:
    """Require that computed arrays are finite; the error says ``what`` they are, as no one argument is to blame."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(f"beyond floating point: {what}")


def broadcast(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape to which the named shapes broadcast."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes must broadcast together, got {listed}") from None


def one_of(name: str, value: object, *choices: str | bool) -> None:
    """Require that an argument is one of these choices, all of which are strings, or are True and False.

    The types are compared first, because 1 equals True and the entries of an array cannot be compared at once.
    """
    if type(value) is not type(choices[0]) or value not in choices:
        listed = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise InvalidInput(f"{name} must be {listed}, got {shown(value)}", name)
