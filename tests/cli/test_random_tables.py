"""Random tables for each command that reads them: the answer of a plain reader, or an error with file and line."""

import contextlib
import io
import re
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from adascale import Scenario, accounting

from ..command import run

SMALL = Scenario("small", 2, 12, 1000, (20, 30), 400, 1.0, 0.2, 1e-12)
NU = 1e-3


COLUMNS = {
    "rounds": [["sigma", "rate"], ["sigma", "rate", "steps"], ["round", "sigma", "rate"]],
    "eta": [
        [*str.split("round min_gain floor noise_energy eta")],
        ["eta"],
        [*str.split("round eta noise_energy budget_left epsilon")],
    ],
    "gains": [["min_gain"], ["h2_1", "h2_2"], ["round", "h2_1", "h2_2"], ["h_1", "h_2"], ["", "min_gain"]],
    "stream": [["min_gain"], ["h2_1", "h2_2"], ["time", "h2_1", "h2_2"], ["h_1", "h_2"]],
}
NAMES = [*str.split("sigma rate steps eta min_gain h2_1 h2_2 h2_3 h_1 h2_01 round time floor snr Sigma ETA H2_1 1.5 #")]
NAMES += [" sigma", ""]
FIELDS = [
    *str.split(
        "1_0 0x10 0x1p3 \uff11 1,5 1,000 nan inf -1 0 -0.0 1e400 1e-400 1d3 1.5.2 1e +1.5 .5 5. True 1e-12 2 1;2"
    ),
    *str.split('1\0 "0.5" "0.5 1e-12+2e-12j 1e-12-1e-12 99999999999999999999 1\'000 1.000,5'),
    *("", " ", "1 000", "1 0", " 0.5 ", "0.5 # x", "3e-12 + 1e-12i", "\u00a01", "1\t2"),
]
DAMAGES = str.split(
    "rename double copy drop cut comma separator mixed encoding more fewer field blank comment savetxt "
    "ends quotes byte swap turn tail"
)


def value(draw, name, t):
    """A field that is right in its column."""
    if name in ("round", "time", "", "steps"):
        return str(t + 1)
    if name.startswith("h_"):
        return f"{draw(st.floats(1e-7, 1e-5))!r}{draw(st.sampled_from('+-'))}{draw(st.floats(1e-7, 1e-5))!r}j"
    low, high = {"rate": (0, 1), "sigma": (0.5, 50), "eta": (1e-12, 1e-11)}.get(name, (1e-12, 1e-9))
    return repr(draw(st.floats(low, high)))


@st.composite
def tables(draw, kind):
    """A table for a command as bytes, whole or with up to three damages."""
    names = list(draw(st.sampled_from(COLUMNS[kind])))
    rows = [[value(draw, name, t) for name in names] for t in range(draw(st.integers(1, 5)))]
    damages = draw(st.lists(st.sampled_from(DAMAGES), max_size=3, unique=True))
    i, t = draw(st.integers(0, len(names) - 1)), draw(st.integers(0, len(rows) - 1))
    table = [names, *rows]
    if "rename" in damages:
        names[i] = draw(st.sampled_from(NAMES))
    if "double" in damages or "copy" in damages:
        for row in table:
            row.append(row[i])
        if "copy" in damages:
            names[-1] = draw(st.sampled_from(NAMES))
    if "drop" in damages and len(names) > 1:
        for row in table:
            del row[i]
        i = 0
    if "turn" in damages:
        for row in table:
            row.reverse()
    if "swap" in damages:
        rows[0], rows[t] = rows[t], rows[0]
    if "field" in damages:
        rows[t][i] = draw(st.sampled_from(FIELDS))
    if "more" in damages:
        rows[t].insert(i, draw(st.sampled_from(["", "7", "0.5"])))
    if "fewer" in damages:
        del rows[t][i]
    if "tail" in damages:
        for row in table[draw(st.integers(0, 1)) :]:
            row.append("")
    if "comma" in damages:
        rows[:] = [[field.replace(".", ",") for field in row] for row in rows]
    if "quotes" in damages:
        table = [[f'"{field}"' for field in row] for row in [names, *rows]]
    else:
        table = [names, *rows]
    sign = draw(st.sampled_from([";", "\t", " ", ", ", "|", "  "])) if "separator" in damages else ","
    lines = [sign.join(row) for row in table]
    if "savetxt" in damages:
        lines[0] = f"# {lines[0]}"
    if "mixed" in damages:
        lines[t + 1] = lines[t + 1].replace(sign, draw(st.sampled_from([";", "\t", ",", " "])))
    if "blank" in damages:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", "  ", "\t"])))
    if "comment" in damages:
        comment = draw(st.sampled_from(["# x", " #1,2", "# \u00e9", "#h2_1,h2_2"]))
        lines.insert(draw(st.integers(0, len(lines))), comment)
    end = draw(st.sampled_from(["\r\n", "\r", "\n\n", ""])) if "ends" in damages else "\n"
    text = end.join(lines) + draw(st.sampled_from([end, end, end, ""]))
    codings = str.split("utf-8-sig utf-16 utf-16-le utf-32") if "encoding" in damages else ["utf-8"]
    data = text.encode(draw(st.sampled_from(codings)))
    place = draw(st.integers(0, len(data)))
    if "cut" in damages:
        data = data[:place]
    if "byte" in damages:
        byte = draw(st.sampled_from([b"\0", b"\xff", b",", b";", b"\n", b"\r", b'"', b"_", b"0"]))
        data = data[:place] + byte + data[place:]
    return data


# A plain reader, written from the description in the help alone -------------------------------------------------------

UNSIGNED = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = re.compile(rf"\s*([+-]?{UNSIGNED})\s*")
COMPLEX = re.compile(rf"\s*([+-]?{UNSIGNED})?\s*(?:([+-]?)\s*({UNSIGNED})\s*[ij])?\s*")
PLACES = ("round", "time", "index", "unnamed: 0", "")
KNOWN = {
    "rounds": ["sigma", "rate", "steps"],
    "gains": [],
    "stream": [],
    "eta": ["eta", "min_gain", "floor", "noise_energy", "budget_left", "epsilon"],
}


class Refused(Exception):
    """The plain reader does not understand this."""


def number(field):
    found = NUMBER.fullmatch(field)
    if not found or not np.isfinite(float(found[1])):
        raise Refused(field)
    return float(found[1])


def power(field):
    found = COMPLEX.fullmatch(field)
    if not found or not (found[1] or found[3]):
        raise Refused(field)
    return float(found[1] or 0) ** 2 + float(found[3] or 0) ** 2


def split(line, sign):
    """The fields of a line, in which quotes may stand around a whole field."""
    if sign == " ":
        return [field.strip('"') for field in line.split()]
    fields = [field.strip(" ") for field in line.split(sign)]
    return [field[1:-1] if len(field) > 1 and field[0] == field[-1] == '"' else field for field in fields]


def plain_lines(lines, kind):
    """From each line that is a row, its columns by name; Refused for what is none."""
    names, sign, comment, found = [], ",", "", {}
    for n, line in enumerate(lines, 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            comment = bare.lstrip("#") or comment
            continue
        if not names:
            numeric = comment and all(NUMBER.fullmatch(f) or COMPLEX.fullmatch(f) for f in re.split(r"[;,\s]+", bare))
            head = comment if numeric else line
            sign = next((each for each in ";\t, " if each in head.strip(" ")), ",")
            names = [name.strip().casefold() for name in split(head, sign)]
            wanted = [name for i, name in enumerate(names) if name not in PLACES or (i and name not in PLACES[:2])]
            gains = [["min_gain"], ["h2_1", "h2_2"], ["h_1", "h_2"]]
            known = not set(wanted) - set(KNOWN[kind]) if KNOWN[kind] else sorted(wanted) in gains
            if not known or len({*names}) < len(names):
                raise Refused(head)
            if not numeric:
                continue
        fields = split(line, sign)
        try:
            if len(fields) != len(names):
                raise Refused(line)
            row = dict(zip(names, fields, strict=True))
            found[n] = {
                name: (power if name.startswith("h_") else number)(row[name])
                for name in wanted
                if KNOWN[kind] == [] or name in ("sigma", "rate", "steps", "eta", "min_gain")
            }
        except Refused as error:
            found[n] = error
    return found


def plain(data, kind):
    """What the command has to compute with, an array; Refused if there is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused from error
    rows = list(plain_lines(re.split("\r\n|\r|\n", text), kind).values())
    if not rows or any(isinstance(row, Refused) for row in rows):
        raise Refused(rows)
    return computed(pd.DataFrame(rows), kind)


def computed(table, kind):
    if kind == "gains":
        return least(table)
    if kind == "rounds":
        if not {"sigma", "rate"} <= {*table} or not ((table.sigma > 0) & (table.rate >= 0) & (table.rate <= 1)).all():
            raise Refused
        steps = table.get("steps", pd.Series(1, table.index))
        if not ((steps >= 1) & (steps % 1 == 0)).all():
            raise Refused
        return np.repeat(table[["rate", "sigma"]].to_numpy().T, steps.astype(int), axis=1)
    if "eta" not in table or (table.eta < 0).any():
        raise Refused
    if "min_gain" in table and not (table.eta <= 1.001 * SMALL.x_max * table.min_gain).all():
        raise Refused
    return table.eta.to_numpy()[None]


def least(table):
    if not (table > 0).all(axis=None):
        raise Refused
    if "min_gain" in table:
        return table.min_gain.to_numpy()[None]
    return SMALL.min_gain(table[sorted(table)].to_numpy().T)[None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the commands run, with a scenario."""
    path = tmp_path_factory.mktemp("tables")
    (path / "my.toml").write_text(SMALL.to_toml())
    with contextlib.chdir(path):
        yield path


def command(*arguments, stdin=b""):
    """Exit code, standard output and error of a command, and the schedules that it accounted for."""
    out, err, seen = io.StringIO(), io.StringIO(), []

    def exact(rounds, delta):
        seen.append(np.repeat(rounds[:, :2].T, rounds[:, 2].astype(int), axis=1))
        return accounting.CertifiedInterval(1.0, 1.0, ("a", "b"), "add", 1.0, 1.0)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(accounting, "epsilon", exact)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(*arguments)
    return code, out.getvalue(), err.getvalue(), seen


def answer(folder, data, kind):
    """What a command computed with, as :func:`plain`, or the error that it gave."""
    (folder / "t.csv").write_bytes(data)
    if kind == "rounds":
        code, _, err, seen = command("epsilon", "t.csv")
    elif kind == "eta":
        code, _, err, seen = command("epsilon", "--scenario", "my.toml", "--eta", "t.csv")
        rates = np.array([0.05, 0.075])
        if seen:
            for sigma, q in zip(seen, rates, strict=True):
                np.testing.assert_array_equal(sigma[0], q * (sigma[0] > 0))
            batch = np.where(seen[0][0] > 0, 2 * 20 / np.where(seen[0][0] > 0, seen[0][1], 1), 0)  # M B / (G sigma)
            seen = [(SMALL.noise_scale / (2 * 1000) * batch**2)[None]]
    else:
        (folder / "o.csv").unlink(missing_ok=True)
        given = "schedule --scenario my.toml --gains t.csv --policy equalalloc --out o.csv --nu"
        code, _, err, seen = command(*given.split(), NU)
        assert (folder / "o.csv").exists() == (code == 0)
        seen = [pd.read_csv("o.csv", dtype=str).min_gain.astype(float).to_numpy()[None]] if code == 0 else []
    if code == 0:
        return seen[0], ""
    return None, err


def outcome(found, error, data, kind):
    """Whether a table was accepted, refused, or silently misread."""
    if found is None:
        [line] = [line for line in error.splitlines() if not line.startswith("note: ")]
        named = r"t\.csv(, line \d+: | is empty| has no rows|: expected a column rate)|--nu must be"
        assert re.match(rf"adascale \w+: error: ({named})", line), line
        return "refused"
    try:
        expected = plain(data, kind)
    except Refused:
        return "misread"
    good = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-12, atol=0)
    return "accepted" if good else "misread"


WHOLE = {
    "rounds": "sigma,rate\n1.5,0.1\n2,0.2\n",
    "eta": "round,eta\n0,1e-12\n1,0\n",
    "gains": "h2_1;h2_2\n1e-12;2e-12\n3e-12;4e-12\n",
}


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
@pytest.mark.parametrize("kind", WHOLE)
@given(drawn=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_tables_are_read_right_or_refused(folder, kind, drawn):
    data = drawn.draw(tables(kind))
    found = outcome(*answer(folder, data, kind), data, kind)
    event(found)
    assert found != "misread"


@given(tables("stream"))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_stream_answers_lines_right_or_refuses_them(folder, data):
    """Each line has its answer, that of its gain alone under EqualAlloc, or an error with its number."""
    (folder / "s").unlink(missing_ok=True)
    given = "stream --scenario my.toml --state s --policy equalalloc --nu"
    _, out, err, _ = command(*given.split(), NU, stdin=data)
    etas = [float(line.split(",")[1]) for line in out.splitlines()[1:] if not line.startswith("error,")]
    numbers = {int(n) for n in re.findall(r"standard input, line (\d+): (?!'.*more power)", err)}
    event("answered" if etas else "refused")
    lines = [
        line.decode("utf-8-sig" if not n else "utf-8", "replace").rstrip("\r")
        for n, line in enumerate(data.split(b"\n")[:-1])  # a line without line break is none
    ]
    try:
        found = plain_lines(lines, "stream")
    except Refused as error:
        found = {1: error}
    assert etas or err or not found
    rows = {n: row for n, row in found.items() if n not in numbers}
    assert not etas or not any(isinstance(row, Refused) for row in rows.values())
    if not etas:
        return
    gains = np.array([least(pd.DataFrame([row]))[0, 0] for row in rows.values()])
    expected = SMALL.noise_scale / (SMALL.noise_scale / (SMALL.x_max * gains) + NU)
    np.testing.assert_allclose(etas, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
def test_whole_table_is_accepted_and_one_read_as_another_is_noticed(folder):
    for kind, text in WHOLE.items():
        found, error = answer(folder, text.encode(), kind)
        assert outcome(found, error, text.encode(), kind) == "accepted"
        assert outcome(found[:, ::-1], error, text.encode(), kind) == "misread"
        assert outcome(found, error, text.replace("1", "1_0").encode(), kind) == "misread"
