"""Measured gains: every accepted form gives the same numbers, and a damaged file is refused with its line."""

import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario
from adascale.channel import GainLines, Reading, read_gains
from adascale.errors import InvalidFile, InvalidInput

TWO = Scenario("two", 2, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)
GAINS = np.array([[1e-10, 2.5e-10], [3e-11, 1 / 3e9], [4e-12, 7e-9]])  # a row a round


def read(tmp_path, content, scenario=TWO, **options):
    path = tmp_path / "trace"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_gains(path, scenario, **options)


def by_line(text, scenario=TWO, **options):
    """The gain, the number and the notes of each line, and the lines that are refused."""
    lines, found, refused = GainLines("here", scenario, **options), [], []
    for line in text.removesuffix("\n").encode().split(b"\n"):
        try:
            if trace := lines.trace(line):
                found.append((float(trace.min_gain[0]), lines.place.get("round"), trace.notes))
        except InvalidFile as error:
            refused.append(error.line)
            if not lines.columns:
                break
    return found, refused


def assert_is(trace, gains, scenario=TWO):
    """The trace of these gains, bit for bit."""
    moment = scenario.batch_second_moment
    assert trace.min_gain.tolist() == (gains / moment).min(axis=1).tolist()
    assert trace.mean_gain.tolist() == (np.ascontiguousarray(gains.T).mean(axis=1) / moment).tolist()


def table(names="h2_1,h2_2"):
    return "".join([names, "\n", *(f"{a!r},{b!r}\n" for a, b in GAINS.tolist())])


FRAME = pd.DataFrame(GAINS, columns=["h2_1", "h2_2"])
FORMS = {
    "capitals": table("H2_1,H2_2"),
    "comments": "# from the roof\n" + table().replace("\n", "\n# é, ü\n"),
    "blank lines": "\n\n" + table().replace("\n", "\n \n"),
    "pandas twice": FRAME.reset_index().rename(columns={"index": "Unnamed: 0"}).to_csv(index=False),
    "pandas with dates": FRAME.set_index(pd.date_range("2024-01-01", periods=3)).to_csv(),
    "times": FRAME.assign(Time=[0.5, 0.75, 4]).to_csv(index=False),
    "times of day": FRAME.assign(time=["12:00", "12:01", "12:02"]).to_csv(index=False),
    "R": '"","h2_1","h2_2"\n' + "".join(f'"{t}",{a!r},{b!r}\n' for t, (a, b) in enumerate(GAINS.tolist(), 1)),
    "numpy.savetxt": table("# h2_1,h2_2"),
}


@pytest.mark.parametrize("form", FORMS)
def test_read_gains_reads_common_forms_to_the_same_bits(tmp_path, form):
    assert_is(read(tmp_path, FORMS[form]), GAINS)
    found, refused = by_line(FORMS[form])
    assert [least for least, *_ in found] == (GAINS / TWO.batch_second_moment).min(axis=1).tolist()
    assert not refused or form == "blank lines"  # where a gain may be missing


def test_complex_coefficients_are_squared(tmp_path):
    h = np.array([[3e-5 + 4e-5j, 1e-5j], [-2e-6 - 1e-6j, 7e-5 + 0j]])
    power = h.real**2 + h.imag**2
    assert_is(read(tmp_path, pd.DataFrame(h, columns=["h_1", "h_2"]).to_csv()), power)
    matlab = "h_1,h_2\n0.00003 + 0.00004i,0+1e-5i\n-2e-6-1e-6i,7e-5\n"
    least = (power / TWO.batch_second_moment).min(axis=1)
    np.testing.assert_allclose(read(tmp_path, matlab).min_gain, least, rtol=1e-15)
    assert by_line("h_1,h_2\n3+4j,5j\n")[0][0][0] == 25 / TWO.batch_second_moment


def test_minimum_alone_has_no_mean(tmp_path):
    for content in ("min_gain\n1e-10\n2e-10\n", ",min_gain\n0,1e-10\n1,2e-10\n"):
        trace = read(tmp_path, content)
        assert (trace.min_gain.tolist(), trace.mean_gain) == ([1e-10, 2e-10], None)


def test_first_gain_above_one_is_named_with_its_row(tmp_path):
    """It is read all the same: gains may be relative, with powers to fit."""
    for content, unit, place in (
        ("h2_1,h2_2\n1e-9,1e-10\n0.5,1.5\n2,2\n", "linear", "line 3: '1.5' in h2_2"),
        ("min_gain\n-70\n# x\n78.5\n", "db", "line 4: '78.5' in min_gain"),  # a path loss, not a gain
        ("h_1,h_2\n0.1,1j\n0.1,1+1j\n", "linear", "line 3: '1+1j' in h_2"),
    ):
        assert read(tmp_path, content, unit=unit).notes[0].startswith(f"{tmp_path / 'trace'}, {place}")
        noted = [note for *_, notes in by_line(content, unit=unit)[0] for note in notes]
        assert noted[0].startswith(f"here, {place}")
    for content, unit in ((table(), "linear"), ("h2_1,h2_2\n1,0.9999\n", "linear"), ("min_gain\n0\n-3\n", "db")):
        assert read(tmp_path, content, unit=unit).notes == ()


def test_refused_row_leaves_no_trace_and_rounds_keep_their_numbers():
    sent = "time,h2_1,h2_2\n1,1e-9,1e-9\n9,0,1e-9\n2,1e-9,1e-9\n2,1e-9,1e-9\n1.5,1e-9,1e-9\n3,1e-9,1e-9\n"
    found, refused = by_line(sent)
    assert (len(found), refused) == (4, [3, 6])  # the same time twice is a line that was sent again
    found, refused = by_line("round,min_gain\n7,1e-9\n7,1e-9\n3,1e-9\nx,1e-9\n")
    assert ([number for _, number, _ in found], refused) == ([7, 7, 3], [5])
    assert by_line("min_gain\n1e-9\n")[0][0][1] is None


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


SENT, LEAST = 23.0, 1e-16
UNITS = {
    "linear": lambda gain: gain,
    "db": lambda gain: 10 * np.log10(gain),
    "dbm": lambda gain: SENT + 10 * np.log10(gain),
    "csi": lambda gain: np.sqrt(gain) * np.exp(1j * np.log(gain)),  # of any phase
}


def shown(value):
    return "" if np.isnan(value) else repr(complex(value)).strip("()") if np.iscomplexobj(value) else repr(float(value))


def in_form(form, values, names, draw):
    """The values, a row per round and NaN where one is missing, in one of the forms of a file."""
    rounds, devices = values.shape
    if form == "array":
        return saved(np.array(values.T, order=draw(st.sampled_from("CF"))))
    if form == "table":
        columns, first = draw(st.permutations(range(devices))), draw(st.integers(-3, 3))
        rows = [["round", *(names[m] for m in columns)]]
        rows += [[str(first + t), *(shown(values[t, m]) for m in columns)] for t in range(rounds)]
        if draw(st.booleans()):  # as pandas and R write it
            rows = [[str(t - 1) * (t > 0), *row] for t, row in enumerate(rows)]
    else:
        at = [7 + t if form == "round" else 1.5 * t**2 for t in range(rounds)]
        order = draw(st.permutations([m for m in range(devices) for _ in at]))  # each link's rounds rise, links mix
        cells = [(order[:i].count(m), m) for i, m in enumerate(order)]
        inner = [(t, m) for t, m in cells if np.isnan(values[t, m]) and 0 < t < rounds - 1 and form == "round"]
        absent = draw(st.sets(st.sampled_from(inner))) if inner else set()
        rows = [[form, "value", "link"]]
        rows += [[str(at[t]), shown(values[t, m]), f"node{m + 8}"] for t, m in cells if (t, m) not in absent]
    field, sign = draw(st.sampled_from(["{}", '"{}"', " {} "])), draw(st.sampled_from(",;\t"))
    lines = [sign.join(map(field.format, row)) for row in rows]
    lines = [line for each in lines for line in (each, *draw(st.lists(st.sampled_from(["# 1,2", "  "]), max_size=1)))]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return draw(st.sampled_from(["", "\ufeff"])) + end.join(lines) + draw(st.sampled_from(["", end]))


def filled_by_loop(column, gaps):
    """The gains of a link, with NaN where none is known."""
    last, found = math.nan, []
    for each in column:
        last = each if each == each else last
        found.append(each if each == each else {"refuse": math.nan, "hold": last, "floor": LEAST}[gaps])
    return found


@st.composite
def traces(draw):
    devices, rounds = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    entry = st.one_of(st.just(math.nan), st.floats(-15, -0.01).map(lambda power: 10**power))
    gains = np.array(draw(st.lists(entry, min_size=devices * rounds, max_size=devices * rounds)))
    return gains.reshape(rounds, devices)


@given(traces(), st.sampled_from(["table", "array", "round", "time"]), st.sampled_from([*UNITS]), st.data())
def test_a_trace_is_the_same_in_every_form_and_unit(tmp_path_factory, gains, form, unit, data):
    """Against loops over the gains; a linear one has the same bits."""
    rounds, devices = gains.shape
    power = tuple(0.2 / m for m in range(1, devices + 1))  # each device has a limit of its own
    scenario = replace(TWO, num_devices=devices, batch_size=tuple(range(5, 5 + devices)), max_power=power)
    stem = {"dbm": data.draw(st.sampled_from(["rssi ", "AP"])), "csi": "h_"}.get(unit, "h2_")
    gaps = data.draw(st.sampled_from(["refuse", "hold", "floor"]))
    with np.errstate(invalid="ignore"):
        content = in_form(form, UNITS[unit](gains), [f"{stem}{m + 1}" for m in range(devices)], data.draw)
    how = {"unit": unit, "gaps": gaps, "transmit_power": SENT if unit == "dbm" else None}
    how = Reading(**how, sensitivity=abs(UNITS[unit](LEAST)) * (-1) ** ("d" in unit) if gaps == "floor" else None)
    wanted = np.array([filled_by_loop(column, gaps) for column in gains.T.tolist()])
    folder = tmp_path_factory.mktemp("trace")
    if np.isnan(wanted).any():
        with pytest.raises(InvalidFile, match="expected a value, got"):
            read(folder, content, scenario, unit=how)
        return
    start = data.draw(st.integers(0, rounds - 1))
    trace = read(folder, content, scenario, unit=how, split=start / rounds if start else None)
    exact = 0 if unit == "linear" else 1e-12
    for found, part in ((trace, wanted[:, start:]), (trace.past, wanted[:, :start])):
        if found is not None:
            scaled = part * (np.array(power) / 0.2)[:, None] / scenario.batch_second_moment[:, None]
            np.testing.assert_allclose(found.min_gain, scaled.min(axis=0), rtol=exact)
            np.testing.assert_allclose(found.mean_gain, scaled.mean(axis=1), rtol=1e-12)
            np.testing.assert_allclose(found.gain, part, rtol=exact)
    assert (trace.past is None) == (start == 0)
    assert any("values are missing" in note for note in trace.notes) == bool(np.isnan(gains).any())
    if form == "table":
        content = "\n".join(line for line in content.splitlines() if line.strip())
        lines, refused = by_line(content, scenario, unit=how)
        assert ([least for least, *_ in lines][start:], refused) == (trace.min_gain.tolist(), [])


HELD, DBM = Reading(gaps="hold"), Reading("dbm", SENT)
HUGE = "1" * 200_000
# how a file is read, the line that is wrong (None: the whole file), and contents
REFUSED = [
    (Reading(), None, ["", "# h2_1,h2_2\n\n", "h2_1,h2_2\n# none\n", "link,round,value\na,0,1\nb,0,1\na,2,1\n"]),
    # arrays of other shapes, with a zero or a gap, with bytes after it, of objects, cut off, empty
    (Reading(), None, [*map(saved, (GAINS, [[1, 1], [1, 0]], [[1, np.nan], [1, 1]], [[{}, {}]] * 2, np.ones((2, 0))))]),
    (Reading(), None, [saved(GAINS.T) + b"x", saved(GAINS.T)[:-1]]),
    (Reading(), None, [saved(GAINS.T).replace(b"(2, 3), }" + b" " * 13, b"(2, %d), }" % 10**13)]),
    # names of columns: none, unknown, nameless, of two kinds, counted from 0, too few, twice
    (Reading(), 1, ["1e-10,2e-10\n", "h2_1,h2_2,snr\n1,1,1\n", "h2_1,h2_2,\n1,1,\n", "min_gain,h2_1,h2_2\n1,1,1\n"]),
    (Reading(), 1, ["h2_1,h_2\n1,1\n", "h2_0,h2_1\n1,1\n", "h2_1\n1\n", "round\n1\n", "h2_1,h2_1\n1,1\n"]),
    # decimal commas, thousands, other digits, zero bytes, overflows, huge fields, open quotes, zeros, decibels
    (Reading(), 2, ["h2_1,h2_2\n0,1,0,2\n", 'h2_1,h2_2\n"1,000",1\n', "min_gain\n\uff11\n", "min_gain\n1\0\n"]),
    (Reading(), 2, ["min_gain\n1_0\n", "min_gain\n1e400\n", f"min_gain\n{HUGE}\n", f'min_gain\n"{HUGE}"\n']),
    (Reading(), 2, ['min_gain\n"1\n2\n', "h_1,h_2\n1,0+0j\n", "min_gain\n-98.5\n", "round,min_gain\nx,1\n"]),
    # short rows, gaps, zeros, infinities, rounds out of order or twice, other encodings, impossible gains
    (Reading(), 3, ["h2_1,h2_2\n1,1\n1\n", "h2_1,h2_2\n1,1\n1,\n", "h2_1,h2_2\n1,1\nNaN,1\n", "min_gain\n1\n\n1\n"]),
    (Reading(), 3, ["h2_1,h2_2\n1,1\n1,0\n", "h2_1,h2_2\n1,1\ninf,1\n", "round,min_gain\n1,1\n1,1\n"]),
    (
        Reading(),
        3,
        ["time,min_gain\n2.5,1\n2,1\n", b"min_gain\n1\n# \xfc", "min_gain\n1\n1e-40\n", "min_gain\n1\n1e10\n"],
    ),
    (Reading(), 5, ["h2_1,h2_2\n# x\n\n1,1\n1,1,1\n"]),
    # received powers: impossible, missing, too many, nameless; complex coefficients by other names; too large decibels
    (DBM, 3, ["a,b\n-60,-70\n-61,0\n", "a,b\n-60,-70\n-61,71\n", "a,b\n-60,-70\n-61,\n"]),
    (DBM, 1, ["a,b,c\n-60,-70,-70\n", "-60,-70\n-61,-71\n", "min_gain\n-60\n"]),
    (DBM, None, [saved(np.ones((2, 2), complex))]),
    (Reading("dbm", SENT, "floor", -98), 2, ["a,b\n-60,-99\n"]),
    (Reading("csi"), 1, ["h2_1,h2_2\n1,1\n"]),
    (Reading("db"), 1, ["h_1,h_2\n1,1\n"]),
    (Reading("db"), 2, ["min_gain\n1e5\n"]),
    # long forms: no earlier value, zeros, rounds that come again, are not whole, or are too many, other columns
    (HELD, None, ["link,time,value\na,.5,1\nb,.7,1\n"]),
    (HELD, 1, ["link,round,time,value\na,0,1,1\n"]),
    (HELD, 2, ["h2_1,h2_2\n1,\n1,1\n", "link,time,value\na,inf,1\nb,1,1\n"]),
    (HELD, 3, ["link,round,value\na,0,1\nb,0.5,1\n", "link,round,value\na,0,1\nb,1e12,1\n"]),
    (HELD, 4, ["link,round,value\na,0,1\nb,0,1\na,0,1\n", "link,round,value\na,0,1\nb,0,1\nc,0,1\n"]),
    (HELD, 5, ["link,round,value\na,0,1\nb,0,1\na,1,1\nb,1,0\n"]),
]


@pytest.mark.parametrize(("how", "line", "contents"), REFUSED)
def test_wrong_value_is_refused_with_its_line(tmp_path, how, line, contents):
    for content in contents:
        with pytest.raises(InvalidFile) as error:
            read(tmp_path, content, unit=how)
        assert (error.value.path, error.value.line) == (str(tmp_path / "trace"), line), content[:40]
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < len(str(tmp_path)) + 300
        plain = isinstance(content, str) and how in (Reading(), Reading("db"))
        if plain and line and content[:5] not in ("link,", "round"):  # a line has no order
            assert line in by_line(content, unit=how)[1]


WRONG = [("unit", {"unit": "watt"}), ("gaps", {"gaps": "guess"}), ("transmit_power", {"unit": "dbm"})]
WRONG += [("transmit_power", {"transmit_power": 1}), ("transmit_power", {"unit": "dbm", "transmit_power": math.nan})]
WRONG += [("sensitivity", how) for how in ({"gaps": "floor"}, {"sensitivity": 1}, {"gaps": "hold", "sensitivity": 1})]
WRONG += [("sensitivity", {"gaps": "floor", "sensitivity": -90})]


def test_option_without_effect_or_value_is_refused(tmp_path):
    for argument, how in WRONG:
        with pytest.raises(ValueError, match=argument):
            Reading(**how)
    for split in (0, 1, 0.99, math.nan):  # which leaves no round on one side
        with pytest.raises(InvalidInput, match="split"):
            read(tmp_path, table(), split=split)


LONG = "link,round,value\na,0,1e-9\nb,0,1e-10\na,1,1e-9\nb,1,1e-10\n"
DAMAGE = st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=3))
RANDOM = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=100).map(lambda tail: saved(GAINS.T)[:80] + tail),
    st.text(alphabet='h2_1,;\t \n"#.0eE+-jinfaround', max_size=60).map(str.encode),
)


@given(st.sampled_from([*FORMS.values(), LONG]), st.lists(DAMAGE, min_size=1, max_size=3), st.none() | RANDOM)
def test_damaged_file_is_refused_in_one_line_or_is_a_trace(tmp_path_factory, text, damages, other):
    """What is read is a trace that can be computed with; all else is an error of one line with the file's name."""
    content = text.encode()
    for place, removed, inserted in damages:
        start = int(place * len(content))
        content = content[:start] + inserted + content[start + removed :]
    content, folder = content if other is None else other, tmp_path_factory.mktemp("trace")
    try:
        trace = read(folder, content)
    except InvalidFile as error:
        assert str(folder / "trace") in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
        return
    low, high = TWO.gain_limits
    assert trace.min_gain.ndim == 1
    assert ((trace.min_gain >= low) & (trace.min_gain <= high)).all()
    if trace.mean_gain is not None:
        assert trace.mean_gain.shape == (2,)
        assert all(math.isfinite(each) and each > 0 for each in trace.mean_gain)
