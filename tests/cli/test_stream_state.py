"""``adascale stream --state``: no answer without the state, and none to what does not belong to it."""

import contextlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale.channel import EmpiricalFloors
from adascale.errors import InvalidFile
from adascale.policies import Best, Truncated
from adascale.streaming import Stream

from .streams import (
    FLOORS,
    NU,
    OWN,
    PAST,
    POLICIES,
    SMALL,
    WHOLE,
    measured,
    opened,
    rows,
)

LINES = WHOLE.splitlines(keepends=True)
OTHER = {
    "scenario": ["--scenario", "other.toml"],
    "nu": ["--nu", 0.003],
    "delta": ["--delta", 1e-6],
    "orders": ["--orders", "64"],
    "policy": ["--policy", "equalalloc"],
    "budget_mode": ["--policy", "learn:budget_mode=hard"],
    "prior": PAST,
    "unit of gains": ["--unit", "db"],
}


@pytest.mark.parametrize("what", OTHER)
def test_the_state_of_another_stream_is_refused(stream, place, what):
    stream("".join(LINES[:4]))
    before = (place / "s").read_bytes()
    code, answered, messages = stream(WHOLE, *OTHER[what])
    assert (code, answered, len(messages)) == (2, [], 1)
    assert f"s is the state of another stream: {what} is " in messages[0]
    assert (place / "s").read_bytes() == before


def test_a_policy_that_decides_otherwise_now_is_refused(stream, place):
    stream("".join(LINES[:4]), "--policy", "mine:Own")
    sys.modules.pop("mine")
    # else taken for this file's: same second and size
    shutil.rmtree(place / "__pycache__", ignore_errors=True)
    (place / "mine.py").write_text(OWN.replace("2 + state", "3 + state"))
    code, answered, messages = stream(WHOLE, "--policy", "mine:Own")
    assert (code, answered, len(messages)) == (2, [], 1)
    expected = "s: round 0 was answered eta = .*, and the policy decides .* now"
    assert re.search(expected, messages[0])


def answered_state(folder):
    """The state of a few rounds, and its answers."""
    path = folder / "s"
    with opened(path, scenario=SMALL) as stream:
        return path, [stream.answer(gain) for gain in FLOORS[:4]]


@contextlib.contextmanager
def no_fsync():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


def test_any_change_of_a_whole_line_is_refused_with_its_number(tmp_path):
    path, answers = answered_state(tmp_path)
    good = path.read_bytes()
    first, second, *rest = good.splitlines(keepends=True)
    # a line is missing, or is there twice
    altered = [([second, *rest], 1), ([first, *rest], 2)]
    altered.append(([first, second, second, *rest], 3))
    for index in range(0, good.rfind(b"\n"), 7):
        flipped = bytearray(good)
        flipped[index] ^= 1
        altered.append(([flipped], good[:index].count(b"\n") + 1))
    for parts, line in altered:
        data = b"".join(parts)
        path.write_bytes(data)
        with pytest.raises(InvalidFile) as error:
            opened(path, scenario=SMALL)
        assert (error.value.path, error.value.line) == (str(path), line)
        assert path.read_bytes() == data
    path.write_bytes(good)
    with opened(path, scenario=SMALL) as stream:  # the control
        assert (stream.pending, stream.last) == (False, answers[-1])


@pytest.mark.parametrize("text", ["my notes", "adascale stream 2 {}\n"])
def test_a_file_of_something_else_is_not_taken_for_a_state(tmp_path, text):
    path = tmp_path / "s"
    path.write_text(text)
    with pytest.raises(InvalidFile, match="s is no journal"):
        opened(path)
    assert path.read_text() == text


SELECTING = [Truncated(1e-12), Best(1, 0.5)]


def policy_and_gains(kind, seed):
    gains = measured(20, seed)
    if kind in SELECTING:
        return kind, None, gains.tolist()
    past = measured(40, 1)
    law = EmpiricalFloors.of(SMALL, SMALL.min_gain(past.T))
    policy = POLICIES[kind][1](law, SMALL.mean_gain(1 / past.mean(axis=0)))
    return policy, NU, SMALL.min_gain(gains.T).tolist()


class Pair:
    """A stream that nothing disturbs, and one that is killed and sent lines again and again."""

    def __init__(self, folder, kind, seed):
        self.policy, self.budget, self.gains = policy_and_gains(kind, seed)
        self.folder, self.gain, self.number = folder, self.gains.pop(), None
        self.is_passed_on = True
        self.one, self.many = self.opened(1), self.opened(2)

    def opened(self, name):
        return Stream(self.policy, SMALL, self.budget, f"{self.folder}/{name}")

    def killed(self):
        self.many.close()
        self.many = many = self.opened(2)
        assert many.pending == (not self.is_passed_on)
        if many.pending:  # nobody had the answer, and the line comes again
            again = many.skip() if self.number is None else many.answer(self.gain)
            assert again == self.one.last
            self.pass_on()

    def pass_on(self):
        self.many.passed_on()
        self.is_passed_on = True

    def again(self):
        if self.number is not None:
            assert self.many.answer(self.gain, self.number) == self.one.last

    def skip(self):
        if not self.one.finished:
            assert self.many.skip() == self.one.skip()
            self.number, self.is_passed_on = None, False

    def new(self):
        self.gain = self.gains.pop()
        self.same()

    def same(self):
        if not self.one.finished:
            self.number = self.one.round + 1
            line = self.gain, self.number
            assert self.many.answer(*line) == self.one.answer(*line)
            self.is_passed_on = False


EVENTS = [Pair.new, Pair.same, Pair.skip, Pair.again, Pair.pass_on, Pair.killed]


@given(
    st.lists(st.sampled_from(EVENTS), max_size=16),
    st.integers(0, 2**32 - 1),
    st.sampled_from([*sorted(POLICIES), *SELECTING]),
)
def test_restarts_change_no_answer(events, seed, kind):
    with tempfile.TemporaryDirectory() as folder, no_fsync():
        pair = Pair(folder, kind, seed)
        for event in events:
            event(pair)
        assert pair.many.last == pair.one.last
        with pair.one, pair.many:
            pass
        if pair.one.round:
            assert (pair.one.last.senders is not None) == (kind in SELECTING)
            assert Path(folder, "1").read_bytes() == Path(folder, "2").read_bytes()


def test_after_a_lost_answer_its_line_comes_again_and_a_new_one_needs_a_second(stream):
    """A state that is closed without passing an answer on is that of a killed process."""
    lost = opened("first", scenario=SMALL)
    lost.answer(1e-12)
    lost.close()
    _, answered, messages = stream("min_gain\n1e-12\n1e-12\n", state="first")
    assert [answer.round for answer in rows(answered)] == [0, 1]
    again = "if this line was a new round with the same gains, send it once more"
    assert sum(again in message for message in messages) == 1
