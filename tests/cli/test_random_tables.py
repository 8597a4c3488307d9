"""Damaged tables of rounds: what a plain reader finds in them, or an error with file and line.

Other separators and headers, by the same reader, are in ``tests/channel/test_gains.py``.
"""

import re
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adascale.accounting import read_events

TABLE = "sigma,rate,steps\n1.5,0.25,3\n2,0.125,7\n.5,1,1\n"
FIELDS = '1_0 0x10 \uff11 nan inf -1 -0.0 1e400 1d3 1.5.2 1e +1.5 5. 1e-12 2 1\0 "0.5" "0.5 1\'000 sigma'
FIELDS = [*FIELDS.split(" "), "", " ", "1 0", " 0.5 ", "0.5 # x"]
# patterns of a table, and what may stand in their place, everywhere or the first time
REPLACED = [
    *(("\n", end) for end in ("\r\n", "\r", "\n\n", "\n  \n", "\n# x\n", "")),
    *((r"[^,\n]+", field) for field in (r'"\g<0>"', r"\g<0>,\g<0>")),
    *((r"(?<=,)[^,\n]+", re.escape(field)) for field in FIELDS),
    *(("^.*\n", line) for line in ("", "\ufeff\\g<0>", r"\g<0>\g<0>")),
    (r"\.", ","),
]
BYTES = st.sampled_from([b"", b"\0", b"\xff", b",", b"\n", b"\r", b'"', b"0"])


@st.composite
def tables(draw):
    """A table as bytes, with damages."""
    text = TABLE
    replaced = st.tuples(st.sampled_from(REPLACED), st.sampled_from([0, 1]))
    for (pattern, other), count in draw(st.lists(replaced, max_size=2)):
        text = re.sub(pattern, other, text, count=count)
    data = text.encode(draw(st.sampled_from(["utf-8"] * 9 + ["utf-16"])))
    place = draw(st.integers(0, len(data)))
    removed = draw(st.sampled_from([0, 0, 1, 99]))
    return data[:place] + draw(BYTES) + data[place + removed :]


NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def fields_of(line):
    return [re.sub('^"(.*)"$', r"\1", field.strip(" ")) for field in line.split(",")]


def plain(data):
    """Rate, noise multiplier and count of each line, by the description in the help alone; ValueError if unclear."""
    lines = re.split("\r\n|\r|\n", data.decode("utf-8-sig"))
    head, *rows = map(fields_of, [x for x in lines if not re.match(r"\s*(#|$)", x)])
    names = [name.strip().casefold() for name in head]
    if sorted(names) not in (["rate", "sigma"], ["rate", "sigma", "steps"]):
        raise ValueError(names)
    found = []
    for row in rows:
        if not all(re.fullmatch(NUMBER, field.strip()) for field in row):
            raise ValueError(row)
        named = {"steps": 1} | dict(zip(names, map(float, row), strict=True))
        rate, sigma, steps = named["rate"], named["sigma"], named["steps"]
        if not (0 <= rate <= 1 and 0 < sigma < np.inf and 0 <= steps == steps // 1):
            raise ValueError(row)
        found.append((rate, sigma, steps))
    return np.array(found)


def outcome(data, path, read=read_events):
    """Whether a table was accepted, refused, or silently misread."""
    path.write_bytes(data)
    try:
        with warnings.catch_warnings(action="ignore"):  # of a last line that has no end
            rounds = read(path)
    except ValueError as error:
        place = rf"{path}(, line \d+: | is empty| has no rows)"
        assert re.match(place, str(error))  # noqa: PT017
        return "refused"
    try:
        expected = plain(data)
    except ValueError:
        return "misread"
    same = rounds.shape == expected.shape
    good = same and np.allclose(rounds, expected, rtol=1e-12, atol=0)
    return "accepted" if good else "misread"


@given(tables())
@example(b"sigma,rate,\0steps\n1.0,0.0,1\n")
def test_tables_are_read_right_or_refused(tmp_path_factory, data):
    assert outcome(data, tmp_path_factory.getbasetemp() / "t.csv") != "misread"


@pytest.mark.parametrize("step", [1, -1])
def test_outcome_notices_a_wrong_reading(tmp_path, step):
    found = outcome(
        TABLE.encode(), tmp_path / "t.csv", lambda path: read_events(path)[::step]
    )
    assert found == ("accepted" if step == 1 else "misread")
