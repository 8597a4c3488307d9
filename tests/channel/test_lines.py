"""Gains that come line by line are those of the file that has them."""

import numpy as np
import pytest

from adascale import Scenario
from adascale.channel import GainLines, read_gains

from .test_traces import BAD, FORMS, GAINS, TWO, table

TEXTS = {form: text for form, text in FORMS.items() if isinstance(text, str) and form != "the old Mac's"}


def told(text, scenario=TWO, **options):
    """What each line gives, and what is said of those that are refused."""
    lines = GainLines("here", scenario, **options)
    found, refused = [], []
    for line in text.removesuffix("\n").encode().split(b"\n"):
        try:
            found.append(lines.read(line))
        except ValueError as error:
            refused.append(str(error))
            if not lines.has_header:
                break
    return [each for each in found if each is not None], refused


@pytest.mark.parametrize("form", TEXTS)
def test_what_people_have_is_read_line_by_line_to_the_same_bits(form):
    found, refused = told(TEXTS[form])
    assert [each.min_gain for each in found] == (GAINS / TWO.batch_second_moment).min(axis=1).tolist()
    assert all("blank" in each for each in refused)  # a line that may be a missing gain


def test_the_units_and_kinds_are_those_of_a_trace(tmp_path):
    decibels = table(10 * np.log10(GAINS))
    (tmp_path / "t").write_text(decibels)
    expected = read_gains(tmp_path / "t", TWO, "db").min_gain.tolist()
    assert [each.min_gain for each in told(decibels, unit="db")[0]] == expected
    assert told("h_1,h_2\n3+4j,5j\n")[0][0].min_gain == 25 / TWO.batch_second_moment
    assert told("h_1,h_2\n3+4j,5j\n", unit="db")[1] == [
        "here, line 2: complex coefficients are linear, they cannot have the unit db"
    ]
    with pytest.raises(ValueError, match="unit must be linear or db, got 'dBm'"):
        GainLines("here", TWO, "dBm")


OF_A_LINE = [
    kind
    for kind, (text, said) in BAD.items()
    if isinstance(text, str)
    and kind not in ("nothing", "comments alone", "no rows", "no header")
    and "round" not in kind
]


@pytest.mark.parametrize("kind", OF_A_LINE)
def test_what_is_refused_in_a_file_is_refused_in_its_line(kind):
    assert told(BAD[kind][0])[1]


def test_a_row_that_was_refused_leaves_no_trace():
    sent = "time,h2_1,h2_2\n1,1e-9,1e-9\n9,0,1e-9\n2,1e-9,1e-9\n2,1e-9,1e-9\n1.5,1e-9,1e-9\n3,1e-9,1e-9\n"
    found, refused = told(sent)
    assert len(found) == 4  # the same time twice is a line that was sent again
    assert [each.split(":")[0] for each in refused] == ["here, line 3", "here, line 6"]
    assert "expected time > 2, got '1.5'" in refused[1]


def test_lines_refuse_a_decimal_comma():
    found, refused = told("h2_1;h2_2\n1;1\n0.5;1\n1,000;1\n0.25;1\n")
    assert len(found) == 3
    assert len(refused) == 1
    assert "here, line 4: expected a number, got '1,000' in h2_1; write a decimal point" in refused[0]


def test_rounds_keep_their_numbers_which_are_not_put_in_order_here():
    found, refused = told("round,min_gain\n7,1e-9\n7,1e-9\n3,1e-9\nx,1e-9\n")
    assert [each.number for each in found] == [7, 7, 3]
    assert "expected round a number, got 'x'" in refused[0]
    assert told("min_gain\n1e-9\n")[0][0].number is None


def test_no_header_is_the_end():
    lines = GainLines("here", Scenario.mnist())
    assert lines.read(b"# a comment\n") is None
    assert not lines.has_header
    with pytest.raises(ValueError, match="here, line 2: got column 'gain'"):
        lines.read(b"gain\n")
    assert not lines.has_header
