"""A stream under threads, forks, pipes that close, full disks and endless lines: no round is answered twice or lost.

Each kind runs a few random schedules; ``--fuzz`` runs a hundred of each.
"""

import contextlib
import copy
import io
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from adascale import policies
from adascale.errors import InvalidInput
from adascale.policies import Best
from adascale.streaming import Stream

from ..command import run
from ..forks import Forks
from .streams import GAINS, LONG, NU, SMALL, lines, measured, write_inputs

FLOORS = SMALL.min_gain(GAINS.T).tolist()
ARGUMENTS = ["stream", "--nu", NU, "--scenario", "long.toml", "--state", "s"]
HEADER = "h2_1,h2_2\n"


def schedules(few):
    """Seeds: a few that are always the same, and under ``--fuzz`` a hundred others."""
    hundred = [random.randrange(2**32) for _ in range(100)]
    return [
        *range(few),
        pytest.param(hundred, marks=[pytest.mark.fuzz, pytest.mark.slow], id="hundred"),
    ]


def each(seeds):
    return seeds if isinstance(seeds, list) else [seeds]


@pytest.fixture(scope="module")
def forks():
    started = Forks("stream")
    yield started
    started.close()


@pytest.fixture(autouse=True)
def nobody_waits_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def opened(path, policy=None, scenario=LONG):
    return Stream(policy or policies.Learn(), scenario, NU, path)


def check_reopened(path, answers, policy=None):
    """The state has each answered round once, and an epsilon no smaller than any that was answered."""
    assert sorted(answer.round for answer in answers) == list(range(len(answers)))
    with opened(path, policy) as stream:
        assert stream.round == len(answers)
        if answers:
            assert stream.last == max(answers)
            assert stream.last.epsilon >= max(answer.epsilon for answer in answers)


@pytest.mark.parametrize("seeds", schedules(3))
def test_threads_get_each_round_once(tmp_path, seeds):
    for seed in each(seeds):
        rng, path, answers = random.Random(seed), tmp_path / f"{seed}", []
        number, interval = rng.randint(2, 8), sys.getswitchinterval()
        shares = [
            [rng.choice(FLOORS) for _ in range(rng.randint(1, 14))]
            for _ in range(number)
        ]
        barrier = threading.Barrier(number)

        def work(share, stream, skips, barrier=barrier, answers=answers):
            barrier.wait()
            for gain in share:
                answer = stream.skip() if skips.random() < 0.2 else stream.answer(gain)
                answers.append(answer)
                stream.passed_on(answer)

        sys.setswitchinterval(1e-5)
        try:
            with opened(path) as stream:
                threads = [
                    threading.Thread(
                        target=work, args=(share, stream, random.Random(seed + n))
                    )
                    for n, share in enumerate(shares)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert len(answers) == sum(map(len, shares))
        check_reopened(path, answers)


USES = {
    "answer": lambda stream: stream.answer(2e-12),
    "again": lambda stream: stream.answer(2e-12, stream.round),
    "skip": lambda stream: stream.skip(),
    "passed_on": lambda stream: stream.passed_on(),
}


def used_in_child(stream, use, leave):
    """What a forked process is told, which then leaves the stream in one of the usual ways."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        said = "nothing"
        try:
            with stream if leave == "with" else contextlib.nullcontext():
                try:
                    USES[use](stream)
                except RuntimeError as error:
                    said = str(error)
            if leave == "close":
                stream.close()
        finally:
            os.write(write, said.encode())
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    said = os.read(read, 10_000).decode()
    os.close(read)
    return said


@pytest.mark.parametrize("seeds", schedules(3))
def test_a_forked_process_cannot_use_the_stream(tmp_path, seeds):
    for seed in each(seeds):
        rng, path, answers = random.Random(seed), tmp_path / f"{seed}", []
        with opened(path) as stream, opened(tmp_path / f"{seed} alone") as alone:
            for _ in range(rng.randint(1, 12)):
                if rng.random() < 0.4:
                    use, leave = (
                        rng.choice([*USES]),
                        rng.choice(["with", "close", "exit"]),
                    )
                    assert (
                        f"{path} belongs to the process {os.getpid()}"
                        in used_in_child(stream, use, leave)
                    )
                gain = rng.choice(FLOORS)
                answers.append(stream.answer(gain))
                assert answers[-1] == alone.answer(gain)
        check_reopened(path, answers)


def test_a_fork_does_not_hold_the_lock_and_may_happen_in_the_middle_of_a_call(tmp_path):
    """The child is told at once, although the lock that it inherits is never released there."""
    stream, told = opened(tmp_path / "s"), []

    class Forking(policies.Learn):
        def decide(self, state, floor):
            told.append(used_in_child(stream, "answer", "exit"))
            return super().decide(state, floor)

    stream.policy = Forking()
    stream.answer(1e-12)
    assert "belongs to the process" in told[0]
    sleeper = os.fork()
    if not sleeper:
        time.sleep(60)
        os._exit(0)
    stream.passed_on()
    stream.close()
    opened(tmp_path / "s").close()  # while the child lives
    os.kill(sleeper, signal.SIGKILL)
    os.waitpid(sleeper, 0)


def unmarked(line):
    """An answer without its last column, made_with."""
    return line.rpartition(",")[0]


def sent_until_it_is_answered(forks, folder, seed, fault):
    """All answers of a client that begins again after each failure, and the exit codes."""
    rng, sent, joined, codes = (
        random.Random(seed),
        lines(measured(40, seed % 1000)),
        [],
        [],
    )
    folder.mkdir()
    write_inputs(folder)
    for turn in range(100):
        code, answers = fault(
            forks, folder, rng, "".join([HEADER, *sent[len(joined) :]]), turn
        )
        joined += answers
        codes.append(code)
        if len(joined) == len(sent):
            break
    with opened(folder / "alone") as alone:
        gains = LONG.min_gain(
            np.array([line.split(",") for line in sent], dtype=float).T
        )
        assert [unmarked(line) for line in joined] == [
            alone.answer(gain).line() for gain in gains
        ]
    with opened(folder / "s") as stream:
        assert stream.round == len(sent)
        assert stream.last.line() == unmarked(joined[-1])
    return codes


@pytest.mark.parametrize("seeds", schedules(2))
def test_an_answer_that_nobody_could_get_is_not_passed_on(forks, tmp_path, seeds):
    """It waits for its line to come again, and counts once."""
    for seed in each(seeds):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        write_inputs(folder)
        code, answers = closed_after(
            forks, folder, number := random.Random(seed).randint(0, 9)
        )
        assert code == 141
        with opened(folder / "s") as stream:
            assert (
                stream.round == number + 1
            )  # one more than was read, which waits for its line
            assert stream.pending
            gain = LONG.min_gain(measured(40, 0)[number][:, None])[0]
            assert stream.answer(gain).round == number
        assert [answer.split(",")[0] for answer in answers] == [
            str(t) for t in range(number)
        ]


def closed_after(forks, folder, number):
    """A client that sends a line when it has its answer, closes the pipe of answers, and sends one more."""
    (read, sends), (answers, write) = os.pipe(), os.pipe()
    with open(folder / "err", "w") as err:
        pid = forks.begin(folder, ARGUMENTS, [read, write, err.fileno()])
    os.close(read)
    os.close(write)
    taken = []
    with open(sends, "w") as driver:
        driver.write(HEADER)
        with open(answers) as reader:
            reader.readline()
            for line in lines(measured(40, 0))[:number]:
                driver.write(line)
                driver.flush()
                taken.append(reader.readline().strip())
        driver.write(lines(measured(40, 0))[number])
    return forks.wait(pid), taken


def full_disk(forks, folder, rng, text, turn):
    """A run whose log is full, and whose files may not grow beyond a random size, which is larger at every turn."""
    (folder / "in").write_text(text)
    with (
        open(folder / "in") as read,
        open(folder / "out", "w") as out,
        open("/dev/full", "w") as err,
    ):
        size = 600 + 1500 * turn + rng.randint(0, 1500)
        pid = forks.begin(
            folder, ARGUMENTS, [read.fileno(), out.fileno(), err.fileno()], largest=size
        )
    code = forks.wait(pid)
    *whole, _ = (
        (folder / "out").read_text().split("\n")
    )  # the last answer may be cut off as well
    return code, whole[1:]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("seeds", schedules(2))
def test_a_full_log_ends_nothing_and_a_full_disk_loses_nothing(forks, tmp_path, seeds):
    for seed in each(seeds):
        codes = sent_until_it_is_answered(forks, tmp_path / f"{seed}", seed, full_disk)
        assert {*codes[:-1]} == {2}
        assert codes[-1] == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_answers_on_a_full_disk_are_answered_again(forks, tmp_path):
    write_inputs(tmp_path)
    sent = lines(measured(40, 0))
    (tmp_path / "in").write_text("".join([HEADER, *sent]))
    with (
        open(tmp_path / "in") as read,
        open("/dev/full", "w") as out,
        open(tmp_path / "err", "w") as err,
    ):
        assert (
            forks.wait(
                forks.begin(
                    tmp_path, ARGUMENTS, [read.fileno(), out.fileno(), err.fileno()]
                )
            )
            == 2
        )
    assert not (tmp_path / "s").exists()  # its heading was refused: no round is spent


class Raw(io.RawIOBase):
    """A standard input that yields these parts; None where it has nothing yet."""

    def __init__(self, parts):
        self.parts, self.taken = iter(parts), 0
        self.read_end, self.write_end = os.pipe()
        os.write(self.write_end, b"x")  # always ready to be waited for

    def readable(self):
        return True

    def fileno(self):
        return self.read_end

    def read(self, size=-1):
        part = next(self.parts, b"")
        self.taken += len(part or b"")
        return part

    def close(self):
        for end in (self.read_end, self.write_end):
            with contextlib.suppress(OSError):
                os.close(end)
        super().close()


class Standard:
    def __init__(self, raw):
        self.buffer, self.raw = self, raw


@pytest.mark.parametrize("seeds", schedules(3))
def test_an_endless_line_is_refused_before_it_fills_memory(
    place, monkeypatch, capsys, seeds
):
    for seed in each(seeds):
        rng = random.Random(seed)
        number, good = (
            rng.randint(0, 11),
            "".join([HEADER, *lines(GAINS)]).encode().splitlines(keepends=True),
        )
        filling = rng.choice([b"1", b"\0", b",", b" ", b"\xff", b"\r"]) * (1 << 16)
        raw = Raw([*good[: number + 1], *[filling] * 25_000])  # 1.6 GB
        monkeypatch.setattr(sys, "stdin", Standard(raw))
        assert (
            run("stream", "--scenario", "my.toml", "--nu", NU, "--state", f"{seed}")
            == 2
        )
        said = capsys.readouterr()
        assert "standard input has a line of more than " in said.err.splitlines()[-1]
        assert len(said.out.splitlines()) == number + 1
        assert raw.taken < 1e6
        raw.close()
        if number:
            with Stream(policies.Learn(), SMALL, NU, f"{seed}") as stream:
                assert (stream.round, stream.pending) == (number, False)


@pytest.mark.parametrize("seeds", schedules(3))
def test_an_input_that_has_nothing_yet_is_waited_for(place, monkeypatch, capsys, seeds):
    text = "".join([HEADER, *lines(GAINS)]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    arguments = ["stream", "--scenario", "my.toml", "--nu", NU, "--state"]
    assert run(*arguments, "whole") == 0
    expected = capsys.readouterr().out
    for seed in each(seeds):
        rng, parts, left = random.Random(seed), [], text
        while left:
            size = rng.randint(0, 60)
            parts += [left[:size] or None, *[None] * rng.randint(0, 2)]
            left = left[size:]
        raw = Raw(parts)
        monkeypatch.setattr(sys, "stdin", Standard(raw))
        assert run(*arguments, f"{seed}") == 0
        assert capsys.readouterr().out == expected
        raw.close()


def test_pipes_that_do_not_block_are_waited_for(forks, tmp_path):
    """Both of them, of which the output takes less than a page before it is read."""
    write_inputs(tmp_path)
    (read, sends), (answers, write) = os.pipe(), os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    with contextlib.suppress(OSError, BlockingIOError):
        while True:
            os.write(write, b"#" * 1024)  # full
    with open(tmp_path / "err", "w") as err:
        pid = forks.begin(tmp_path, ARGUMENTS, [read, write, err.fileno()])
    os.close(read)
    os.close(write)
    sent = "".join([HEADER, *lines(measured(5, 0))]).encode()
    for i in range(0, len(sent), 50):
        os.write(sends, sent[i : i + 50])
        time.sleep(0.01)
    os.close(sends)
    with open(answers) as reader:
        answered = reader.read().lstrip("#").splitlines()
    assert forks.wait(pid) == 0
    assert [line.split(",")[0] for line in answered] == ["round", *"01234"]


CLOSED = {
    "<&-": "standard input is closed",
    ">&-": "standard output is closed",
    "2>&-": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("closed", CLOSED)
def test_a_standard_stream_that_is_closed_at_the_start(tmp_path, closed):
    """A new process: no state without answers, and no note among the answers or in the state."""
    write_inputs(tmp_path)
    command = f'cat gains.csv | "{sys.executable}" -m adascale stream --scenario my.toml --nu {NU} --state s {closed}'
    if closed == "<&-":
        command = command.removeprefix("cat gains.csv | ")
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True
    )
    if CLOSED[closed] is None:
        assert done.returncode == 0
        assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
            "round",
            *map(str, range(12)),
        ]
        with opened(tmp_path / "s", scenario=SMALL) as stream:
            assert stream.finished
    else:
        assert done.returncode == 2
        assert CLOSED[closed] in done.stderr
        assert not (tmp_path / "s").exists()


# What else may happen in one process ----------------------------------------------------------------------------------


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
    stream.close()
    with opened(tmp_path / "s") as stream:
        assert (stream.round, stream.pending) == (1, True)


def test_a_stream_that_nothing_refers_to_releases_its_file(tmp_path):
    stream = opened(tmp_path / "s")
    stream.answer(1e-12)
    with pytest.warns(ResourceWarning):
        del stream
    opened(tmp_path / "s").close()


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_is_neither_pickled_nor_copied(tmp_path, copied):
    with (
        opened(tmp_path / "s") as stream,
        pytest.raises(TypeError, match="cannot be pickled or copied"),
    ):
        copied(stream)


def test_a_stream_is_not_handed_to_a_spawned_process(tmp_path):
    with opened(tmp_path / "s") as stream:
        process = multiprocessing.get_context("spawn").Process(
            target=USES["skip"], args=(stream,)
        )
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            process.start()
        assert stream.answer(1e-12).round == 0


@pytest.mark.parametrize(
    "number", [True, np.True_, "0", np.nan, np.inf, 0.5, -1, 1j, [0], None]
)
def test_a_number_is_one_whole_number(tmp_path, number):
    with opened(tmp_path / "s") as stream:
        if number is None:
            assert stream.answer(1e-12, number).round == 0
            return
        with pytest.raises(ValueError, match=r"number|expected round 0 or 1"):
            stream.answer(1e-12, number)
        assert stream.round == 0


BAD = [
    0.0,
    -0.0,
    np.nan,
    np.inf,
    -1e-12,
    1e308,
    5e-324,
    True,
    "1e-12",
    1e-12 + 0j,
    [1e-12],
    [],
    None,
]
BAD.append(np.ma.masked_array(1e-12, True))


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("gain", BAD, ids=repr)
def test_a_gain_is_one_positive_number(tmp_path, gain, pending):
    stream = opened(tmp_path / "s")
    stream.answer(1e-12)
    stream.close()
    with opened(tmp_path / "s") as stream:
        if not pending:
            stream.passed_on()
        with pytest.raises(InvalidInput):
            stream.answer(gain)
        assert (stream.round, stream.pending) == (1, pending)


@pytest.mark.parametrize(
    "row",
    [[1e-12], [1e-12] * 3, 1e-12, [[1e-12] * 2], [1e-12, -0.0], [1e-12, np.nan]],
    ids=repr,
)
def test_a_row_of_gains_has_one_for_each_device(tmp_path, row):
    with Stream(Best(1), SMALL, None, tmp_path / "s") as stream:
        with pytest.raises(InvalidInput):
            stream.answer(row)
        assert stream.answer([1e-12, 2e-12]).senders == (2,)


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_lines_may_end_as_on_windows(stream, ending):
    sent = "".join([HEADER, "# a comment\n", *lines(GAINS[:3]), "skip\n"])
    code, answered, _ = stream(sent.replace("\n", ending).encode())
    assert code == 0
    assert [line.split(",")[0] for line in answered] == ["round", *"0123"]


class Interrupted(BaseException):
    pass


MOMENTS = ["pwrite", "after pwrite", "fsync", "after fsync", "decide", "answered"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_in_a_round_answers_it_once(tmp_path, monkeypatch, moment):
    """At any moment, the same gain gets the only answer of its round: from this stream, or from a new one."""
    path, stops = tmp_path / "s", [1]

    def interrupting(function, after):
        def call(*given):
            result = function(*given) if after or not stops else None
            if stops:
                stops.pop()
                raise Interrupted
            return result

        return call

    with opened(tmp_path / "alone") as alone:
        expected = [alone.answer(gain) for gain in FLOORS[:3]]
    stream = opened(path)
    assert stream.answer(FLOORS[0]) == expected[0]
    stream.passed_on()
    with monkeypatch.context() as patch:
        if moment == "decide":
            patch.setattr(
                policies.Learn, "decide", interrupting(policies.Learn.decide, False)
            )
        elif moment == "answered":
            take = vars(Stream)["_take"]
            patch.setattr(Stream, "_take", interrupting(take, True))
        else:
            name = moment.split()[-1]
            patch.setattr(os, name, interrupting(getattr(os, name), "after" in moment))
        with pytest.raises(Interrupted):
            stream.answer(FLOORS[1])
    assert stream.answer(FLOORS[1]) == expected[1]
    assert stream.answer(FLOORS[2]) == expected[2]
    stream.passed_on()
    stream.close()
    check_reopened(path, expected)


def test_a_round_that_can_neither_be_written_nor_taken_back_ends_the_stream(
    tmp_path, monkeypatch
):
    path, stream = tmp_path / "s", opened(tmp_path / "s")
    first = stream.answer(FLOORS[0])
    stream.passed_on()

    def fails(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(OSError, match="Input/output error"):
            stream.answer(FLOORS[1])
    with pytest.raises(RuntimeError, match="close it and open it again"):
        stream.answer(FLOORS[1])
    stream.close()
    with opened(
        path
    ) as stream:  # the line is whole, or is not there: one answer in any case
        assert stream.last == first or stream.pending
        assert stream.answer(FLOORS[1]).round == 1


def test_a_policy_that_answers_in_its_own_decision_is_refused(tmp_path):
    stream = opened(tmp_path / "s")

    class Calling(policies.Learn):
        def decide(self, state, floor):
            stream.answer(1e-12)
            return super().decide(state, floor)

    ordinary, stream.policy = stream.policy, Calling()
    with pytest.raises(RuntimeError, match="in the middle of a round"):
        stream.answer(1e-12)
    stream.policy = ordinary
    answer = stream.answer(1e-12)
    stream.passed_on()
    stream.close()
    check_reopened(tmp_path / "s", [answer])


def test_a_lost_answer_is_given_again_once(tmp_path):
    stream = opened(tmp_path / "s")
    first = stream.answer(1e-12)
    stream.close()
    with opened(tmp_path / "s") as stream:
        assert [stream.answer(1e-12).round for _ in range(3)] == [0, 1, 2]
        assert stream.last.epsilon > first.epsilon


@pytest.mark.parametrize("move", ["folder", "file", "link", "directory"])
def test_a_state_that_moves_under_way_is_no_state_there(tmp_path, monkeypatch, move):
    """It can be opened where it is now; a change of the working directory moves nothing."""
    (tmp_path / "old").mkdir()
    (tmp_path / "way").symlink_to("old")
    monkeypatch.chdir(tmp_path)
    stream = opened("way/s")
    answers = [stream.answer(1e-12)]
    place = tmp_path / "old" / "s"
    if move == "folder":
        (tmp_path / "old").rename(tmp_path / "new")
        place = tmp_path / "new" / "s"
    elif move == "file":
        place = place.rename(tmp_path / "moved")
    elif move == "link":
        (tmp_path / "other").mkdir()
        (tmp_path / "way").unlink()
        (tmp_path / "way").symlink_to("other")
    else:
        monkeypatch.chdir("/")
    if move == "directory":
        answers.append(stream.answer(1e-12))
    else:
        with pytest.raises(OSError, match="removed or replaced"):
            stream.answer(1e-12)
    stream.passed_on()
    stream.close()
    check_reopened(place, answers)


def test_numbers_below_three_are_not_those_of_the_state(forks, tmp_path):
    """Where standard error is closed, what a library prints there would else be written into the state."""
    with open(os.devnull) as first, open(os.devnull, "w") as second:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(first.fileno(), 0)
            os.dup2(second.fileno(), 1)
            os.close(2)
            stream = Stream(policies.Learn(), replace(SMALL), NU, tmp_path / "s")
            stream.answer(1e-12)
            with contextlib.suppress(OSError):
                os.write(2, b"a warning")
            os.write(write, b"%d" % stream.answer(1e-12).round)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 10) == b"1"
        os.close(read)
        os.close(write)
