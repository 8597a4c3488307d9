"""Random tables of rounds: what a plain reader finds in them, or an error with file and line.

Those of gains, by the same reader, are in ``tests/channel/test_gains.py``.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from adascale.accounting import read_events

COLUMNS = [["sigma", "rate"], ["sigma", "rate", "steps"], ["round", "sigma", "rate"]]
NAMES = [
    *str.split(
        "sigma rate steps eta min_gain h2_1 round time floor snr Sigma ETA 1.5 #"
    ),
    " sigma",
    "",
]
FIELDS = [
    *str.split(
        "1_0 0x10 0x1p3 \uff11 1,5 1,000 nan inf -1 0 -0.0 1e400 1e-400 1d3 1.5.2 1e +1.5 .5 5. True 1e-12 2 1;2"
    ),
    *str.split(
        '1\0 "0.5" "0.5 1e-12+2e-12j 1e-12-1e-12 99999999999999999999 1\'000 1.000,5'
    ),
    *("", " ", "1 000", "1 0", " 0.5 ", "0.5 # x", "3e-12 + 1e-12i", "\u00a01", "1\t2"),
]
# patterns of a table, and what may stand in their place, everywhere or the first time
REPLACED = [
    *((",", sign) for sign in (";", "\t", " ", ", ", "|", "  ")),
    *(("\n", end) for end in ("\r\n", "\r", "\n\n", "\n  \n", "\n# x\n", "")),
    (r"\.", ","),
    (r"[^,\n]+", r'"\g<0>"'),
    ("^", "# "),  # as numpy.savetxt writes it
    ("^", "\ufeff"),
    ("^", "#h2_1,h2_2\n"),
    (r"\n$", ""),
]
CODINGS = [*["utf-8"] * 9, "utf-16", "utf-16-le", "utf-32"]
BYTES = [*[b""] * 9, b"\0", b"\xff", b",", b";", b"\n", b"\r", b'"', b"_", b"0"]


def fields_of(name, t):
    """Fields that are right in a column."""
    if name in ("round", "steps"):
        return st.just(str(t + 1))
    return (st.floats(0, 1) if name == "rate" else st.floats(0.5, 50)).map(repr)


def damage(draw, table):
    """Replace, leave out or double a field, a name, a row or a column, or turn the columns round."""
    t, i = draw(st.integers(0, len(table) - 1)), draw(st.integers(0, 2))
    kind = draw(st.sampled_from(["field", "name", "row", "column", "turn"]))
    times = draw(st.sampled_from([0, 2]))
    if kind == "field":
        table[t][i : i + 1] = draw(st.lists(st.sampled_from(FIELDS), max_size=2))
    elif kind == "name":
        table[0][i : i + 1] = [draw(st.sampled_from(NAMES))]
    elif kind == "row":
        table[t : t + 1] = [table[t]] * times
    else:
        table[:] = [
            row[::-1]
            if kind == "turn"
            else row[:i] + row[i : i + 1] * times + row[i + 1 :]
            for row in table
        ]


@st.composite
def tables(draw):
    """A table for a command as bytes, whole or with damages."""
    names = [*draw(st.sampled_from(COLUMNS))]
    rounds = range(draw(st.integers(1, 5)))
    table = [names, *([draw(fields_of(name, t)) for name in names] for t in rounds)]
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        damage(draw, table)
        table = table or [["sigma"]]
    text = "".join(",".join(row) + "\n" for row in table)
    replaced = st.tuples(st.sampled_from(REPLACED), st.sampled_from([0, 1]))
    for (pattern, other), count in draw(st.lists(replaced, max_size=2)):
        text = re.sub(pattern, other, text, count=count)
    data = text.encode(draw(st.sampled_from(CODINGS)))
    place, length = (
        draw(st.integers(0, len(data))),
        draw(st.sampled_from([0, 0, 1, 99])),
    )
    return data[:place] + draw(st.sampled_from(BYTES)) + data[place + length :]


# A plain reader, written from the description in the help alone -------------------------------------------------------

UNSIGNED = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = re.compile(rf"\s*([+-]?{UNSIGNED})\s*")
INDEX = "index", "unnamed: 0", ""


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
    return [
        re.sub('^"(.*)"$', r"\1", field.strip(" "), flags=re.DOTALL)
        for field in line.split(sign)
    ]


def columns_of(header, sign):
    """All names, and those of the columns that count."""
    names = [name.strip().casefold() for name in split(header, sign)]
    columns = [name for name in names if name not in ("round", "time")]
    if names[0] in INDEX:
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
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_tables_are_read_right_or_refused(tmp_path_factory, data):
    result = outcome(data, tmp_path_factory.getbasetemp() / "t.csv")
    event(result)
    assert result != "misread"


WHOLE = b"sigma,rate\n1.5,0.1\n2,0.2\n"


@pytest.mark.parametrize(
    ("data", "read", "expected"),
    [
        (WHOLE, read_events, "accepted"),
        (WHOLE, lambda path: read_events(path)[::-1], "misread"),
        (
            WHOLE.replace(b"0.2", b"0_2"),
            lambda *_: np.array([[0.1, 1.5, 1], [2, 2, 1]]),
            "misread",
        ),
    ],
)
def test_outcome_notices_a_wrong_reading(tmp_path, data, read, expected):
    assert outcome(data, tmp_path / "t.csv", read) == expected
