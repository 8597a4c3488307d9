"""Random tables of rounds: what a plain reader finds in them, or an error with file and line.

Those of gains, by the same reader, are in ``tests/channel/test_gains.py``.
"""

import re

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from adascale.cli import common

COLUMNS = [["sigma", "rate"], ["sigma", "rate", "steps"], ["round", "sigma", "rate"]]
NAMES = [
    *str.split(
        "sigma rate steps eta min_gain h2_1 round time floor snr Sigma ETA 1.5 #"
    ),
    " sigma",
    "",
]
DAMAGES = str.split("separator quotes comma savetxt mixed ends encoding byte cut")
FIELDS = [
    *str.split(
        "1_0 0x10 0x1p3 \uff11 1,5 1,000 nan inf -1 0 -0.0 1e400 1e-400 1d3 1.5.2 1e +1.5 .5 5. True 1e-12 2 1;2"
    ),
    *str.split(
        '1\0 "0.5" "0.5 1e-12+2e-12j 1e-12-1e-12 99999999999999999999 1\'000 1.000,5'
    ),
    *("", " ", "1 000", "1 0", " 0.5 ", "0.5 # x", "3e-12 + 1e-12i", "\u00a01", "1\t2"),
]


def numbers(name, t):
    """Fields that are right in a column."""
    if name in ("round", "steps"):
        return st.just(str(t + 1))
    return st.floats(*((0, 1) if name == "rate" else (0.5, 50))).map(repr)


def change(draw, table):
    """Replace, leave out or double a field, a name, a row or a column, or turn the columns round."""
    t, i = draw(st.integers(0, len(table) - 1)), draw(st.integers(0, len(table[0]) - 1))
    kind, times = (
        draw(st.sampled_from(["field", "name", "row", "column", "turn"])),
        draw(st.sampled_from([0, 2])),
    )
    if kind == "row":
        others = (
            [],
            [table[t]] * 2,
            [[""], table[t]],
            [["  "], table[t]],
            [["# x"], table[t]],
            [["#h2_1,h2_2"], table[t]],
        )
        table[t : t + 1] = draw(st.sampled_from([*others, [*table[t:], table[t]]]))
    elif kind in ("field", "name"):
        row, other = (table[t], FIELDS) if kind == "field" else (table[0], NAMES)
        row[i : i + 1] = draw(
            st.lists(
                st.sampled_from(other),
                min_size=kind == "name",
                max_size=2 - (kind == "name"),
            )
        )
    else:
        for row in table:
            row[:] = (
                row[::-1]
                if kind == "turn"
                else row[:i] + row[i : i + 1] * times + row[i + 1 :]
            )


@st.composite
def tables(draw):
    """A table for a command as bytes, whole or with damages."""
    names = list(draw(st.sampled_from(COLUMNS)))
    table = [
        names,
        *(
            [draw(numbers(name, t)) for name in names]
            for t in range(draw(st.integers(1, 5)))
        ),
    ]
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        change(draw, table)
        table = [row for row in table if row] or [["sigma"]]
    damages = draw(st.lists(st.sampled_from(DAMAGES), max_size=3))
    sign = (
        draw(st.sampled_from([";", "\t", " ", ", ", "|", "  "]))
        if "separator" in damages
        else ","
    )
    lines = [
        sign.join(f'"{field}"' if "quotes" in damages else field for field in row)
        for row in table
    ]
    line = draw(st.integers(0, len(lines) - 1))
    if "comma" in damages:
        lines[1:] = [each.replace(".", ",") for each in lines[1:]]
    if "savetxt" in damages:
        lines[0] = f"# {lines[0]}"
    if "mixed" in damages:
        lines[line] = lines[line].replace(
            sign, draw(st.sampled_from([";", "\t", ",", " "]))
        )
    end = (
        draw(st.sampled_from(["\r\n", "\r", "\n\n", ""])) if "ends" in damages else "\n"
    )
    text = end.join(lines) + draw(st.sampled_from([end, end, end, ""]))
    codings = (
        str.split("utf-8-sig utf-16 utf-16-le utf-32")
        if "encoding" in damages
        else ["utf-8"]
    )
    data = text.encode(draw(st.sampled_from(codings)))
    place = draw(st.integers(0, len(data)))
    byte = draw(
        st.sampled_from([b"\0", b"\xff", b",", b";", b"\n", b"\r", b'"', b"_", b"0"])
    )
    return (
        data[:place]
        + byte * ("byte" in damages)
        + data[place:] * ("cut" not in damages)
    )


# A plain reader, written from the description in the help alone -------------------------------------------------------

UNSIGNED = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = re.compile(rf"\s*([+-]?{UNSIGNED})\s*")
PLACES = ("round", "time", "index", "unnamed: 0", "")


class Refused(Exception):
    """The plain reader does not understand this."""


def number(field):
    found = NUMBER.fullmatch(field)
    if not found or not np.isfinite(float(found[1])):
        raise Refused(field)
    return float(found[1])


def split(line, sign):
    """The fields of a line, in which quotes may stand around a whole field."""
    if sign == " ":
        return [field.strip('"') for field in line.split()]
    fields = [field.strip(" ") for field in line.split(sign)]
    return [
        field[1:-1] if len(field) > 1 and field[0] == field[-1] == '"' else field
        for field in fields
    ]


def plain_rows(text):
    """The columns by name of each line that is a row."""
    names, sign, comment = [], ",", ""
    for line in re.split("\r\n|\r|\n", text):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            comment = bare.lstrip("#") or comment
            continue
        if not names:
            numeric = comment and all(
                NUMBER.fullmatch(field) for field in re.split(r"[;,\s]+", bare)
            )
            head = comment if numeric else line
            sign = next((each for each in ";\t, " if each in head.strip(" ")), ",")
            names = [name.strip().casefold() for name in split(head, sign)]
            wanted = [
                name
                for i, name in enumerate(names)
                if name not in PLACES or (i and name not in PLACES[:2])
            ]
            if set(wanted) - {"sigma", "rate", "steps"} or len({*names}) < len(names):
                raise Refused(head)
            if not numeric:
                continue
        fields = split(line, sign)
        if len(fields) != len(names):
            raise Refused(line)
        row = dict(zip(names, fields, strict=True))
        yield {name: number(row[name]) for name in wanted}


def plain(data):
    """Rates, noise multipliers and their counts; Refused if there are none."""
    try:
        table = pd.DataFrame(plain_rows(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise Refused from error
    table = table.assign(steps=table.get("steps", 1))
    if (
        not {"sigma", "rate"} <= {*table}
        or not ((table.sigma > 0) & (table.rate >= 0) & (table.rate <= 1)).all()
    ):
        raise Refused
    if table.empty or not ((table.steps >= 1) & (table.steps % 1 == 0)).all():
        raise Refused
    return table[["rate", "sigma", "steps"]].to_numpy(float)


def outcome(data, path, read=common.read_rounds):
    """Whether a table was accepted, refused, or silently misread."""
    path.write_bytes(data)
    try:
        found = read(path, None)
    except ValueError as error:
        known = rf"{path}(, line \d+: | is empty| has no rows|: expected a column rate)"
        assert re.match(known, str(error))  # noqa: PT017
        return "refused"
    try:
        expected = plain(data)
    except Refused:
        return "misread"
    good = found.shape == expected.shape and np.allclose(
        found, expected, rtol=1e-12, atol=0
    )
    return "accepted" if good else "misread"


@given(tables())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_tables_are_read_right_or_refused(tmp_path_factory, data):
    found = outcome(data, tmp_path_factory.getbasetemp() / "t.csv")
    event(found)
    assert found != "misread"


def test_whole_table_is_accepted_and_one_read_as_another_is_noticed(tmp_path):
    whole = b"sigma,rate\n1.5,0.1\n2,0.2\n"
    assert outcome(whole, tmp_path / "t.csv") == "accepted"
    assert (
        outcome(
            whole, tmp_path / "t.csv", lambda *given: common.read_rounds(*given)[::-1]
        )
        == "misread"
    )
    wrong = whole.replace(b"0.2", b"0_2")
    assert (
        outcome(
            wrong, tmp_path / "t.csv", lambda *_: np.array([[0.1, 1.5, 1], [2, 2, 1]])
        )
        == "misread"
    )
