"""A stream in Python: under threads, forks and interrupts no round is answered twice or lost."""

import contextlib
import copy
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest

from adascale import policies
from adascale.errors import InvalidInput
from adascale.policies import Best
from adascale.streaming import Stream

from .streams import FLOORS, SMALL, opened


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def check_reopened(path, answers):
    """The state has each answered round once, and an epsilon no smaller than any that was answered."""
    assert sorted(answer.round for answer in answers) == list(range(len(answers)))
    with opened(path) as stream:
        assert stream.round == len(answers)
        assert stream.last == max(answers)
        assert stream.last.epsilon >= max(answer.epsilon for answer in answers)


def test_threads_get_each_round_once(tmp_path):
    answers, number = [], 6
    barrier = threading.Barrier(number)

    def work(stream, skips):
        barrier.wait()
        for index, gain in enumerate(FLOORS):
            answer = stream.skip() if index % skips == 0 else stream.answer(gain)
            answers.append(answer)
            stream.passed_on(answer)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with opened(tmp_path / "s") as stream:
            threads = [
                threading.Thread(target=work, args=(stream, 2 + index))
                for index in range(number)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(answers) == number * len(FLOORS)
    check_reopened(tmp_path / "s", answers)


USES = {
    "answer": lambda stream: stream.answer(2e-12),
    "again": lambda stream: stream.answer(2e-12, stream.round),
    "skip": lambda stream: stream.skip(),
    "passed_on": lambda stream: stream.passed_on(),
}


def used_in_child(stream, use):
    """The error of a forked process that uses the stream, and then leaves and closes it."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        message = "nothing"
        with contextlib.suppress(BaseException), stream:
            try:
                USES[use](stream)
            except RuntimeError as error:
                message = str(error)
        stream.close()
        os.write(write, message.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    message = os.read(read, 10_000).decode()
    os.close(read)
    return message


@pytest.mark.parametrize("use", USES)
def test_a_forked_process_cannot_use_the_stream(tmp_path, use):
    with opened(tmp_path / "s") as stream, opened(tmp_path / "alone") as alone:
        answers = [stream.answer(FLOORS[0])]
        message = used_in_child(stream, use)
        assert f"s belongs to the process {os.getpid()}" in message
        answers.append(stream.answer(FLOORS[1]))
        assert answers == [alone.answer(gain) for gain in FLOORS[:2]]
        with pytest.raises(ValueError, match="in use by another process or stream"):
            opened(tmp_path / "s")
    check_reopened(tmp_path / "s", answers)


def test_a_forked_process_does_not_hold_the_lock_of_a_closed_stream(tmp_path):
    stream = opened(tmp_path / "s")
    stream.answer(1e-12)
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    stream.close()
    with opened(tmp_path / "s") as again:  # while the child lives
        assert again.answer(1e-12).round == 0  # again, as it was never passed on
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_a_fork_in_the_middle_of_a_call_is_told_at_once(tmp_path):
    """The child does not wait for the thread lock that it inherits, which is never released there."""
    stream, messages = opened(tmp_path / "s"), []

    class Forking(policies.Learn):
        def decide(self, state, floor):
            messages.append(used_in_child(stream, "answer"))
            return super().decide(state, floor)

    stream.policy = Forking()
    stream.answer(1e-12)
    stream.close()
    assert "belongs to the process" in messages[0]


def test_two_streams_of_one_process_do_not_share_a_file(tmp_path):
    with opened(tmp_path / "s") as stream:
        (tmp_path / "link").symlink_to("s")
        for name in ("s", "link"):
            with pytest.raises(ValueError, match="in use by another process or stream"):
                opened(tmp_path / name)
        assert stream.answer(1e-12).round == 0
    opened(tmp_path / "link").close()


@pytest.mark.parametrize("use", USES)
def test_a_closed_stream_says_so(tmp_path, use):
    with opened(tmp_path / "s") as stream:
        stream.answer(1e-12)
        stream.close()
        with pytest.raises(ValueError, match="s is closed"):
            USES[use](stream)
    with opened(tmp_path / "s") as stream:
        assert (stream.round, stream.pending) == (1, True)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_is_neither_pickled_nor_copied(tmp_path, copied):
    with (
        opened(tmp_path / "s") as stream,
        pytest.raises(TypeError, match="cannot be pickled or copied"),
    ):
        copied(stream)


@pytest.mark.parametrize("number", [True, "0", np.nan, np.inf, 0.5, -1, [0]])
def test_a_number_is_one_whole_number(tmp_path, number):
    with opened(tmp_path / "s") as stream:
        with pytest.raises(ValueError, match=r"number|expected round 0 or 1"):
            stream.answer(1e-12, number)
        assert stream.round == 0


BAD = [0.0, np.nan, np.inf, -1e-12, 1e308, 5e-324, True, "1e-12", 1j, [1e-12], None]


@pytest.mark.parametrize("gain", BAD, ids=repr)
def test_a_gain_is_one_positive_number(tmp_path, gain):
    stream = opened(tmp_path / "s")
    stream.answer(1e-12)
    stream.close()
    with opened(tmp_path / "s") as stream:
        with pytest.raises(InvalidInput):
            stream.answer(gain)
        assert (stream.round, stream.pending) == (1, True)


ROWS = [[1e-12], [1e-12] * 3, 1e-12, [[1e-12] * 2], [1e-12, -0.0], [1e-12, np.nan]]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_row_of_gains_has_one_for_each_device(tmp_path, row):
    with Stream(Best(1), SMALL, None, tmp_path / "s") as stream:
        with pytest.raises(InvalidInput):
            stream.answer(row)
        assert stream.answer([1e-12, 2e-12]).senders == (2,)


class Interrupted(BaseException):
    pass


def interrupting(function, after):
    """The function, of which the first call is interrupted, before or after it has done its work."""
    interrupts = iter([Interrupted])

    def call(*arguments):
        result = function(*arguments) if after else None
        for interrupt in interrupts:
            raise interrupt
        return result if after else function(*arguments)

    return call


MOMENTS = [(os, "write"), (os, "fsync"), (policies.Learn, "decide")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), MOMENTS)
def test_an_interrupt_in_a_round_answers_it_once(
    tmp_path, monkeypatch, owner, name, after
):
    with opened(tmp_path / "alone") as alone:
        expected = [alone.answer(gain) for gain in FLOORS[:3]]
    with opened(tmp_path / "s") as stream:
        assert stream.answer(FLOORS[0]) == expected[0]
        stream.passed_on()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupting(getattr(owner, name), after))
            with pytest.raises(Interrupted):
                stream.answer(FLOORS[1])
        assert stream.answer(FLOORS[1]) == expected[1]
        assert stream.answer(FLOORS[2]) == expected[2]
    check_reopened(tmp_path / "s", expected)


def test_an_interrupt_after_a_round_was_written_leaves_its_answer_pending(
    tmp_path, monkeypatch
):
    turn = vars(Stream)["_turn"]

    @contextlib.contextmanager
    def interrupted(self):
        with turn(self):
            yield
            raise Interrupted

    stream = opened(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(Stream, "_turn", interrupted)
        with pytest.raises(Interrupted):
            stream.answer(FLOORS[0])
    assert stream.pending
    answers = [stream.answer(FLOORS[0]), stream.answer(FLOORS[0])]
    stream.close()
    check_reopened(tmp_path / "s", answers)


def test_a_round_that_can_neither_be_written_nor_taken_back_ends_the_stream(
    tmp_path, monkeypatch
):
    def fails(*_):
        raise OSError(5, "Input/output error")

    stream = opened(tmp_path / "s")
    first = stream.answer(FLOORS[0])
    stream.passed_on()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(OSError, match="Input/output error"):
            stream.answer(FLOORS[1])
    with pytest.raises(OSError, match="changed"):
        stream.answer(FLOORS[1])
    stream.close()
    with opened(tmp_path / "s") as stream:  # the line is whole, or is not there
        assert stream.last == first or stream.pending
        assert stream.answer(FLOORS[1]).round == 1


def test_a_lost_answer_is_given_again_once(tmp_path):
    stream = opened(tmp_path / "s")
    first = stream.answer(1e-12)
    stream.close()
    with opened(tmp_path / "s") as stream:
        assert [stream.answer(1e-12).round for _ in range(3)] == [0, 1, 2]
        assert stream.last.epsilon > first.epsilon


def test_what_was_answered_before_a_clean_close_is_not_given_again(tmp_path):
    with opened(tmp_path / "s") as stream:
        assert [stream.answer(1e-12).round for _ in range(3)] == [0, 1, 2]
    with contextlib.suppress(BrokenPipeError), opened(tmp_path / "s") as stream:
        assert not stream.pending
        assert stream.answer(1e-12).round == 3
        raise BrokenPipeError
    with opened(tmp_path / "s") as stream:
        assert stream.pending


@pytest.mark.parametrize("move", ["removed", "replaced", "changed", "folder", "link"])
def test_no_answer_without_the_state_in_its_place(tmp_path, move):
    """What was answered is in the file, wherever it is now."""
    (tmp_path / "old").mkdir()
    (tmp_path / "way").symlink_to("old")
    path = tmp_path / "old" / "s"
    stream = opened(tmp_path / "way" / "s")
    answers = [stream.answer(1e-12)]
    data = path.read_bytes()
    if move == "changed":
        path.write_bytes(data + b"x")
    elif move == "folder":
        path = (tmp_path / "old").rename(tmp_path / "new") / "s"
    elif move == "link":
        (tmp_path / "way").unlink()
    else:
        path = path.rename(tmp_path / "moved")
    if move == "replaced":
        (tmp_path / "old" / "s").write_bytes(data)
    with pytest.raises(OSError, match="removed, replaced or changed"):
        stream.answer(1e-12)
    stream.close()
    check_reopened(path, answers)


def test_a_relative_path_survives_a_change_of_the_working_directory(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with opened("s") as stream:
        monkeypatch.chdir("/")
        answers = [stream.answer(1e-12), stream.answer(2e-12)]
    check_reopened(tmp_path / "s", answers)


def test_the_state_never_has_the_number_of_a_standard_stream(tmp_path):
    """Where standard error is closed, what a library prints there would else be written into the state."""
    child = os.fork()
    if not child:
        os.close(2)
        stream = opened(tmp_path / "s")
        stream.answer(1e-12)
        with contextlib.suppress(OSError):
            os.write(2, b"a warning")
        os._exit(stream.answer(1e-12).round)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
