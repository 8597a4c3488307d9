"""Traces: every accepted form gives the same numbers, and a damaged file is refused in one line."""

import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario
from adascale.channel import GainLines, read_gains

TWO = Scenario("two", 2, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)
GAINS = np.array([[1e-10, 2.5e-10], [3e-11, 1 / 3e9], [4e-12, 7e-9]])  # a row a round


def read(tmp_path, content, scenario=TWO, **options):
    path = tmp_path / "trace"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_gains(path, scenario, **options)


def assert_is(trace, gains, scenario=TWO):
    """The trace of these gains, bit for bit."""
    moment = scenario.batch_second_moment
    assert trace.min_gain.tolist() == (gains / moment).min(axis=1).tolist()
    assert trace.mean_gain.tolist() == (np.ascontiguousarray(gains.T).mean(axis=1) / moment).tolist()


def table(gains=GAINS, separator=",", names=("h2_1", "h2_2"), end="\n", show=repr):
    rows = [separator.join(names), *(separator.join(show(float(each)) for each in row) for row in gains)]
    return end.join(rows) + end


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


# What people have ----------------------------------------------------------------------------------------------------

FRAME = pd.DataFrame(GAINS, columns=["h2_1", "h2_2"])
FORMS = {
    "commas": table(),
    "semicolons": table(separator=";"),
    "tabs": table(separator="\t"),
    "blanks": table(separator="  "),
    "a comma and a blank": table(separator=", "),
    "no newline at the end": table()[:-1],
    "carriage returns": table(end="\r\n"),
    "the old Mac's": table(end="\r"),
    "a byte order mark": "\ufeff" + table(),
    "capitals": table(names=("H2_1", "H2_2")),
    "comments": "# from the roof\n" + table().replace("\n", "\n# é, ü\n"),
    "blank lines": "\n\n" + table().replace("\n", "\n \n"),
    "quoted": '"h2_1","h2_2"\n' + "".join(f'"{a!r}", "{b!r}"\n' for a, b in GAINS.tolist()),
    "pandas": FRAME.to_csv(),
    "pandas twice": FRAME.reset_index().rename(columns={"index": "Unnamed: 0"}).to_csv(index=False),
    "pandas with dates": FRAME.set_index(pd.date_range("2024-01-01", periods=3)).to_csv(),
    "rounds from one": FRAME.assign(round=[1, 2, 3]).to_csv(index=False),
    "times": FRAME.assign(Time=[0.5, 0.75, 4]).to_csv(index=False),
    "times of day": FRAME.assign(time=["12:00", "12:01", "12:02"]).to_csv(index=False),
    "reordered": FRAME.assign(round=[0, 1, 2])[["h2_2", "round", "h2_1"]].to_csv(index=False),
    "R": '"","h2_1","h2_2"\n' + "".join(f'"{t}",{a!r},{b!r}\n' for t, (a, b) in enumerate(GAINS.tolist(), 1)),
    "numpy.savetxt": "# h2_1,h2_2\n" + table().partition("\n")[2],
    "npy": saved(GAINS),
    "npy in the order of Fortran": saved(np.asfortranarray(GAINS)),
    "npy, the other end first": saved(GAINS.astype(">f8")),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_people_have_is_read_to_the_same_bits(tmp_path, form):
    assert_is(read(tmp_path, FORMS[form]), GAINS)


def test_complex_coefficients_are_squared(tmp_path):
    h = np.array([[3e-5 + 4e-5j, 1e-5j], [-2e-6 - 1e-6j, 7e-5 + 0j]])
    power = h.real**2 + h.imag**2
    assert_is(read(tmp_path, saved(h)), power)
    assert_is(read(tmp_path, pd.DataFrame(h, columns=["h_1", "h_2"]).to_csv()), power)
    matlab = "h_1,h_2\n0.00003 + 0.00004i,0+1e-5i\n-2e-6-1e-6i,7e-5\n"
    np.testing.assert_allclose(read(tmp_path, matlab).min_gain, read(tmp_path, saved(h)).min_gain, rtol=1e-15)


def test_decibels_are_ten_times_the_logarithm(tmp_path):
    told = 10 * np.log10(GAINS)
    for content in (table(told), saved(told), table(told, ";")):
        # 1e-14: a rounding of 100 dB, times ln(10) / 10
        np.testing.assert_allclose(read(tmp_path, content, unit="db").min_gain, read(tmp_path, table()).min_gain, 1e-14)


def test_the_minimum_alone_has_no_mean(tmp_path):
    for content in ("min_gain\n1e-10\n2e-10\n", saved(np.array([1e-10, 2e-10])), ",min_gain\n0,1e-10\n1,2e-10\n"):
        trace = read(tmp_path, content)
        assert trace.min_gain.tolist() == [1e-10, 2e-10]
        assert trace.mean_gain is None


def test_one_device_may_have_a_column(tmp_path):
    assert_is(read(tmp_path, saved(GAINS[:, :1]), replace(TWO, num_devices=1)), GAINS[:, :1])


# What is refused -----------------------------------------------------------------------------------------------------

HUGE = "1" * 200_000
BAD = {
    "nothing": ("", "empty"),
    "comments alone": ("# h2_1,h2_2\n\n", "empty"),
    "no rows": ("h2_1,h2_2\n# none\n", "no rows"),
    "no header": ("1e-10,2e-10\n", "line 1: got column '1e-10'; expected min_gain, or h2_1 to h2_2"),
    "another column": ("h2_1,h2_2,snr\n1,1,1\n", "line 1: got column 'snr'"),
    "a nameless column behind": ("h2_1,h2_2,\n1,1,\n", "line 1: got column ''"),
    "both kinds": ("min_gain,h2_1,h2_2\n1,1,1\n", "columns 'min_gain,h2_1,h2_2'"),
    "gains and coefficients": ("h2_1,h_2\n1,1\n", "columns 'h2_1,h_2'"),
    "counted from zero": ("h2_0,h2_1\n1,1\n", "column 'h2_0'"),
    "too few devices": ("h2_1\n1\n", "h2_1 to h2_2"),
    "too many devices": ("h2_1,h2_2,h2_3\n1,1,1\n", "h2_1 to h2_2"),
    "a name without its number": ("h_\n1\n", "column 'h_'"),
    "a round and no gain": ("round\n1\n", "columns ''"),
    "twice the same": ("h2_1,h2_1\n1,1\n", "duplicate column 'h2_1'"),
    "a short row": ("h2_1,h2_2\n1,1\n1\n", "line 3: expected 2 fields, got 1"),
    "a long row": ("h2_1,h2_2\n# x\n\n1,1\n1,1,1\n", "line 5: expected 2 fields, got 3"),
    "decimal commas between commas": ("h2_1,h2_2\n0,1,0,2\n", "got 4; a comma cannot be the decimal sign"),
    "a decimal comma alone": ("min_gain\n0,5\n", "line 2: expected 1 field, got 2"),
    "a thousand": ('h2_1,h2_2\n"1,000",1\n', "line 2: expected a number, got '1,000' in h2_1"),
    "points and commas": ("h2_1;h2_2\n0.1;0.2\n0,1;0,2\n", "line 3: expected a number, got '0,1' in h2_1; write a"),
    "pandas, German": (FRAME.to_csv(sep=";", decimal=","), "line 2: expected a number, got '2,5e-10' in h2_2; write a"),
    "decimal commas and tabs": (table(separator="\t").replace(".", ","), "write a decimal point"),
    "other digits": ("min_gain\n\uff11\n", "line 2: expected a number, got '\uff11'"),
    "hexadecimal": ("min_gain\n0x10\n", "line 2: expected a number, got '0x10'"),
    "a coefficient in two pieces": ("h_1,h_2\n1 0,5\n", "line 2: expected a number, got '1 0' in h_1"),
    "UTF-16": ("min_gain\n1\n".encode("utf-16"), "line 1: not UTF-8 text; save the table as UTF-8"),
    "UTF-16 without its mark": ("min_gain\n1\n".encode("utf-16-le"), "line 1: got column 'm\\x00i"),
    "zero bytes": ("min_gain\n1\0\n", "line 2: expected a number, got '1\\x00'"),
    "two commas": ("h2_1;h2_2\n1,000,000;1\n", "line 2: expected a number"),
    "a gap": ("h2_1,h2_2\n1,1\n1,\n", "line 3: expected a number, got '' in h2_2"),
    "pandas' gap": (FRAME.where(FRAME > 1e-11).to_csv(), "line 4: expected a number, got '' in h2_1"),
    "a gap called NaN": ("h2_1,h2_2\n1,1\nNaN,1\n", "line 3: expected a gain that is finite and > 0"),
    "a blank line between": ("min_gain\n1\n\n1\n", "line 3: blank"),
    "a grouped number": ("min_gain\n1_0\n", "line 2: expected a number, got '1_0' in min_gain"),
    "an overflow": ("min_gain\n1e400\n", "got '1e400'"),
    "a huge field": (f"min_gain\n{HUGE}\n", "line 2: expected a gain that is finite and > 0, got '1111"),
    "a huge quoted field": (f'min_gain\n"{HUGE}"\n', "line 2: field larger than field limit"),
    "a huge word": (f"h2_1,h2_2\n{'x' * 200_000},1\n", "line 2: expected a number, got 'xxx"),
    "a quote that does not end": ('min_gain\n"1\n2\n', "line 2: unexpected end of data"),
    "a zero": ("h2_1,h2_2\n1,1\n1,0\n", "line 3: expected a gain that is finite and > 0, got '0' in h2_2"),
    "a zero with a sign": ("min_gain\n-0.0\n", "line 2: expected a gain that is finite and > 0, got '-0.0'"),
    "a zero coefficient": ("h_1,h_2\n1,0+0j\n", "line 2: expected a gain that is finite and > 0, got '0+0j' in h_2"),
    "a zero in an array": (saved(np.array([[1, 1], [0, 1]])), "row 1: expected a gain that is finite and > 0, got 0"),
    "an infinity": ("h2_1,h2_2\n1,1\ninf,1\n", "line 3: expected a gain that is finite and > 0, got 'inf' in h2_1"),
    "a device that leaves": ("h2_1,h2_2\n1,1\n1\n1\n", "line 3: expected 2 fields, got 1"),
    "a device that comes": ("h2_1,h2_2\n1,1\n1,1,1\n", "line 3: expected 2 fields, got 3"),
    "dB": ("min_gain\n-98.5\n", "got '-98.5' in min_gain; a gain in dB needs the unit db"),
    "rounds out of order": ("round,min_gain\n1,1\n3,1\n2,1\n", "line 3: rounds must be in order: expected round 2"),
    "a round twice": ("round,min_gain\n1,1\n1,1\n", "line 3"),
    "a round without a number": ("round,min_gain\nx,1\n", "line 2: rounds must be in order: expected round a number"),
    "an index out of order": (FRAME.iloc[::-1].to_csv(), "line 3: rounds must be in order: expected an index > 2"),
    "times out of order": ("time,min_gain\n2.5,1\n2,1\n", "line 3: rounds must be in order: expected time > 2.5"),
    "another encoding": ("min_gain\n1\n# \xfc".encode("latin-1"), "line 3: not UTF-8 text"),
    "a spreadsheet": (b"PK\x03\x04\xff\xff", "line 1: not UTF-8 text"),
    "too large": ("h2_1,h2_2\n1e308,1e308\n1e308,1e308\n", "line 2: gains from 1e+308 to 1e+308 are beyond floating"),
    "too small": ("min_gain\n1\n1e-320\n1\n", "line 3: gains from 1e-320 to 1 are beyond floating point"),
    "objects": (saved(np.array([{}], dtype=object)), "no .npy file of numbers"),
    "words in an array": (saved(np.array(["1"])), "expected an array of numbers, got '<U1'"),
    "truth in an array": (saved(np.array([True])), "expected an array of numbers, got 'bool'"),
    "an array on its side": (
        saved(GAINS.T),
        "expected an array of shape (T,) or (T, 2), a row a round, got shape (2, 3); transpose it",
    ),
    "three axes": (saved(np.ones((1, 3, 2))), "got shape (1, 3, 2)"),
    "no axis": (saved(np.array(1.0)), "got shape ()"),
    "an empty array": (saved(np.ones((0, 2))), "got shape (0, 2)"),
    "complex minima": (saved(np.ones(3, dtype=complex)), "complex coefficients need a column a device"),
    "nan in an array": (saved(np.array([[1, 1], [1, np.nan]])), "row 1: expected a gain that is finite and > 0"),
    "an array cut short": (saved(GAINS)[:-1], "no .npy file of numbers"),
    "an array with more behind": (saved(GAINS) + b"x", "has 1 bytes behind its array"),
    "a header of an array alone": (b"\x93NUMPY", "no .npy file of numbers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, kind):
    content, said = BAD[kind]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read(tmp_path, content)
    message = str(error.value)
    assert said in message
    assert str(tmp_path / "trace") in message
    assert "\n" not in message
    assert len(message.replace(str(tmp_path), "")) < 300


def test_an_array_that_claims_to_be_huge_is_refused_at_once(tmp_path):
    claimed = saved(GAINS).replace(b"(3, 2), }" + b" " * 13, b"(%d, 2), }" % 10**13)
    assert b"10000000000000" in claimed  # the control: the header was changed
    with pytest.raises(ValueError, match=r"no \.npy file of numbers"):
        read(tmp_path, claimed)


def test_units_are_linear_or_decibels_and_coefficients_have_none(tmp_path):
    with pytest.raises(ValueError, match="unit must be linear or db, got 'dBm'"):
        read(tmp_path, table(), unit="dBm")
    with pytest.raises(ValueError, match="complex coefficients are linear"):
        read(tmp_path, "h_1,h_2\n1,1\n", unit="db")
    with pytest.raises(ValueError, match="line 2: expected a gain that is finite and > 0, got '1e5' in min_gain"):
        read(tmp_path, "min_gain\n1e5\n", unit="db")


@pytest.mark.parametrize(
    ("content", "unit", "said"),
    [
        ("h2_1,h2_2\n1e-9,1e-10\n0.5,1.5\n2,2\n", "linear", "line 3: '1.5' in h2_2"),
        ("min_gain\n-70\n# x\n98.5\n", "db", "line 4: '98.5' in min_gain"),  # a path loss, not a gain
        ("h_1,h_2\n0.1,1j\n0.1,1+1j\n", "linear", "line 3: '1+1j' in h_2"),
        (saved(np.array([[1e-9, 1.0], [1.0, 1e-9], [1e-9, 60.0]])), "linear", "row 2: 60.0 in column 1"),
    ],
)
def test_a_gain_above_one_is_named_with_its_row(tmp_path, content, unit, said):
    """It is read all the same: gains may be relative, with powers to fit."""
    assert read(tmp_path, content, unit=unit).above_one == f"{tmp_path / 'trace'}, {said}"


def test_gains_that_can_be_are_not_named(tmp_path):
    for content in (table(), saved(GAINS), "min_gain\n1\n", "h2_1,h2_2\n1,0.9999\n"):
        assert read(tmp_path, content).above_one is None
    assert read(tmp_path, "min_gain\n0\n-3\n", unit="db").above_one is None
    lines = GainLines("here", TWO, "db")
    assert lines.read(b"h2_1,h2_2\n") is None
    assert lines.read(b"-60,-70\n").above_one is None
    assert lines.read(b"60,-70\n").above_one == "here, line 3: '60' in h2_1"


def test_the_mean_gain_has_the_power_of_each_device(tmp_path):
    found = read(tmp_path, table(), replace(TWO, max_power=(0.1, 0.2)))
    share = np.array([0.5, 1.0])
    assert found.min_gain.tolist() == (GAINS * share / TWO.batch_second_moment).min(axis=1).tolist()
    np.testing.assert_allclose(found.mean_gain, GAINS.mean(axis=0) * share / TWO.batch_second_moment, rtol=1e-15)


# Any of them ---------------------------------------------------------------------------------------------------------


def gains_of(num_devices):
    positive = st.floats(1e-200, 1e200, allow_subnormal=False)
    return st.lists(st.lists(positive, min_size=num_devices, max_size=num_devices), min_size=1, max_size=6)


@st.composite
def written(draw):
    """Gains, their scenario, and one of the ways in which they can be written down."""
    devices = draw(st.integers(1, 4))
    gains = np.array(draw(gains_of(devices)))
    scenario = replace(TWO, num_devices=devices)
    if draw(st.integers(0, 4)) == 0:
        order = draw(st.sampled_from(["C", "F"]))
        return saved(np.array(gains, dtype=draw(st.sampled_from(["<f8", ">f8"])), order=order)), gains, scenario
    separator = draw(st.sampled_from([",", ";", "\t", " "]))
    show = draw(st.sampled_from([repr, "{:.17g}".format, "{:.16e}".format]))
    columns = [[f"h2_{m + 1}", *(show(float(each)) for each in gains[:, m])] for m in range(devices)]
    columns = draw(st.permutations(columns))
    start = draw(st.integers(-3, 3))
    if draw(st.booleans()):
        columns.insert(draw(st.integers(0, devices)), ["round", *(str(start + t) for t in range(len(gains)))])
    if draw(st.booleans()) and separator != " ":
        columns.insert(0, ["", *(str(t) for t in range(len(gains)))])
    if draw(st.booleans()):
        columns = [[f'"{each}"' for each in column] for column in columns]
    elif separator != " " and draw(st.booleans()):
        columns = [[f"  {each} " for each in column] for column in columns]
    lines = [separator.join(row) for row in zip(*columns, strict=True)]
    if len(columns) > 1:
        between = st.lists(st.sampled_from(["", "# 1,2", "  "]), max_size=1)
        lines = [line for each in lines for line in (each, *draw(between))]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = draw(st.sampled_from(["", "\ufeff"])) + end.join(lines) + draw(st.sampled_from(["", end]))
    return text.encode(), gains, scenario


@given(written())
def test_every_way_to_write_gains_down_gives_them_back_bit_for_bit(tmp_path_factory, case):
    content, gains, scenario = case
    folder = tmp_path_factory.mktemp("trace")
    assert_is(read(folder, content, scenario), gains, scenario)


@given(
    written(), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=3)
)
def test_a_damaged_file_is_refused_in_one_line_or_is_a_trace(tmp_path_factory, case, damages):
    content, _, scenario = case
    for place, removed, inserted in damages:
        start = int(place * len(content))
        content = content[:start] + inserted + content[start + removed :]
    check_any_bytes(tmp_path_factory.mktemp("trace"), content, scenario)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=100).map(lambda tail: saved(GAINS)[:80] + tail),
        st.text(alphabet='h2_1,;\t \n"#.0eE+-jinfaround', max_size=60).map(str.encode),
    )
)
def test_any_bytes_are_refused_in_one_line_or_are_a_trace(tmp_path_factory, content):
    check_any_bytes(tmp_path_factory.mktemp("trace"), content, TWO)


def check_any_bytes(folder, content, scenario):
    """What is read is a trace that can be computed with; all else is a ValueError of one line with the file's name."""
    try:
        trace = read(folder, content, scenario)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert str(folder / "trace") in message
        assert "\n" not in message
        return
    low, high = scenario.gain_limits
    assert trace.min_gain.ndim == 1
    assert ((trace.min_gain >= low) & (trace.min_gain <= high)).all()
    if trace.mean_gain is not None:
        assert trace.mean_gain.shape == (scenario.num_devices,)
        assert all(math.isfinite(each) and each > 0 for each in trace.mean_gain)


@given(written(), st.floats(0, 1))
def test_a_row_that_is_cut_off_is_noticed(tmp_path_factory, case, place):
    """What is cut between two fields or within a row; a digit that is missing at the very end nobody can see."""
    content, gains, scenario = case
    cut = content[: int(place * (len(content) - 1))]
    folder = tmp_path_factory.mktemp("trace")
    try:
        trace = read(folder, cut, scenario)
    except ValueError:
        return
    whole = (gains / scenario.batch_second_moment).min(axis=1)
    assert not content.startswith(b"\x93NUMPY")
    assert trace.min_gain[:-1].tolist() == whole[: len(trace.min_gain) - 1].tolist()


@pytest.mark.slow
def test_a_million_rounds_are_read_in_seconds(tmp_path):
    gains = np.tile(GAINS, (333_334, 1))
    assert_is(read(tmp_path, table(gains)), gains)
