"""Measured links: the reader against a plain loop, what it makes of gaps, and one line for a file that is none."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, Scenario
from companion.causal.link_model import read_links

ROWS = [[-60.0, -71.5, -80.0], [-61.0, -70.0, -82.0], [-59.5, -72.0, -81.0], [-60.5, -70.5, -79.0]]  # a row a round
BAD = {
    "zero": ("a,b\n-60,-70\n-61,0\n", {}, "line 3, round 1 of link b: expected dBm, of which 0 .* got '0'"),
    "a gap": ("a,b\n-60,-70\n,-71\n", {}, "line 3, round 1 of link a: not measured; gaps='hold' or 'floor'"),
    "no number": ("a,b\n-60,-70\n-61,weak\n", {}, "line 3, .*a finite number, got 'weak'"),
    "wrong sign": ("a,b\n60,70\n61,71\n", {}, "line 2, .*less than the 0 dBm sent, got '60'; is the unit right"),
    "more than sent": ("a\n-5\n-20\n", {"transmit_power": -10}, "less than the -10 dBm sent, got '-5'"),
    "dBm as linear": ("a\n-60\n", {"unit": "linear"}, "line 2, .*a gain above 0 and below 1 .*got '-60'"),
    "zero csi": ("a\n0.1+0.2j\n0j\n", {"unit": "csi"}, "line 3, .*got '0j'"),
    "a device less": ("a,b\n-60,-70\n-61\n", {}, "line 3: expected 2 fields, as in line 1, got 1"),
    "a blank line": ("-60\n\n-61\n", {}, "line 2: blank; of one link that may be a packet lost"),
    "nothing to hold": ("a,b\n,-70\n-61,-71\n", {"gaps": "hold"}, "line 2, round 0 of link a: not measured, nor any"),
    "a lost packet": ("round,a\n3,-60\n5,-61\n", {}, "round 4 of link a: not measured"),
    "a round twice": ("round,a\n3,-60\n3,-61\n", {}, "line 3: round 3 comes twice"),
    "no whole round": ("round,a\n3,-60\n3.5,-61\n", {}, "line 3: expected the whole number of a round, got '3.5'"),
    "times for rounds": ("round,a\n0,-60\n1e12,-61\n", {"gaps": "hold"}, "are they times"),
    "empty": ("# nothing\n\n", {}, "has no rows"),
    "only a header": ("a,b\n", {}, "has no measurements"),
    "rounds beyond": ("a\n-60\n-61\n", {"rounds": range(1, 3)}, r"has the rounds 0 to 1, got rounds=range\(1, 3\)"),
}


def put(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def table(rows, header="a,b,c", separator=","):
    return "\n".join([*([header] if header else []), *(separator.join(map(str, row)) for row in rows)]) + "\n"


def by_loop(rows, sent=0.0):
    """The gains, a row a link, one by one."""
    return [[10 ** ((row[m] - sent) / 10) for row in rows] for m in range(len(rows[0]))]


def test_received_powers_become_gains(tmp_path):
    links = read_links(put(tmp_path, table(ROWS)), transmit_power=4)
    np.testing.assert_allclose(links.gain, by_loop(ROWS, 4), rtol=1e-14)
    assert links.names == ("a", "b", "c")
    assert links.rounds.tolist() == [0, 1, 2, 3]
    assert links.measured.all()


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("header", ["a;b;c", None])
def test_separators_headers_comments_and_blank_lines_do_not_matter(tmp_path, separator, header):
    text = "# of a laboratory\n\n" + table(ROWS, header and header.replace(";", separator), separator)
    links = read_links(put(tmp_path, "\ufeff" + text + "\n  # the end\n"))
    np.testing.assert_array_equal(links.gain, read_links(put(tmp_path, table(ROWS), "plain")).gain)
    assert links.names == (("a", "b", "c") if header else ("0", "1", "2"))


def test_a_link_may_be_a_row(tmp_path):
    turned = [list(column) for column in zip(*ROWS, strict=True)]
    named = [[name, *row] for name, row in zip("abc", turned, strict=True)]
    whole = read_links(put(tmp_path, table(ROWS)))
    for rows, names in ((turned, ("0", "1", "2")), (named, ("a", "b", "c"))):
        links = read_links(put(tmp_path, table(rows, None), "rows"), layout="rows")
        np.testing.assert_array_equal(links.gain, whole.gain)
        assert links.names == names


def test_units_agree(tmp_path):
    gain = 10 ** (np.array(ROWS) / 10)
    rng = np.random.default_rng(0)
    coefficient = np.sqrt(gain) * np.exp(2j * np.pi * rng.random(gain.shape))
    counts = (np.array(ROWS) + 45.5) / -0.146
    for unit, values in {
        "db": ROWS,
        "linear": gain.tolist(),
        "csi": [[str(h).strip("()") for h in row] for row in coefficient.tolist()],
    }.items():
        links = read_links(put(tmp_path, table(values)), unit=unit, transmit_power=23)
        np.testing.assert_allclose(links.gain, gain.T, rtol=1e-12)
    np.testing.assert_allclose(
        read_links(put(tmp_path, table(counts.tolist())), unit=lambda n: -0.146 * n - 45.5).gain, gain.T, rtol=1e-12
    )
    text = table([[f"{h.real}{h.imag:+}i" for h in row] for row in coefficient])
    np.testing.assert_allclose(read_links(put(tmp_path, text), unit="csi").gain, gain.T, rtol=1e-12)


def test_one_file_a_link_is_aligned_on_the_rounds_that_it_numbers(tmp_path):
    one = put(tmp_path, "3 -60\n5 -62\n4 -61\n", "one")  # out of order, and neither 2 nor 6
    two = put(tmp_path, "seq rssi\n2 -70\n3 -71\n6 -73\n", "two")
    links = read_links([one, two], numbered=True, gaps="floor", sensitivity=-100)
    assert links.names == (str(one), str(two))
    assert links.rounds.tolist() == [2, 3, 4, 5, 6]
    wanted = [[-100, -60, -61, -62, -100], [-70, -71, -100, -100, -73]]
    np.testing.assert_allclose(10 * np.log10(links.gain), wanted, rtol=1e-12)
    assert links.measured.tolist() == [[False, True, True, True, False], [True, True, False, False, True]]
    later = read_links([one, two], numbered=True, gaps="hold", rounds=range(4, 8))
    np.testing.assert_allclose(10 * np.log10(later.gain), [[-61, -62, -62, -62], [-71, -71, -73, -73]], rtol=1e-12)


def filled_by_loop(column, gaps, least):
    last, found = None, []
    for value in column:
        if value is not None:
            last = value
        elif gaps == "hold" and last is None:
            return None
        found.append(value if value is not None else last if gaps == "hold" else least)
    return found


@given(
    st.lists(st.lists(st.none() | st.integers(-99, -1), min_size=2, max_size=2), min_size=1, max_size=12),
    st.sampled_from(["", "nan", "0", "NA"]),
)
def test_gaps_are_filled_as_by_a_plain_loop(tmp_path_factory, rows, shown):
    text = "a,b\n" + "".join(",".join(shown if v is None else str(v) for v in row) + "\n" for row in rows)
    path = put(tmp_path_factory.getbasetemp(), text)
    columns = list(zip(*rows, strict=True))
    for gaps in ("hold", "floor"):
        wanted = [filled_by_loop(column, gaps, -100) for column in columns]
        if None in wanted:
            with pytest.raises(ValueError, match="that could be held"):
                read_links(path, gaps=gaps, missing=(0,))
            continue
        links = read_links(path, gaps=gaps, missing=(0,), sensitivity=-100)
        np.testing.assert_allclose(10 * np.log10(links.gain), wanted, rtol=1e-12)
        assert links.measured.tolist() == [[v is not None for v in column] for column in columns]
    if any(None in column for column in columns):
        with pytest.raises(ValueError, match="not measured"):
            read_links(path, missing=(0,))


def test_groups_go_into_a_problem(tmp_path):
    scenario = Scenario("two", 2, 4, 1000, 20, 400, 1.0, 0.2, 1e-12)
    rows = [[*row, *(each - 3 for each in row)][:5] for row in ROWS]
    groups = read_links(put(tmp_path, table(rows, "a,b,c,d,e"))).group(2)
    assert groups.shape == (2, 2, 4)  # the fifth is left over
    least = ReceiveScalingProblem(scenario, scenario.min_gain(groups), 0.04).min_gain
    moment = scenario.batch_second_moment
    wanted = [[min(10 ** (row[i] / 10), 10 ** (row[i + 1] / 10)) / moment for row in rows] for i in (0, 2)]
    np.testing.assert_allclose(least, wanted, rtol=1e-13)
    with pytest.raises(ValueError, match="num_devices must be at most the 5 links"):
        read_links(put(tmp_path, table(rows, None))).group(6)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_that_names_the_file_and_its_row(tmp_path, name):
    text, options, message = BAD[name]
    path = put(tmp_path, text)
    with pytest.raises(ValueError, match=message) as caught:
        read_links(path, **options)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_links_of_different_lengths_are_not_aligned_by_guessing(tmp_path):
    paths = [put(tmp_path, table(ROWS[:n]), f"{n}.csv") for n in (4, 3)]
    with pytest.raises(ValueError, match=re.escape(f"{paths[1]} has 3 rounds, {paths[0]} has 4: number them")):
        read_links(paths)
    links = read_links(paths, rounds=range(1, 3))
    assert links.gain.shape == (6, 2)
    assert links.names[3] == f"{paths[1]}:a"


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe-60\n")
    with pytest.raises(ValueError, match="no UTF-8 text"):
        read_links(path)
    with pytest.raises(OSError, match="missing"):
        read_links(tmp_path / "missing")


@pytest.mark.parametrize(
    "options",
    [{"unit": "watts"}, {"gaps": "guess"}, {"layout": "long"}, {"sensitivity": 3, "gaps": "floor"}]
    + [{"transmit_power": math.nan}, {"rounds": range(0)}, {"unit": lambda n: n[:1]}],
)
def test_bad_arguments_are_named(tmp_path, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must"):
        read_links(put(tmp_path, table(ROWS)), **options)
    with pytest.raises(ValueError, match="needs the sensitivity"):
        read_links(put(tmp_path, table(ROWS)), gaps="floor")
    with pytest.raises(ValueError, match="at least, got none"):
        read_links([])
