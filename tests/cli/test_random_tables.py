"""Damaged tables of rounds: what a plain reader finds in them, or an error with file and line.

Those of gains, by the same reader, are in ``tests/channel/test_gains.py``.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from adascale.accounting import read_events

TABLES = [
    "sigma,rate\n1.5,0.25\n2,0.125\n.5,1\n",
    "round,sigma,rate,steps\n1,1.5,0.25,3\n2,2,0.125,7\n",
]
FIELDS = '1_0 0x10 \uff11 1,5 nan inf -1 -0.0 1e400 1d3 1.5.2 1e +1.5 5. 1e-12 2 1;2 1\0 "0.5" "0.5 1\'000 1\t2'
FIELDS = [*FIELDS.split(" "), "", " ", "1 0", " 0.5 ", "0.5 # x", "sigma", "steps"]
# patterns of a table, and what may stand in their place, everywhere or the first time
REPLACED = [
    *((",", sign) for sign in (";", "\t", " ", ", ", "|", "  ")),
    *(("\n", end) for end in ("\r\n", "\r", "\n\n", "\n  \n", "\n# x\n", "")),
    *((r"[^,\n]+", field) for field in (r'"\g<0>"', r"\g<0>,\g<0>")),
    *((r"(?<=,)[^,\n]+", re.escape(field)) for field in FIELDS),
    *(("^", start) for start in ("# ", "\ufeff", "#h2_1,h2_2\n")),
    *(("^.*\n", line) for line in ("", r"\g<0>\g<0>")),
    (r"\.", ","),
]
BYTES = st.sampled_from([b"", b"\0", b"\xff", b",", b";", b"\n", b"\r", b'"', b"0"])


@st.composite
def tables(draw):
    """A table for a command as bytes, with damages."""
    text = draw(st.sampled_from(TABLES))
    replaced = st.tuples(st.sampled_from(REPLACED), st.sampled_from([0, 1]))
    for (pattern, other), count in draw(st.lists(replaced, max_size=2)):
        text = re.sub(pattern, other, text, count=count)
    data = text.encode(draw(st.sampled_from(["utf-8"] * 9 + ["utf-16", "utf-32"])))
    place = draw(st.integers(0, len(data)))
    removed = draw(st.sampled_from([0, 0, 1, 99]))
    return data[:place] + draw(BYTES) + data[place + removed :]


# A plain reader, written from the description in the help alone -------------------------------------------------------

UNSIGNED = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = re.compile(rf"\s*([+-]?{UNSIGNED})\s*")


class Refused(Exception):
    """The plain reader does not understand this."""


def number(field):
    match = NUMBER.fullmatch(field)
    if not match or not np.isfinite(float(match[1])):
        raise Refused(field)
    return float(match[1])


def split(line, sign):
    """The fields of a line, in which quotes may stand around a whole field."""
    if sign == " ":
        return [field.strip('"') for field in line.split()]
    fields = (field.strip(" ") for field in line.split(sign))
    return [re.sub('^"(.*)"$', r"\1", field, flags=re.DOTALL) for field in fields]


def columns_of(header, sign):
    """All names, and those of the columns that count."""
    names = [name.strip().casefold() for name in split(header, sign)]
    columns = [name for name in names if name not in ("round", "time")]
    if names[0] in ("index", "unnamed: 0", ""):
        columns.remove(names[0])
    if {*columns} - {"sigma", "rate", "steps"} or len({*names}) < len(names):
        raise Refused(header)
    return names, columns


def plain_rows(text):
    """The columns by name of each line that is a row."""
    names, sign, comment = [], ",", ""
    for line in re.split("\r\n|\r|\n", text):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            comment = bare.lstrip("#") or comment
            continue
        if not names:
            numeric = all(map(NUMBER.fullmatch, re.split(r"[;,\s]+", bare)))
            head = comment if comment and numeric else line
            sign = next((sign for sign in ";\t, " if sign in head.strip(" ")), ",")
            names, columns = columns_of(head, sign)
            if head is line:
                continue
        fields = split(line, sign)
        if len(fields) != len(names):
            raise Refused(line)
        row = dict(zip(names, fields, strict=True))
        yield {name: number(row[name]) for name in columns}


def plain(data):
    """Rates, noise multipliers and their counts; Refused if there are none."""
    try:
        table = pd.DataFrame(plain_rows(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise Refused from error
    if not {"sigma", "rate"} <= {*table}:
        raise Refused
    table = table.assign(steps=table.get("steps", 1))
    good = (table.sigma > 0) & table.rate.between(0, 1) & (table.steps >= 0)
    if not (good & (table.steps % 1 == 0)).all():
        raise Refused
    return table[["rate", "sigma", "steps"]].to_numpy(float)


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
    except Refused:
        return "misread"
    same = rounds.shape == expected.shape
    good = same and np.allclose(rounds, expected, rtol=1e-12, atol=0)
    return "accepted" if good else "misread"


@given(tables())
@example(b"sigma,rate,\0steps\n1.0,0.0,1\n")
def test_tables_are_read_right_or_refused(tmp_path_factory, data):
    result = outcome(data, tmp_path_factory.getbasetemp() / "t.csv")
    event(result)
    assert result != "misread"


@pytest.mark.parametrize("step", [1, -1])
def test_outcome_notices_a_wrong_reading(tmp_path, step):
    found = outcome(
        TABLES[0].encode(), tmp_path / "t.csv", lambda path: read_events(path)[::step]
    )
    assert found == ("accepted" if step == 1 else "misread")
