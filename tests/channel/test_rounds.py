"""Rounds of measured gains: numbered, at common times, or at the times of several clocks."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale.channel import Reading
from adascale.errors import InvalidFile

from .traces import (
    FAR,
    NAMES,
    SITE,
    aligned,
    by_line,
    gains_of,
    long_form,
    outer_join,
    read,
    wide_form,
)


@given(
    st.lists(st.floats(0, 0.499), min_size=48, max_size=48),
    st.sampled_from([0.1, 1.0, 7.5, 1000.0]),
    st.floats(-1e6, 1e6),
    st.sets(st.integers(1, 11), max_size=1),
)
def test_values_of_jittered_clocks_are_read_as_aligned_ones(
    tmp_path_factory, jitter, interval, start, lost
):
    """Whatever the jitter is, as long as it is below half a round; with a gap, and in both forms."""
    folder = tmp_path_factory.mktemp("trace")
    value = aligned(12, [(t, 1) for t in lost])
    turns = np.arange(12)[:, None] + np.reshape(jitter, (12, 4)) / 2
    when = start + interval * turns
    expected = gains_of(folder, wide_form(value, range(12), "round"), gaps="hold")
    for form in (long_form, outer_join):
        content = form(value, when)
        assert gains_of(folder, content, gaps="hold", round_time=interval) == expected


# times of the values of 60 rounds a second apart
TURNS = np.arange(60)[:, None]
JITTERED = TURNS + np.random.default_rng(1).uniform(0, 0.08, (60, 4)).round(6)


@pytest.mark.parametrize("form", [long_form, outer_join])
@pytest.mark.parametrize("how", [{}, {"gaps": "hold", "max_gaps": 0.5}])
def test_clocks_that_differ_are_refused_without_round_time(tmp_path, form, how):
    content = form(aligned(lost=[(7, 1), (30, 3)]), JITTERED)
    with pytest.raises(InvalidFile, match=r"a value|are missing"):
        gains_of(tmp_path, content, **how)


def slow_link():
    value = aligned()
    value[1::2, 2] = np.nan
    return value


OTHER_CLOCKS = {
    "one link is slow": (slow_link(), JITTERED),
    "drift": (aligned(), TURNS * (1 + np.array([0, 0.02, -0.01, 0.01]))),
    "summer time": (aligned(), JITTERED + np.array([0, 0, 3600, 0])),
}


@pytest.mark.parametrize("name", OTHER_CLOCKS)
def test_clocks_that_no_round_time_fits_are_refused(tmp_path, name):
    value, when = OTHER_CLOCKS[name]
    for how in ({}, {"gaps": "hold"}, {"gaps": "hold", "round_time": 1}):
        with pytest.raises(InvalidFile):
            gains_of(tmp_path, long_form(value, when), **how)


def test_second_value_in_a_round_is_named_by_its_line(tmp_path):
    rows = ["link,value,time", "a,-80,0", "b,-90,0", "b,-91,1", "a,-81,10", "b,-92,10"]
    with pytest.raises(InvalidFile, match="a second value of link 'b'") as error:
        read(tmp_path, "\n".join(rows), unit=Reading(round_time=10, **FAR))
    assert error.value.line == 4


@pytest.mark.parametrize(
    ("form", "name"), [(wide_form, "round"), (wide_form, ""), (long_form, "round")]
)
def test_number_that_is_left_out_is_a_round_without_values(tmp_path, form, name):
    value = aligned(20)
    content = form(value, [0, 1, *range(3, 21)], name)
    gains = np.array(gains_of(tmp_path, content, gaps="hold"))
    power = 10 ** ((value[[0, 1, 1, *range(2, 20)]].T - FAR["transmit_power"]) / 10)
    np.testing.assert_allclose(gains, power, rtol=1e-12)
    absent = r"expected a value, got no value in .*ue1.* in round 2 \(the first is 0\)"
    with pytest.raises(InvalidFile, match=absent):
        gains_of(tmp_path, content)
    many_left_out = form(value, [0, 1, *range(7, 25)], name)
    with pytest.raises(InvalidFile, match="more than max_gaps"):
        gains_of(tmp_path, many_left_out, gaps="hold")


def stamps(first, seconds=1.5, form="%Y-%m-%dT%H:%M:%S.%f"):
    times = pd.Timestamp(first) + pd.to_timedelta(seconds * np.arange(60), "s")
    return [*times.strftime(form)]


NAIVE = stamps("2024-03-09T23:59:00")
AWARE = [f"{time}+01:00" for time in NAIVE]
TIMES = {
    "naive": NAIVE,
    "UTC": [f"{time}Z" for time in NAIVE],
    "of a zone": AWARE,
    "with a blank": stamps("2024-03-09T23:59:00", form="%Y-%m-%d %H:%M:%S.%f"),
    "dates": stamps("2024-02-27", seconds=86400, form="%Y-%m-%d"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_in_iso_8601_are_read(tmp_path, kind):
    value, times = aligned(lost=[(5, 1)]), np.array(TIMES[kind])
    expected = gains_of(tmp_path, wide_form(value, range(60), "round"), gaps="hold")
    interval = 86400 if kind == "dates" else 1.5
    for content in (long_form(value, times), wide_form(value, times)):
        for round_time in (None, interval):
            how = {"gaps": "hold", "round_time": round_time}
            assert gains_of(tmp_path, content, **how) == expected


WRONG_TIMES = {
    "backwards": [*NAIVE[:30], *NAIVE[28:58]],
    "twice": [*NAIVE[:30], *NAIVE[29:59]],
    "times of day": stamps("2024-03-09T23:59:00", form="%H:%M:%S"),
    "another zone": [*AWARE[:30], *(time.replace("+01", "+02") for time in AWARE[30:])],
    "with and without a zone": [*NAIVE[:30], *AWARE[30:]],
    "numbers and times": [*range(30), *NAIVE[30:]],
    "no time": [*NAIVE[:30], "later", *NAIVE[31:]],
}


@pytest.mark.parametrize("name", WRONG_TIMES)
def test_times_that_run_back_or_are_of_several_kinds_are_refused(tmp_path, name):
    value, times = aligned(), np.array(WRONG_TIMES[name], dtype=object)
    rows = wide_form(value, times)
    for content in (rows, long_form(value, times)):
        with pytest.raises(InvalidFile):
            gains_of(tmp_path, content, gaps="hold")
    # line by line, the same time may be sent again
    refused = by_line(rows, SITE, unit=Reading(**FAR))[2]
    assert bool(refused) == (name != "twice")


def test_both_forms_have_the_same_devices(tmp_path):
    """Names with capitals are sorted as the columns of a table, and two that differ in these alone are one link."""
    wide = wide_form(aligned(), range(60), "round")
    numbered = long = long_form(aligned(), TURNS, "round")
    for old, new in zip(NAMES, ["a11", "A2", "B9", "b10"], strict=True):
        wide, long = wide.replace(old, new, 1), long.replace(f",{old},", f",{new},")
    assert gains_of(tmp_path, long) == gains_of(tmp_path, wide)
    for twin in ("ue1", "UE1"):
        with pytest.raises(InvalidFile, match=r"after its last|links"):
            gains_of(tmp_path, numbered.replace("ue2", twin))
