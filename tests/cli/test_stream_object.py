"""A stream in Python: bad values, interrupts and full disks spend no round."""

import contextlib
import os
from unittest.mock import Mock

import numpy as np
import pytest

from adascale import policies
from adascale.errors import InvalidInput, PolicyFailed
from adascale.policies import Best
from adascale.streaming import Stream

from .streams import FLOORS, SMALL, opened


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def test_two_streams_of_one_process_do_not_share_a_file(tmp_path):
    with opened(tmp_path / "s") as stream:
        (tmp_path / "link").symlink_to("s")
        (tmp_path / "hard").hardlink_to(tmp_path / "s")
        for name in ("s", "link", "hard"):
            with pytest.raises(ValueError, match="in use by another process or stream"):
                opened(tmp_path / name)
        assert stream.answer(1e-12).round == 0
    opened(tmp_path / "link").close()


@pytest.mark.parametrize("number", [True, "0", np.nan, np.inf, 0.5, -1, [0]])
def test_a_number_is_one_whole_number(tmp_path, number):
    with opened(tmp_path / "s") as stream:
        with pytest.raises(ValueError, match=r"number|expected round 0 or 1"):
            stream.answer(1e-12, number)
        assert stream.round == 0


@pytest.mark.parametrize("gain", [0.0, np.nan, 1e308, True, "1e-12", [1e-12], None])
def test_a_gain_is_one_positive_number(tmp_path, gain):
    stream = opened(tmp_path / "s")
    stream.answer(1e-12)
    stream.close()
    with opened(tmp_path / "s") as stream:
        with pytest.raises(InvalidInput):
            stream.answer(gain)
        assert (stream.round, stream.pending) == (1, True)


ROWS = [[1e-12], [1e-12] * 3, 1e-12, [1e-12, -0.0]]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_row_of_gains_has_one_for_each_device(tmp_path, row):
    with Stream(Best(1), SMALL, None, tmp_path / "s") as stream:
        with pytest.raises(InvalidInput):
            stream.answer(row)
        assert stream.answer([1e-12, 2e-12]).senders == (2,)


class Interrupted(BaseException):
    pass


FULL = OSError(28, "No space left")
# an error of a policy names it, and an interrupt passes through
FAULTS = [
    (os, "fsync", Interrupted, Interrupted),
    (os, "fsync", FULL, OSError),
    (policies.Learn, "decide", Interrupted, Interrupted),
    (policies.Learn, "decide", FULL, PolicyFailed),
]


@pytest.mark.parametrize(("owner", "name", "error", "told"), FAULTS)
def test_a_round_that_fails_is_not_spent(
    tmp_path, monkeypatch, owner, name, error, told
):
    with opened(tmp_path / "alone") as alone:
        expected = [alone.answer(gain) for gain in FLOORS[:2]]
    with opened(tmp_path / "s") as stream:
        assert stream.answer(FLOORS[0]) == expected[0]
        stream.passed_on()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, Mock(side_effect=error))
            with pytest.raises(told):
                stream.answer(FLOORS[1])
        assert stream.answer(FLOORS[1]) == expected[1]
    with opened(tmp_path / "s") as stream:
        assert (stream.round, stream.last) == (2, expected[1])


def test_what_was_answered_before_a_clean_close_is_not_given_again(tmp_path):
    with opened(tmp_path / "s") as stream:
        assert [stream.answer(1e-12).round for _ in range(3)] == [0, 1, 2]
    with contextlib.suppress(BrokenPipeError), opened(tmp_path / "s") as stream:
        assert not stream.pending
        assert stream.answer(1e-12).round == 3
        raise BrokenPipeError
    with opened(tmp_path / "s") as stream:
        assert stream.pending


def test_a_round_that_can_neither_be_written_nor_taken_back_ends_the_stream(
    tmp_path, monkeypatch
):
    fails = Mock(side_effect=OSError(5, "Input/output error"))
    with opened(tmp_path / "s") as stream:
        stream.answer(FLOORS[0])
        stream.passed_on()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            patch.setattr(os, "ftruncate", fails)
            with pytest.raises(OSError, match="Input/output error"):
                stream.answer(FLOORS[1])
        with pytest.raises(ValueError, match="s is closed"):
            stream.answer(FLOORS[1])
    with opened(tmp_path / "s") as stream:  # the line is whole, or is not there
        assert stream.answer(FLOORS[1]).round == 1
