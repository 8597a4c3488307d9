"""Numbers as a reader wants them in a table: no ``1e+03``, no ``23.``, no ``-0.0``."""

from math import floor, log10

Texts = dict[str, str]
"""Texts by the names under which a chapter glues them.

:meta hide-value:
"""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 2) -> str:
    r"""A number with some significant digits: plain from 0.001 to a million, else :math:`a \cdot 10^b`.

    Parameters
    ----------
    value : float
        Any finite number.
    digits : int
        Significant digits, at least 1; zeros at the end are kept where they are significant.

    Returns
    -------
    str
        For instance ``0.0073``, ``1,300``, ``1.7·10⁻⁵``; ``0`` for zero of either sign.

    Raises
    ------
    ValueError
        If the number is not finite, or ``digits`` is less than 1.
    """
    if digits < 1:
        raise ValueError(f"digits must be at least 1, got {digits}")
    if not abs(value) < float("inf"):
        raise ValueError(f"value must be finite, got {value}")
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if 1e-3 <= abs(float(f"{mantissa}e{exponent}")) < 1e6:
        rounded = float(f"{value:.{digits - 1}e}")
        return f"{rounded:,.{max(digits - 1 - floor(log10(abs(rounded))), 0)}f}"
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def rounded_down(value: float) -> str:
    """A lower bound with one decimal: rounding must not raise it."""
    return f"{floor(10 * value) / 10:.1f}"
