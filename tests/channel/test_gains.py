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
                found.append(
                    (float(trace.min_gain[0]), lines.place.get("round"), trace.notes)
                )
        except InvalidFile as error:
            refused.append(error.line)
            if not lines.columns:
                break
    return found, refused


def assert_is(trace, gains, scenario=TWO):
    """The trace of these gains, bit for bit."""
    moment = scenario.batch_second_moment
    assert trace.min_gain.tolist() == (gains / moment).min(axis=1).tolist()
    assert (
        trace.mean_gain.tolist()
        == (np.ascontiguousarray(gains.T).mean(axis=1) / moment).tolist()
    )


def table(names="h2_1,h2_2"):
    return "".join([names, "\n", *(f"{a!r},{b!r}\n" for a, b in GAINS.tolist())])


FRAME = pd.DataFrame(GAINS, columns=["h2_1", "h2_2"])
FORMS = {
    "capitals": table("H2_1,H2_2"),
    "comments": "# from the roof\n" + table().replace("\n", "\n# é, ü\n"),
    "blank lines": "\n\n" + table().replace("\n", "\n \n"),
    "pandas twice": FRAME.reset_index()
    .rename(columns={"index": "Unnamed: 0"})
    .to_csv(index=False),
    "pandas with dates": FRAME.set_index(
        pd.date_range("2024-01-01", periods=3)
    ).to_csv(),
    "times": FRAME.assign(Time=[0.5, 0.75, 4]).to_csv(index=False),
    "times of day": FRAME.assign(time=["12:00", "12:01", "12:02"]).to_csv(index=False),
    "R": '"","h2_1","h2_2"\n'
    + "".join(f'"{t}",{a!r},{b!r}\n' for t, (a, b) in enumerate(GAINS.tolist(), 1)),
    "numpy.savetxt": table("# h2_1,h2_2"),
}


@pytest.mark.parametrize("form", FORMS)
def test_read_gains_reads_common_forms_to_the_same_bits(tmp_path, form):
    assert_is(read(tmp_path, FORMS[form]), GAINS)
    found, refused = by_line(FORMS[form])
    assert [least for least, *_ in found] == (GAINS / TWO.batch_second_moment).min(
        axis=1
    ).tolist()
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
        (
            "min_gain\n-70\n# x\n78.5\n",
            "db",
            "line 4: '78.5' in min_gain",
        ),  # a path loss, not a gain
        ("h_1,h_2\n0.1,1j\n0.1,1+1j\n", "linear", "line 3: '1+1j' in h_2"),
    ):
        assert (
            read(tmp_path, content, unit=unit)
            .notes[0]
            .startswith(f"{tmp_path / 'trace'}, {place}")
        )
        noted = [note for *_, notes in by_line(content, unit=unit)[0] for note in notes]
        assert noted[0].startswith(f"here, {place}")
    for content, unit in (
        (table(), "linear"),
        ("h2_1,h2_2\n1,0.9999\n", "linear"),
        ("min_gain\n0\n-3\n", "db"),
    ):
        assert read(tmp_path, content, unit=unit).notes == ()


def test_refused_row_leaves_no_trace_and_rounds_keep_their_numbers():
    sent = "time,h2_1,h2_2\n1,1e-9,1e-9\n9,0,1e-9\n2,1e-9,1e-9\n2,1e-9,1e-9\n1.5,1e-9,1e-9\n3,1e-9,1e-9\n"
    found, refused = by_line(sent)
    assert (len(found), refused) == (
        4,
        [3, 6],
    )  # the same time twice is a line that was sent again
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
    return (
        ""
        if np.isnan(value)
        else repr(complex(value)).strip("()")
        if np.iscomplexobj(value)
        else repr(float(value))
    )


def in_form(form, values, names, draw):
    """The values, a row per round and NaN where one is missing, in one of the forms of a file."""
    rounds, devices = values.shape
    if form == "array":
        return saved(np.array(values.T, order=draw(st.sampled_from("CF"))))
    if form == "table":
        columns, first = draw(st.permutations(range(devices))), draw(st.integers(-3, 3))
        rows = [["round", *(names[m] for m in columns)]]
        rows += [
            [str(first + t), *(shown(values[t, m]) for m in columns)]
            for t in range(rounds)
        ]
        if draw(st.booleans()):  # as pandas and R write it
            rows = [[str(t - 1) * (t > 0), *row] for t, row in enumerate(rows)]
    else:
        at = [7 + t if form == "round" else 1.5 * t**2 for t in range(rounds)]
        order = draw(
            st.permutations([m for m in range(devices) for _ in at])
        )  # each link's rounds rise, links mix
        cells = [(order[:i].count(m), m) for i, m in enumerate(order)]
        inner = [
            (t, m)
            for t, m in cells
            if np.isnan(values[t, m]) and 0 < t < rounds - 1 and form == "round"
        ]
        absent = draw(st.sets(st.sampled_from(inner))) if inner else set()
        rows = [[form, "value", "link"]]
        rows += [
            [str(at[t]), shown(values[t, m]), f"node{m + 8}"]
            for t, m in cells
            if (t, m) not in absent
        ]
    field, sign = (
        draw(st.sampled_from(["{}", '"{}"', " {} "])),
        draw(st.sampled_from(",;\t")),
    )
    lines = [sign.join(map(field.format, row)) for row in rows]
    lines = [
        line
        for each in lines
        for line in (
            each,
            *draw(st.lists(st.sampled_from(["# 1,2", "  "]), max_size=1)),
        )
    ]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return (
        draw(st.sampled_from(["", "\ufeff"]))
        + end.join(lines)
        + draw(st.sampled_from(["", end]))
    )


def filled_by_loop(column, gaps):
    """The gains of a link, with NaN where none is known."""
    last, found = math.nan, []
    for each in column:
        last = each if each == each else last
        found.append(
            each
            if each == each
            else {"refuse": math.nan, "hold": last, "floor": LEAST}[gaps]
        )
    return found


def too_many_by_loop(columns, most):
    """Whether more than this share of the values is missing, or twice this share of those of one link."""
    lost = [sum(each != each for each in column) for column in columns]
    size = len(columns[0])
    return sum(lost) > most * size * len(columns) or max(lost) > 2 * most * size


@st.composite
def traces(draw):
    devices, rounds = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    entry = st.one_of(
        st.just(math.nan), st.floats(-15, -0.01).map(lambda power: 10**power)
    )
    gains = np.array(
        draw(st.lists(entry, min_size=devices * rounds, max_size=devices * rounds))
    )
    return gains.reshape(rounds, devices)


@given(
    traces(),
    st.sampled_from(["table", "array", "round", "time"]),
    st.sampled_from([*UNITS]),
    st.data(),
)
def test_a_trace_is_the_same_in_every_form_and_unit(
    tmp_path_factory, gains, form, unit, data
):
    """Against loops over the gains; a linear one has the same bits."""
    rounds, devices = gains.shape
    power = tuple(
        0.2 / m for m in range(1, devices + 1)
    )  # each device has a limit of its own
    scenario = replace(
        TWO,
        num_devices=devices,
        batch_size=tuple(range(5, 5 + devices)),
        max_power=power,
    )
    stem = {"dbm": data.draw(st.sampled_from(["rssi ", "AP"])), "csi": "h_"}.get(
        unit, "h2_"
    )
    gaps = data.draw(st.sampled_from(["refuse", "hold", "floor"]))
    with np.errstate(invalid="ignore"):
        content = in_form(
            form,
            UNITS[unit](gains),
            [f"{stem}{m + 1}" for m in range(devices)],
            data.draw,
        )
    how = {
        "unit": unit,
        "gaps": gaps,
        "transmit_power": SENT if unit == "dbm" else None,
    }
    most = None if gaps == "refuse" else data.draw(st.sampled_from([None, 0.3, 0.6]))
    least = abs(UNITS[unit](LEAST)) * (-1) ** ("d" in unit) if gaps == "floor" else None
    how = Reading(**how, sensitivity=least, max_gaps=most)
    wanted = np.array([filled_by_loop(column, gaps) for column in gains.T.tolist()])
    folder, start = (
        tmp_path_factory.mktemp("trace"),
        data.draw(st.integers(0, rounds - 1)),
    )
    split, most = start / rounds if start else None, 0.1 if most is None else most
    parts = [gains[:start], gains[start:]] if start else [gains]
    if np.isnan(wanted).any() or any(
        too_many_by_loop(part.T.tolist(), most) for part in parts
    ):
        with pytest.raises(InvalidFile, match="expected a value, got"):
            read(folder, content, scenario, unit=how, split=split)
        return
    trace = read(folder, content, scenario, unit=how, split=split)
    exact = 0 if unit == "linear" else 1e-12
    for found, part in ((trace, wanted[:, start:]), (trace.past, wanted[:, :start])):
        if found is not None:
            scaled = (
                part
                * (np.array(power) / 0.2)[:, None]
                / scenario.batch_second_moment[:, None]
            )
            np.testing.assert_allclose(found.min_gain, scaled.min(axis=0), rtol=exact)
            np.testing.assert_allclose(found.mean_gain, scaled.mean(axis=1), rtol=1e-12)
            np.testing.assert_allclose(found.gain, part, rtol=exact)
    assert (trace.past is None) == (start == 0)
    assert any("values are missing" in note for note in trace.notes) == bool(
        np.isnan(gains).any()
    )
    if form == "table":
        content = "\n".join(line for line in content.splitlines() if line.strip())
        lines, refused = by_line(content, scenario, unit=how)
        assert ([least for least, *_ in lines][start:], refused) == (
            trace.min_gain.tolist(),
            [],
        )


HELD, DBM = Reading(gaps="hold"), Reading("dbm", SENT)
HUGE = "1" * 200_000
# how a file is read, the line that is wrong (None: the whole file), and contents
REFUSED = [
    (
        Reading(),
        None,
        [
            "",
            "# h2_1,h2_2\n\n",
            "h2_1,h2_2\n# none\n",
            "link,round,value\na,0,1\nb,0,1\na,2,1\n",
        ],
    ),
    # arrays of other shapes, with a zero or a gap, with bytes after it, of objects, cut off, empty
    (
        Reading(),
        None,
        [
            *map(
                saved,
                (
                    GAINS,
                    [[1, 1], [1, 0]],
                    [[1, np.nan], [1, 1]],
                    [[{}, {}]] * 2,
                    np.ones((2, 0)),
                ),
            )
        ],
    ),
    (Reading(), None, [saved(GAINS.T) + b"x", saved(GAINS.T)[:-1]]),
    (
        Reading(),
        None,
        [saved(GAINS.T).replace(b"(2, 3), }" + b" " * 13, b"(2, %d), }" % 10**13)],
    ),
    # names of columns: none, unknown, nameless, of two kinds, counted from 0, too few, twice
    (
        Reading(),
        1,
        [
            "1e-10,2e-10\n",
            "h2_1,h2_2,snr\n1,1,1\n",
            "h2_1,h2_2,\n1,1,\n",
            "min_gain,h2_1,h2_2\n1,1,1\n",
        ],
    ),
    (
        Reading(),
        1,
        [
            "h2_1,h_2\n1,1\n",
            "h2_0,h2_1\n1,1\n",
            "h2_1\n1\n",
            "round\n1\n",
            "h2_1,h2_1\n1,1\n",
        ],
    ),
    # decimal commas, thousands, other digits, zero bytes, overflows, huge fields, open quotes, zeros, decibels
    (
        Reading(),
        2,
        [
            "h2_1,h2_2\n0,1,0,2\n",
            'h2_1,h2_2\n"1,000",1\n',
            "min_gain\n\uff11\n",
            "min_gain\n1\0\n",
        ],
    ),
    (
        Reading(),
        2,
        [
            "min_gain\n1_0\n",
            "min_gain\n1e400\n",
            f"min_gain\n{HUGE}\n",
            f'min_gain\n"{HUGE}"\n',
        ],
    ),
    (
        Reading(),
        2,
        [
            'min_gain\n"1\n2\n',
            "h_1,h_2\n1,0+0j\n",
            "min_gain\n-98.5\n",
            "round,min_gain\nx,1\n",
        ],
    ),
    # short rows, gaps, zeros, infinities, rounds out of order or twice, other encodings, impossible gains
    (
        Reading(),
        3,
        [
            "h2_1,h2_2\n1,1\n1\n",
            "h2_1,h2_2\n1,1\n1,\n",
            "h2_1,h2_2\n1,1\nNaN,1\n",
            "min_gain\n1\n\n1\n",
        ],
    ),
    (
        Reading(),
        3,
        [
            "h2_1,h2_2\n1,1\n1,0\n",
            "h2_1,h2_2\n1,1\ninf,1\n",
            "round,min_gain\n1,1\n1,1\n",
        ],
    ),
    (
        Reading(),
        3,
        [
            "time,min_gain\n2.5,1\n2,1\n",
            b"min_gain\n1\n# \xfc",
            "min_gain\n1\n1e-40\n",
            "min_gain\n1\n1e10\n",
        ],
    ),
    (Reading(), 5, ["h2_1,h2_2\n# x\n\n1,1\n1,1,1\n"]),
    # received powers: impossible, missing, too many, nameless; complex coefficients by other names; too large decibels
    (
        DBM,
        3,
        ["a,b\n-60,-70\n-61,0\n", "a,b\n-60,-70\n-61,71\n", "a,b\n-60,-70\n-61,\n"],
    ),
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
    (
        HELD,
        3,
        ["link,round,value\na,0,1\nb,0.5,1\n", "link,round,value\na,0,1\nb,1e12,1\n"],
    ),
    (
        HELD,
        4,
        [
            "link,round,value\na,0,1\nb,0,1\na,0,1\n",
            "link,round,value\na,0,1\nb,0,1\nc,0,1\n",
        ],
    ),
    (HELD, 5, ["link,round,value\na,0,1\nb,0,1\na,1,1\nb,1,0\n"]),
]


@pytest.mark.parametrize(("how", "line", "contents"), REFUSED)
def test_wrong_value_is_refused_with_its_line(tmp_path, how, line, contents):
    for content in contents:
        with pytest.raises(InvalidFile) as error:
            read(tmp_path, content, unit=how)
        assert (error.value.path, error.value.line) == (
            str(tmp_path / "trace"),
            line,
        ), content[:40]
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < len(str(tmp_path)) + 300
        plain = isinstance(content, str) and how in (Reading(), Reading("db"))
        if (
            plain and line and content[:5] not in ("link,", "round")
        ):  # a line has no order
            assert line in by_line(content, unit=how)[1]


WRONG = [
    ("unit", {"unit": "watt"}),
    ("gaps", {"gaps": "guess"}),
    ("transmit_power", {"unit": "dbm"}),
]
WRONG += [
    ("transmit_power", {"transmit_power": 1}),
    ("transmit_power", {"unit": "dbm", "transmit_power": math.nan}),
]
WRONG += [
    ("sensitivity", how)
    for how in (
        {"gaps": "floor"},
        {"sensitivity": 1},
        {"gaps": "hold", "sensitivity": 1},
    )
]
WRONG += [("sensitivity", {"gaps": "floor", "sensitivity": -90})]
WRONG += [
    ("max_gaps", {"gaps": "hold", "max_gaps": each}) for each in (-0.1, 1, math.nan)
] + [("max_gaps", {"max_gaps": 0.2})]
WRONG += [("round_time", {"round_time": each}) for each in (0, -1, math.nan, math.inf)]


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


@given(
    st.sampled_from([*FORMS.values(), LONG]),
    st.lists(DAMAGE, min_size=1, max_size=3),
    st.none() | RANDOM,
)
def test_damaged_file_is_refused_in_one_line_or_is_a_trace(
    tmp_path_factory, text, damages, other
):
    """What is read is a trace that can be computed with; all else is an error of one line with the file's name."""
    content = text.encode()
    for place, removed, inserted in damages:
        start = int(place * len(content))
        content = content[:start] + inserted + content[start + removed :]
    content, folder = (
        content if other is None else other,
        tmp_path_factory.mktemp("trace"),
    )
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


# What a file is taken for ------------------------------------------------------------------------------------------

SITE = replace(TWO, num_devices=4, num_rounds=60)
NAMES = ["UE1", "UE2", "UE3", "UE10"]
FAR = {"unit": "dbm", "transmit_power": SENT}


def aligned(rounds=60, lost=(), seed=0):
    """Received powers in dBm, a row a round, with NaN where one is lost."""
    value = (
        np.random.default_rng(seed)
        .normal([-80, -90, -85, -100], 6, (rounds, 4))
        .round(2)
    )
    for t, m in lost:
        value[t, m] = math.nan
    return value


def long_form(value, when, name="time"):
    """A row a value that is there; ``when`` has the time of each value, or of each round."""
    when = np.broadcast_to(np.asarray(when).reshape(len(value), -1), value.shape)
    rows = [
        (when[t, m], NAMES[m], shown(value[t, m]))
        for t, m in np.argwhere(~np.isnan(value))
    ]
    rows.sort(key=lambda row: str(row[0]) if isinstance(row[0], str) else row[0])
    return "".join(
        [f"{name},link,value\n", *(",".join(map(str, row)) + "\n" for row in rows)]
    )


def wide_form(value, when, name="time"):
    rows = [f"{when[t]},{','.join(map(shown, row))}\n" for t, row in enumerate(value)]
    return "".join([f"{name},{','.join(NAMES)}\n", *rows])


def outer_join(value, when):
    """The long form, pivoted: a row a time, in which one link has a value."""
    rows = {}
    for t, m in np.argwhere(~np.isnan(value)):
        rows.setdefault(when[t, m], [""] * 4)[m] = shown(value[t, m])
    return "".join(
        [
            f"time,{','.join(NAMES)}\n",
            *(f"{at},{','.join(rows[at])}\n" for at in sorted(rows)),
        ]
    )


def gains_of(tmp_path, content, scenario=SITE, **how):
    return read(tmp_path, content, scenario, unit=Reading(**FAR | how)).gain.tolist()


JITTER = st.lists(st.floats(0, 0.499), min_size=48, max_size=48)


@given(
    JITTER,
    st.sampled_from([0.1, 1.0, 7.5, 1000.0]),
    st.floats(-1e6, 1e6),
    st.sets(st.integers(1, 11), max_size=1),
)
def test_values_of_jittered_clocks_are_read_as_the_aligned_ones(
    tmp_path_factory, jitter, interval, start, lost
):
    """Whatever the jitter is, as long as it is below half a round; with a gap, and in both forms."""
    folder, value = (
        tmp_path_factory.mktemp("trace"),
        aligned(12, [(t, 1) for t in lost]),
    )
    when = start + interval * (
        np.arange(12)[:, None] + np.array(jitter).reshape(12, 4) / 2
    )
    how = {"gaps": "hold", "round_time": interval}
    wanted = gains_of(folder, wide_form(value, range(12), "round"), gaps="hold")
    for form in (long_form, outer_join):
        assert gains_of(folder, form(value, when), **how) == wanted


def test_clocks_that_differ_are_refused_with_the_round_time_that_is_right(tmp_path):
    """Whatever replaces gaps; what the message names gives the aligned values."""
    value = aligned(lost=[(7, 1), (30, 3)])
    when = np.arange(60)[:, None] * 0.5 + np.random.default_rng(1).uniform(
        0, 0.08, (60, 4)
    ).round(6)
    filled = [
        {},
        {"gaps": "hold"},
        {"gaps": "floor", "sensitivity": -130},
        {"gaps": "hold", "max_gaps": 0.999},
    ]
    for form in (long_form, outer_join):
        for how in filled:
            with pytest.raises(
                InvalidFile,
                match=r"in rounds of 0\.5 \(round_time\) the times of one differ by 0\.0[78]",
            ):
                gains_of(tmp_path, form(value, when), **how)
        for how in filled[1:]:
            wanted = gains_of(tmp_path, wide_form(value, range(60), "round"), **how)
            assert (
                gains_of(tmp_path, form(value, when), **how, round_time=0.5) == wanted
            )


def test_no_option_is_recommended_where_none_is_right(tmp_path):
    random = np.random.default_rng(2)
    half, late = aligned(), aligned()
    half[1::2, 2] = late[30:, 2] = math.nan
    jitter = np.arange(60)[:, None] + random.uniform(0, 0.08, (60, 4))
    turns = np.arange(60)[:, None] + np.arange(4) / 4  # links take turns
    drift = np.arange(60)[:, None] * (1 + np.array([0, 0.02, -0.01, 0.01]))
    away = jitter + np.array([0, 0, 3600, 0])  # a clock in summer time
    cases = [
        (half, jitter),
        (late, jitter),
        (aligned(), turns),
        (aligned(), drift),
        (aligned(), away),
    ]
    for value, when in cases:
        for how in (
            {},
            {"gaps": "hold"},
            {"gaps": "floor", "sensitivity": -130},
            {"gaps": "hold", "round_time": 1},
        ):
            with pytest.raises(InvalidFile) as error:
                gains_of(tmp_path, long_form(value, when), **how)
            assert "hold" not in str(error.value)
            assert "in rounds of" not in str(error.value)


def test_wrong_round_time_is_refused(tmp_path):
    """Twice and half the right one, milliseconds for seconds, and where there are no times."""
    value, when = (
        aligned(),
        np.arange(60)[:, None] + np.random.default_rng(3).uniform(0, 0.05, (60, 4)),
    )
    for form in (long_form, outer_join):
        for wrong in (2, 0.5, 0.9, 1000, 1e-3, 1e-9, 1e-300):
            with pytest.raises(InvalidFile):
                gains_of(tmp_path, form(value, when), gaps="hold", round_time=wrong)
        with pytest.raises(InvalidFile):
            gains_of(tmp_path, form(value, 1000 * when), gaps="hold", round_time=1)
    for content in (
        wide_form(value, range(60), "round"),
        long_form(value, range(60), "round"),
        saved(value.T),
    ):
        with pytest.raises(InvalidFile, match="round_time needs a column time"):
            gains_of(tmp_path, content, round_time=1)


@pytest.mark.parametrize("form", ["table", "links", "array"])
def test_gaps_above_the_share_are_refused_unless_it_is_named(tmp_path, form):
    """Of all values, of one link, and of a part of a split trace; what is missing is the same in every form."""

    def content(value):
        tables = {"table": wide_form, "links": long_form}
        return (
            saved(value.T)
            if form == "array"
            else tables[form](value, range(60), "round")
        )

    spread = [(t, m) for t in range(1, 59) for m in range(4)]
    few, many = spread[::10], spread[::9]
    link = [(t, 2) for t in range(1, 58, 4)]  # a quarter of one link's, 6 % of all
    late = [
        (t, 1 + t % 2) for t in range(48, 60)
    ]  # 5 % of all, 25 % of the last twelve rounds
    for lost, how, share in (
        (many, {}, "0.1"),
        (link, {}, "0.25"),
        (late, {"split": 0.8}, "0.25"),
    ):
        for gaps in ({"gaps": "hold"}, {"gaps": "floor", "sensitivity": -130}):
            with pytest.raises(
                InvalidFile,
                match=rf"expected a value, got .*; {share}.* missing, more than max_gaps = 0\.1",
            ):
                read(
                    tmp_path,
                    content(aligned(lost=lost)),
                    SITE,
                    unit=Reading(**FAR, **gaps),
                    **how,
                )
            named = Reading(**FAR, **gaps, max_gaps=0.3)
            trace = read(tmp_path, content(aligned(lost=lost)), SITE, unit=named, **how)
            assert any(
                f"{len(lost)} of 240 values are missing" in note for note in trace.notes
            )
        with pytest.raises(InvalidFile) as error:
            read(
                tmp_path, content(aligned(lost=lost)), SITE, unit=Reading(**FAR), **how
            )
        assert "hold" not in str(error.value)
    assert len(gains_of(tmp_path, content(aligned(lost=few)), gaps="hold")) == 4
    with pytest.raises(InvalidFile, match="the gaps hold and floor replace"):
        gains_of(tmp_path, content(aligned(lost=few)))


def test_line_by_line_gaps_are_counted_over_the_rounds_of_the_scenario():
    def sent(lost):
        return f"{','.join(NAMES)}\n" + "".join(
            ",".join(map(shown, row)) + "\n" for row in aligned(lost=lost)
        )

    hold = Reading(**FAR, gaps="hold")
    found, refused = by_line(sent([(t, 2) for t in range(1, 60)]), SITE, unit=hold)
    assert (len(found), refused) == (13, [*range(15, 62)])  # twelve of sixty
    found, refused = by_line(
        sent([(t, m) for t in range(1, 60) for m in (0, 1, 2)]), SITE, unit=hold
    )
    assert (len(found), refused) == (9, [*range(11, 62)])  # twenty-four of 240
    assert (
        by_line(
            sent([(t, 2) for t in range(1, 30)]), SITE, unit=replace(hold, max_gaps=0.3)
        )[1]
        == []
    )


@pytest.mark.parametrize("name", ["round", "", "index", "Unnamed: 0"])
def test_number_that_is_left_out_is_a_round_without_values_in_both_forms(
    tmp_path, name
):
    value = aligned(20)
    at = [0, 1, *range(3, 21)]
    filled = np.insert(value, 2, math.nan, axis=0)
    wanted = gains_of(tmp_path, wide_form(filled, range(21), "round"), gaps="hold")
    assert gains_of(tmp_path, wide_form(value, at, name), gaps="hold") == wanted
    if name == "round":
        assert gains_of(tmp_path, long_form(value, at, name), gaps="hold") == wanted
    forms = [wide_form, long_form] if name == "round" else [wide_form]
    for form in forms:
        with pytest.raises(
            InvalidFile,
            match=r"expected a value, got none of .* in the round 2 after the first",
        ):
            gains_of(tmp_path, form(value, at, name))
        with pytest.raises(InvalidFile, match="more than max_gaps"):
            gains_of(tmp_path, form(value, [0, 1, *range(7, 25)], name), gaps="hold")


def stamps(first, rounds=60, seconds=1.5, form="%Y-%m-%dT%H:%M:%S.%f"):
    return [
        (pd.Timestamp(first) + pd.Timedelta(seconds=seconds * t)).strftime(form)
        for t in range(rounds)
    ]


TIMES = {
    "naive": stamps("2024-03-09T23:59:00"),
    "UTC": [f"{each}Z" for each in stamps("2024-03-09T23:59:00")],
    "of a zone": [f"{each}+01:00" for each in stamps("2024-03-09T23:59:00")],
    "with a blank": stamps("2024-03-09T23:59:00", form="%Y-%m-%d %H:%M:%S.%f"),
    "of day": stamps("2024-03-09T12:00:00", form="%H:%M:%S.%f"),
    "dates": stamps("2024-02-27", seconds=86400, form="%Y-%m-%d"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_in_iso_8601_are_read_in_both_forms(tmp_path, kind):
    value, interval = aligned(lost=[(5, 1)]), 86400 if kind == "dates" else 1.5
    wanted = gains_of(tmp_path, wide_form(value, range(60), "round"), gaps="hold")
    for how in ({}, {"round_time": interval}):
        for content in (
            long_form(value, TIMES[kind]),
            wide_form(value, TIMES[kind]),
            wide_form(value, TIMES[kind], ""),
        ):
            assert gains_of(tmp_path, content, gaps="hold", **how) == wanted


def test_times_that_run_back_or_are_of_several_kinds_are_refused(tmp_path):
    value, naive, aware = aligned(), TIMES["naive"], TIMES["of a zone"]
    wrong = {
        "backwards": [*naive[:30], *naive[28:58]],
        "twice": [*naive[:30], *naive[29:59]],
        "summer time ends": [
            *stamps("2024-10-27T02:59:00", 40),
            *stamps("2024-10-27T02:00:00", 20),
        ],
        "midnight": [*stamps("2024-03-09T23:59:00", 60, form="%H:%M:%S")],
        "two zones": [
            *aware[:30],
            *(each.replace("+01", "+02") for each in aware[30:]),
        ],
        "with and without a zone": [*naive[:30], *aware[30:]],
        "numbers and times": [*range(30), *naive[30:]],
        "times and numbers": [*naive[:30], *range(30, 60)],
        "day and time of day": [*naive[:30], *TIMES["of day"][30:]],
        "no time": [*naive[:30], "later", *naive[31:]],
        "another form": [f"3/9/2024 12:{t:02}" for t in range(60)],
        "nothing": [*naive[:30], "", *naive[31:]],
    }
    for what, when in wrong.items():
        rows = [
            f"{at},{NAMES[m]},{shown(value[t, m])}\n"
            for t, at in enumerate(when)
            for m in range(4)
        ]
        for content in (
            wide_form(value, when),
            wide_form(value, when, ""),
            "time,link,value\n" + "".join(rows),
        ):
            with pytest.raises(InvalidFile):
                gains_of(tmp_path, content, gaps="hold")
        assert (
            by_line(wide_form(value, when), SITE, unit=Reading(**FAR))[1]
            or what == "twice"
        )  # sent again


def test_both_forms_have_the_same_devices(tmp_path):
    """Names with capitals are sorted as the columns of a table, and two that may be one link are refused."""
    value, names = aligned(), ["b10", "A2", "B9", "a11"]
    wide = wide_form(value, range(60), "round").replace(
        ",".join(NAMES), ",".join(names)
    )
    long = long_form(value, range(60), "round")
    for old, new in zip(NAMES[::-1], names[::-1], strict=True):
        long = long.replace(f",{old},", f",{new},")
    assert gains_of(tmp_path, long) == gains_of(tmp_path, wide)
    for twin in ("ue1", "UE 1", "uE1"):
        twins = long_form(value, range(60), "round").replace("UE2", twin)
        with pytest.raises(InvalidFile, match="case or blanks"):
            gains_of(tmp_path, twins)


def test_numbers_that_look_like_another_unit_are_noted(tmp_path):
    """And those that do not are not."""

    def notes(value=None, names=NAMES, **how):
        content = wide_form(
            aligned(lost=[(5, 1)]) if value is None else value, range(60), "round"
        )
        how = FAR | {"gaps": "floor", "sensitivity": -125} | how
        found = read(
            tmp_path,
            content.replace(",".join(NAMES), ",".join(names)),
            SITE,
            unit=Reading(**how),
        ).notes
        return [note for note in found if "values are missing" not in note]

    def late(seconds):
        when = np.arange(60) + np.where(np.arange(60) > 40, seconds, 0)
        forms = (wide_form(aligned(), when), long_form(aligned(), when))
        return [
            [
                "after the one before" in note
                for note in read(tmp_path, form, SITE, unit=Reading(**FAR)).notes
            ]
            for form in forms
        ]

    assert (late(30), late(0)) == ([[True], [True]], [[], []])
    sentinel = aligned(lost=[(5, 1)])
    sentinel[[3, 9, 20], 2] = -140
    assert notes() == notes(sensitivity=-125.5) == []
    assert ["0.2 dBm" in note for note in notes(transmit_power=0.2)] == [True]
    assert ["100 dBm" in note for note in notes(transmit_power=100)] == [True]
    assert ["dB above the sensitivity" in note for note in notes(sensitivity=-200)] == [
        True
    ]
    assert [
        "one resource element" in note
        for note in notes(names=["rsrp 1", "rsrp 2", "rsrp 3", "rsrp 4"])
    ] == [True]
    assert [
        "'-140.0' in ue3: 3 times" in note for note in notes(sentinel, sensitivity=-145)
    ] == [True]
    with pytest.raises(InvalidFile, match="if it stands for no value, leave it empty"):
        notes(sentinel)
    assert by_line(
        wide_form(aligned(), range(60), "round"), SITE, unit=Reading("dbm", 0.2)
    )[0][0][2]
