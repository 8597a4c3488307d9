"""Numbers as a reader wants them in a table: no ``1e+03``, no ``23.``, no ``-0.0``, and a minus that is no hyphen."""

import re
from math import ceil, floor, log10

import pandas as pd

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float, form: str = ".1f") -> str:
    """Return a number in a format, with a true minus sign, and none before a zero."""
    text = f"{value:{form}}"
    return signed(text if text.strip("+-0.") else text.lstrip("+-"))


def number(value: float, digits: int = 2) -> str:
    r"""Return a number with some significant digits: plain from 0.001 to a million, else :math:`a \cdot 10^b`.

    For instance ``0.0073``, ``1,300``, ``−1.7·10⁻⁵``; zeros at the end are kept where they are significant, and zero of
    either sign is ``0``.
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if 1e-3 <= abs(float(f"{mantissa}e{exponent}")) < 1e6:
        rounded = float(f"{value:.{digits - 1}e}")
        return signed(f"{rounded:,.{max(digits - 1 - floor(log10(abs(rounded))), 0)}f}")
    return f"{signed(mantissa)}·10{str(int(exponent)).translate(_RAISED)}"


def signed(text: str) -> str:
    """Return the same with a minus sign, U+2212, for each hyphen that begins a number."""
    return re.sub(r"(?<![^\s>(\[])-(?=\d)", "\N{MINUS SIGN}", text)


def as_html(table: pd.DataFrame) -> str:
    """Return a table as a notebook shows it: one row of heads with the index's names, and numbers :func:`signed`."""
    has_names = any(table.index.names) and table.columns.nlevels == 1
    html = signed(
        (table.rename_axis(columns=None) if has_names else table)._repr_html_()
    )
    if not has_names:
        return html
    before, head, after = re.split(
        r"(<tr.*?</tr>\s*<tr.*?</tr>)", html, maxsplit=1, flags=re.DOTALL
    )
    columns, index = (
        re.findall("<th>(.*?)</th>", row) for row in head.split("</tr>")[:2]
    )
    levels = table.index.nlevels
    level = '<th class="row_heading">'
    cells = [f"{level}{name}</th>" for name in index[:levels]] + [
        f"<th>{name}</th>" for name in columns[levels:]
    ]
    return f"{before}<tr>{''.join(cells)}</tr>{after}"


def rounded_down(value: float, digits: int = 1) -> str:
    """Return a lower bound with so many decimals: rounding must not raise it."""
    return f"{floor(10**digits * value) / 10**digits:.{digits}f}"


def rounded_up(value: float, digits: int = 1) -> str:
    """Return an upper bound with so many decimals: rounding must not lower it."""
    return f"{ceil(10**digits * value) / 10**digits:.{digits}f}"
