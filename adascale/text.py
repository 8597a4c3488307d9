"""Numbers as text, by one rule for the command line and tables, and text that is short enough for a message."""

import re
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", float, complex)
MOST_SHOWN = 100
"""Most characters of a value in a message; of a longer one the first 80 are shown, so that some are left out."""


def to_number(field: str) -> float | None:
    """Return an ASCII field without underscores as a number, or None."""
    return _converted(float, field)


def to_whole(field: str) -> int | None:
    """Return a field of at most 18 ASCII digits, with or without a sign, as an integer, or None."""
    return int(field) if re.fullmatch(r" *[+-]?[0-9]{1,18} *", field) else None


def to_power(field: str) -> float | None:
    """Return the squared modulus of a field with a complex number, such as ``0.1 + 0.2i``, or None."""
    value = _converted(
        complex, re.sub(r" *([+-]) *", r"\1", field.strip()).replace("i", "j")
    )
    return None if value is None else value.real * value.real + value.imag * value.imag


def _converted(kind: Callable[[str], Number], text: str) -> Number | None:
    try:
        return kind(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def short(field: str) -> str:
    """Shorten and quote a field for a message."""
    return repr(_cut(field))


def shown(value: object) -> str:
    """Return a value for a message, in one short line."""
    try:
        return _cut(" ".join(repr(value).split()))
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "a number of thousands of digits"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 20]}..."
