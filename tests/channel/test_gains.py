"""Measured gains: every accepted form gives the same numbers, and a damaged file is refused with its line."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale.channel import Reading
from adascale.errors import InvalidFile, InvalidInput

from .traces import (
    FAR,
    SENT,
    SITE,
    TWO,
    aligned,
    by_line,
    read,
    saved,
    wide_form,
)

GAINS = np.array([[1e-10, 2.5e-10], [3e-11, 1 / 3e9], [4e-12, 7e-9]])  # a row a round
FRAME = pd.DataFrame(GAINS, columns=["h2_1", "h2_2"])
TABLE = FRAME.to_csv(index=False)
FORMS = {
    "capitals": TABLE.replace("h", "H"),
    "semicolons": TABLE.replace(",", ";"),
    "tabs": TABLE.replace(",", "\t"),
    "blanks": TABLE.replace(",", "  "),
    "other line breaks": "\ufeff" + TABLE.replace("\n", "\r\n"),
    "comments": "# from the roof\n" + TABLE.replace("\n", "\n# é, ü\n"),
    "blank lines": "\n\n" + TABLE.replace("\n", "\n \n"),
    "pandas": FRAME.to_csv(),
    "times": FRAME.assign(time=pd.date_range("2024-01-01", periods=3)).to_csv(),
    "R": FRAME.rename(lambda t: str(t + 1)).to_csv(quoting=2),
}


@pytest.mark.parametrize("form", FORMS)
def test_common_forms_are_read_to_the_same_bits(tmp_path, form):
    trace = read(tmp_path, FORMS[form])
    np.testing.assert_array_equal(trace.gain, GAINS.T)
    traces, _, refused = by_line(FORMS[form])
    assert [line.min_gain.item() for line in traces] == trace.min_gain.tolist()
    assert not refused or form == "blank lines"  # where a gain may be missing


UNITS = {
    "linear": lambda gain: gain,
    "db": lambda gain: 10 * np.log10(gain),
    "loss": lambda gain: -10 * np.log10(gain),
    "dbm": lambda gain: SENT + 10 * np.log10(gain),
    "csi": lambda gain: np.sqrt(gain) * np.exp(1j * np.log(gain)),  # of any phase
}
WRITERS = {
    "array": lambda frame: saved(frame.to_numpy().T),
    "columns in another order": lambda frame: frame[frame.columns[::-1]].to_csv(),
    "long": lambda frame: frame.melt(ignore_index=False, var_name="link").to_csv(
        index_label="round"
    ),
}


@st.composite
def traces(draw):
    """Gains, a row a round."""
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    power = st.floats(-15, -0.01).map(lambda exponent: 10**exponent)
    entries = st.lists(power, min_size=24, max_size=24)
    return np.array(draw(entries)[: math.prod(shape)]).reshape(shape)


@given(traces(), st.sampled_from([*UNITS]), st.sampled_from([*WRITERS]))
def test_a_trace_is_the_same_in_every_form_and_unit(
    tmp_path_factory, gains, unit, form
):
    devices = gains.shape[1]
    scenario = replace(TWO, num_devices=devices)
    stem = {"dbm": "AP", "csi": "h_"}.get(unit, "h2_")
    names = [f"{stem}{m + 1}" for m in range(devices)]
    content = WRITERS[form](pd.DataFrame(UNITS[unit](gains), columns=names))
    how = Reading(
        unit,
        transmit_power=SENT if unit == "dbm" else None,
        axes="device,round" if form == "array" else None,
    )
    trace = read(tmp_path_factory.mktemp("trace"), content, scenario, unit=how)
    rtol = 0 if unit == "linear" else 1e-12  # a linear gain has the same bits
    np.testing.assert_allclose(trace.gain, gains.T, rtol=rtol)


def test_gains_are_scaled_by_the_power_and_the_batch_of_each_device(tmp_path):
    scenario = replace(TWO, max_power=(0.2, 0.1), batch_size=(5, 6))
    trace = read(tmp_path, TABLE, scenario)
    scaled = GAINS.T * np.array([[1], [0.5]]) / scenario.batch_second_moment[:, None]
    np.testing.assert_allclose(trace.min_gain, scaled.min(axis=0), rtol=1e-12)
    np.testing.assert_allclose(trace.mean_gain, scaled.mean(axis=1), rtol=1e-12)


def test_split_trace_has_its_first_rounds_as_the_past(tmp_path):
    content = wide_form(aligned(), range(60), "round")
    joint = read(tmp_path, content, SITE, unit=Reading(**FAR))
    trace = read(tmp_path, content, SITE, unit=Reading(**FAR), split=0.51)
    past = joint.gain[:, :31]
    np.testing.assert_array_equal(trace.past.gain, past)
    np.testing.assert_array_equal(trace.gain, joint.gain[:, 31:])
    mean = past.mean(axis=1) / SITE.batch_second_moment
    np.testing.assert_allclose(trace.past.mean_gain, mean, rtol=1e-14)


@pytest.mark.parametrize(
    ("content", "unit", "place"),
    [
        ("h2_1,h2_2\n1e-9,1e-10\n0.5,1.5\n2,2\n", "linear", "line 3: 1.5 in h2_2"),
        ("min_gain\n-70\n# x\n78.5\n", "db", "line 4: 78.5 in min_gain"),  # a path loss
        ("h_1,h_2\n0.1,1j\n0.1,1+1j\n", "linear", "line 3: 2 in h_2"),
    ],
)
def test_first_gain_above_one_is_noted_with_its_line(tmp_path, content, unit, place):
    """It is read all the same: gains may be relative, with powers to fit."""
    notes = read(tmp_path, content, unit=unit).notes
    assert notes[0].startswith(f"{tmp_path / 'trace'}, {place}")
    lines, *_ = by_line(content, unit=unit)
    first, *_ = (note for line in lines for note in line.notes)
    assert first.startswith(f"here, {place}")
    assert read(tmp_path, TABLE).notes == ()  # the control


def test_refused_row_leaves_no_trace_and_rounds_keep_their_numbers():
    times = 1, 9, 2, 2, 1.5, 3
    gains = 1, 0, 1, 1, 1, 1
    rows = [f"{t},{gain}e-9,1e-9\n" for t, gain in zip(times, gains, strict=True)]
    found, _, refused = by_line("".join(["time,h2_1,h2_2\n", *rows]))
    # the same time twice is a line that was sent again
    assert (len(found), refused) == (4, [3, 6])
    _, numbers, refused = by_line("round,min_gain\n7,1e-9\n7,1e-9\n3,1e-9\nx,1e-9\n")
    assert (numbers, refused) == ([7, 7, 3], [5])


HUGE = "1" * 200_000
SHORT_HEADER = saved(GAINS.T).replace(b"(2, 3), }" + b" " * 13, b"(2, %d), }" % 10**13)
# by what is wrong: the line (None: the whole file), and contents
REFUSED = {
    "no rows": (None, ["", "h2_1,h2_2\n# none\n"]),
    "array of another shape": (None, [saved(np.ones((3, 4))), saved(np.ones((2, 0)))]),
    "array with a zero": (None, [saved([[1, 1, 1], [1, 1, 0]])]),
    "array with a gap": (None, [saved([[1, np.nan, 1], [1, 1, 1]])]),
    "array of objects": (None, [saved([[{}, {}]] * 2)]),
    "array cut off or with bytes after it": (
        None,
        [saved(GAINS.T) + b"x", saved(GAINS.T)[:-1], SHORT_HEADER],
    ),
    "no names": (1, ["1e-10,2e-10\n"]),
    "unknown names": (1, ["h2_1,h2_2,snr\n1,1,1\n", "h2_0,h2_1\n1,1\n"]),
    "names of two kinds": (1, ["h2_1,h_2\n1,1\n"]),
    "too few names": (1, ["h2_1\n1\n", "round\n1\n"]),
    "duplicate names": (1, ["h2_1,h2_1\n1,1\n"]),
    "decimal commas": (2, ["h2_1,h2_2\n0,1,0,2\n", 'h2_1,h2_2\n"1,000",1\n']),
    "no number": (2, ["min_gain\n1_0\n", "min_gain\n\uff11\n", "min_gain\n1\0\n"]),
    "overflow": (2, ["min_gain\n1e400\n", f"min_gain\n{HUGE}\n"]),
    "open quotes": (2, ['min_gain\n"1\n2\n']),
    "zero": (2, ["h_1,h_2\n1,0+0j\n"]),
    "decibels": (2, ["min_gain\n-98.5\n"]),
    "no round": (2, ["round,min_gain\nx,1\n", "round,min_gain\nnan,1\n"]),
    "short row": (3, ["h2_1,h2_2\n1,1\n1\n"]),
    "gap": (3, ["h2_1,h2_2\n1,1\n1,\n", "min_gain\n1\n\n1"]),
    "infinity": (3, ["h2_1,h2_2\n1,1\ninf,1\n"]),
    "time runs back": (3, ["time,min_gain\n2.5,1\n2,1\n"]),
    "another encoding": (3, [b"min_gain\n1\n# \xfc"]),
    "impossible gain": (3, ["min_gain\n1\n1e-40\n", "min_gain\n1\n1e10\n"]),
    "long row": (5, ["h2_1,h2_2\n# x\n\n1,1\n1,1,1\n"]),
}


def assert_refused(tmp_path, content, line, how=None):
    with pytest.raises(InvalidFile) as error:
        read(tmp_path, content, unit=how or Reading())
    assert (error.value.path, error.value.line) == (str(tmp_path / "trace"), line)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < len(str(tmp_path)) + 300


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_value_is_refused_with_its_line(tmp_path, name):
    line, contents = REFUSED[name]
    for content in contents:
        assert_refused(tmp_path, content, line)
        if line and isinstance(content, str):
            assert line in by_line(content)[2]


HELD, DBM = Reading(gaps="hold"), Reading("dbm", SENT)
REFUSED_BY = [
    # rounds of a file increase, those of lines may come again
    (Reading(), 3, "round,min_gain\n1,1\n1,1\n"),
    # received powers: impossible, missing, too many, nameless; of the least gain
    (DBM, 3, "a,b\n-60,-70\n-61,0\n"),
    (DBM, 3, "a,b\n-60,-70\n-61,\n"),
    (DBM, 1, "a,b,c\n-60,-70,-70\n"),
    (DBM, 1, "-60,-70\n-61,-71\n"),
    (DBM, 1, "a,\n-60,-70\n"),
    (DBM, 1, "min_gain\n-60\n"),
    (DBM, None, saved(np.ones((2, 2), complex))),
    (Reading("dbm", SENT, "floor", -98), 2, "a,b\n-60,-99\n"),
    (Reading("csi"), 1, "h2_1,h2_2\n1,1\n"),
    (Reading("db"), 2, "min_gain\n1e5\n"),
    (Reading(round_time=1), None, "link,round,value\na,0,1\nb,0,1\n"),
    # no earlier value
    (HELD, 2, "h2_1,h2_2\n1,\n1,1\n"),
    (HELD, None, "link,time,value\na,.5,1\nb,.7,1\n"),
    # long forms: both columns, rounds that come again, are no numbers, not whole or too many, links, a zero
    (Reading(), None, "link,round,value\na,0,1\nb,0,1\na,2,1\n"),
    (HELD, 1, "link,round,time,value\na,0,1,1\n"),
    (HELD, 2, "link,time,value\na,inf,1\nb,1,1\n"),
    (HELD, 3, "link,round,value\na,0,1\nb,0.5,1\n"),
    (HELD, 3, "link,round,value\na,0,1\nb,1e12,1\n"),
    (HELD, 4, "link,round,value\na,0,1\nb,0,1\na,0,1\n"),
    (HELD, 4, "link,round,value\na,0,1\nb,0,1\nc,0,1\n"),
    (HELD, 5, "link,round,value\na,0,1\nb,0,1\na,1,1\nb,1,0\n"),
]


@pytest.mark.parametrize(("how", "line", "content"), REFUSED_BY)
def test_value_that_a_reading_excludes_is_refused(tmp_path, how, line, content):
    assert_refused(tmp_path, content, line, how)


@pytest.mark.parametrize(
    ("argument", "how"),
    [
        ("unit", {"unit": "watt"}),
        ("gaps", {"gaps": "guess"}),
        ("transmit_power", {"unit": "dbm"}),
        ("transmit_power", {"transmit_power": 1}),
        ("sensitivity", {"gaps": "floor"}),
        ("sensitivity", {"gaps": "hold", "sensitivity": 1}),
        ("sensitivity", {"gaps": "floor", "sensitivity": -90}),
        ("max_gaps", {"gaps": "hold", "max_gaps": 1.1}),
        ("round_time", {"round_time": 0}),
    ],
)
def test_option_without_effect_or_value_is_refused(argument, how):
    with pytest.raises(InvalidInput) as error:
        Reading(**how)
    assert error.value.argument == argument


@pytest.mark.parametrize("split", [0, 1, math.nan])
def test_split_leaves_rounds_on_both_sides(tmp_path, split):
    with pytest.raises(InvalidInput, match="split"):
        read(tmp_path, TABLE, split=split)


DAMAGE = st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=3))
RANDOM = st.binary(max_size=200) | st.text('h2_1,;\t \n"#.0eE+-jinf').map(str.encode)
LONG = "link,round,value\na,0,1e-9\nb,0,1e-10\na,1,1e-9\nb,1,1e-10\n"


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
    folder = tmp_path_factory.mktemp("trace")
    try:
        trace = read(folder, content if other is None else other)
    except InvalidFile as error:
        assert str(folder / "trace") in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        low, high = TWO.gain_limits
        assert low <= trace.min_gain.min() <= trace.min_gain.max() <= high
