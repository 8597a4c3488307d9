"""Numbers in tables, and differences realisation by realisation: what a reader sees is the number, to its digits."""

import re

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from hypothesis import assume, given
from hypothesis import strategies as st

from companion.formatting import as_html, number, rounded_down, rounded_up, signed

PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def test_numbers_are_shown_as_a_reader_wants_them():
    shown = {
        "0.0073": 0.0073,
        "1,300": 1299.0,
        "1.7·10⁻⁵": 1.7e-5,
        "0": -0.0,
        "23": 23.0,
        "2.0": 2.0,
        "1.0": 0.996,
    }
    for text, value in (shown | {"5.0·10⁶": 5e6, "1.0·10⁶": 999_999}).items():
        assert number(value, 2) == text
    assert (number(99.96, 3), number(-3514.2, 3)) == ("100", "−3,510")


@given(st.floats(-1e300, 1e300, allow_subnormal=False), st.integers(1, 6))
def test_what_is_shown_is_the_number_to_its_digits(value, digits):
    assume(value != 0 and abs(value) > 1e-300)
    shown = number(value, digits)
    mantissa, _, exponent = shown.replace(",", "").replace("−", "-").partition("·10")
    read = float(f"{mantissa}e{exponent.translate(PLAIN) or 0}")
    assert read == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))
    assert not re.search(r"e[+-]|\.$|\.(?!\d)", shown)


def test_bounds_are_rounded_outwards():
    for value, digits, low, high in [
        (17.94, 1, "17.9", "18.0"),
        (0.034, 2, "0.03", "0.04"),
    ]:
        assert (rounded_down(value, digits), rounded_up(value, digits)) == (low, high)
        assert (rounded_down(49.0), rounded_up(1.4, 1)) == ("49.0", "1.4")


def test_a_minus_is_a_minus_and_a_hyphen_a_hyphen():
    text = "-0.5 (-1 to -2.5), [-3, -4], <td>-5</td>, 2026-11-22, AdaScale-1, so-called, - 6"
    expected = "−0.5 (−1 to −2.5), [−3, −4], <td>−5</td>, 2026-11-22, AdaScale-1, so-called, - 6"
    assert signed(text) == expected


@pytest.mark.parametrize(
    "names", [["statement", "method"], [None, None], ["statement", None]]
)
def test_a_table_is_shown_under_one_row_of_heads(names):
    rows = pd.MultiIndex.from_tuples(
        [("same", "one"), ("same", "other"), ("falls", "one")], names=names
    )
    table = pd.DataFrame({"ν = 0.01": ["-0.1", "3", "5"]}, rows)
    html = as_html(table.rename_axis(columns="nu" if any(names) else None))
    shown = BeautifulSoup(html, "html.parser").select("tr")
    heads = [head.get_text() for head in shown[0].select("th")]
    assert heads == [*(name or "" for name in names), "ν = 0.01"]
    texts = [row.get_text(" ", strip=True) for row in shown[1:]]
    assert texts == ["same one −0.1", "other 3", "falls one 5"]
