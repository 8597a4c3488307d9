"""``adascale stream`` with pipes that close or do not block, full disks and endless lines: no round is lost."""

import contextlib
import io
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from ..command import run
from ..forks import Forks
from .streams import GAINS, LONG, NU, SMALL, lines, measured, opened, write_inputs

ARGUMENTS = ["stream", "--nu", NU, "--scenario", "long.toml", "--state", "s"]
HEADER = "h2_1,h2_2\n"
SENT = lines(measured(40, 0))
WHOLE = "".join([HEADER, *lines(GAINS)])
needs_full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="there is no /dev/full"
)


@pytest.fixture(scope="module")
def forks():
    started = Forks("stream")
    yield started
    started.close()


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def rounds_of(answers):
    return [line.split(",")[0] for line in answers]


@contextlib.contextmanager
def piped(forks, folder):
    """A command that runs: the pipes to it and from it, and a function that waits for its exit code."""
    write_inputs(folder)
    (read, sends), (answers, write) = os.pipe(), os.pipe()
    with open(folder / "err", "w") as err:
        pid = forks.begin(folder, ARGUMENTS, [read, write, err.fileno()])
    os.close(read)
    os.close(write)
    with open(sends, "w") as driver, open(answers) as reader:
        yield driver, reader, lambda: forks.wait(pid)


@pytest.mark.parametrize("count", [0, 5])
def test_an_answer_that_nobody_could_read_is_given_again(forks, tmp_path, count):
    """The client reads so many answers, closes their pipe, and sends one more line."""
    with piped(forks, tmp_path) as (driver, reader, ended):
        driver.write(HEADER)
        answers = [reader.readline()]
        for line in SENT[:count]:
            driver.write(line)
            driver.flush()
            answers.append(reader.readline())
        reader.close()
        driver.write(SENT[count])
        driver.close()
        assert ended() == 141
    assert rounds_of(answers[1:]) == [f"{index}" for index in range(count)]
    with opened(tmp_path / "s") as stream:
        assert (stream.round, stream.pending) == (count + 1, True)
        gain = LONG.min_gain(measured(40, 0)[count][:, None])[0]
        assert stream.answer(gain).round == count


def test_pipes_that_do_not_block_are_waited_for(forks, tmp_path):
    """Both of them, of which the output takes less than a page before it is read."""
    write_inputs(tmp_path)
    (read, sends), (answers, write) = os.pipe(), os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"#" * 1024)  # full
    with open(tmp_path / "err", "w") as err:
        pid = forks.begin(tmp_path, ARGUMENTS, [read, write, err.fileno()])
    os.close(read)
    os.close(write)
    text = "".join([HEADER, *SENT[:5]]).encode()
    for start in range(0, len(text), 50):
        os.write(sends, text[start : start + 50])
        time.sleep(0.01)
    os.close(sends)
    with open(answers) as reader:
        answered = reader.read().lstrip("#").splitlines()
    assert forks.wait(pid) == 0
    assert rounds_of(answered) == ["round", *"01234"]


@needs_full
def test_a_full_log_ends_nothing_and_a_full_disk_loses_nothing(forks, tmp_path):
    """The client begins again after each failure; files may grow a little more each time."""
    write_inputs(tmp_path)
    answers, codes = [], []
    while len(answers) < len(SENT):
        text = "".join([HEADER, *SENT[len(answers) :]])
        (tmp_path / "in").write_text(text)
        with (
            open(tmp_path / "in") as read,
            open(tmp_path / "out", "w") as out,
            open("/dev/full", "w") as err,
        ):
            streams = [read.fileno(), out.fileno(), err.fileno()]
            largest = 700 + 1311 * len(codes)
            pid = forks.begin(tmp_path, ARGUMENTS, streams, largest=largest)
        codes.append(forks.wait(pid))
        _, *complete, _ = (tmp_path / "out").read_text().split("\n")
        answers += complete  # the last answer may be cut off
    assert len(codes) > 2
    assert codes == [2] * (len(codes) - 1) + [0]
    gains = LONG.min_gain(measured(40, 0).T)
    with opened(tmp_path / "alone") as alone:
        expected = [alone.answer(gain).line() for gain in gains]
    assert [line.rpartition(",")[0] for line in answers] == expected


@needs_full
def test_a_full_disk_for_answers_spends_no_round(forks, tmp_path):
    write_inputs(tmp_path)
    (tmp_path / "in").write_text("".join([HEADER, *SENT]))
    with (
        open(tmp_path / "in") as read,
        open("/dev/full", "w") as out,
        open(tmp_path / "err", "w") as err,
    ):
        streams = [read.fileno(), out.fileno(), err.fileno()]
        assert forks.wait(forks.begin(tmp_path, ARGUMENTS, streams)) == 2
    with opened(tmp_path / "s") as stream:
        assert stream.round == 0  # the header was refused


class Raw(io.RawIOBase):
    """A standard input that yields these parts; None where it has nothing yet."""

    def __init__(self, parts):
        self.parts, self.size = iter(parts), 0
        self.read_end, self.write_end = os.pipe()
        os.write(self.write_end, b"x")  # always ready to be waited for

    def fileno(self):
        return self.read_end

    def read(self, size=-1):
        part = next(self.parts, b"")
        self.size += len(part or b"")
        return part


class Standard:
    def __init__(self, raw):
        self.buffer, self.raw = self, raw


@pytest.mark.parametrize("filling", [b"1", b",", b"\xff", b"\r"])
def test_an_endless_line_is_refused_before_it_fills_memory(
    place, monkeypatch, capsys, filling
):
    before = WHOLE.encode().splitlines(keepends=True)[:4]
    raw = Raw([*before, *[filling * (1 << 16)] * 25_000])  # 1.6 GB
    monkeypatch.setattr(sys, "stdin", Standard(raw))
    arguments = ["stream", "--scenario", "my.toml", "--nu", NU, "--state", "s"]
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    last = captured.err.splitlines()[-1]
    assert "standard input has a line of more than " in last
    assert len(captured.out.splitlines()) == 4
    assert raw.size < 1e6
    with opened("s", scenario=SMALL) as stream:
        assert (stream.round, stream.pending) == (3, False)


@pytest.mark.parametrize("seed", range(3))
def test_an_input_that_has_nothing_yet_is_waited_for(place, monkeypatch, capsys, seed):
    rng, parts, text = np.random.default_rng(seed), [], WHOLE.encode()
    while text:
        size = rng.integers(60)
        parts += [text[:size] or None, *[None] * rng.integers(3)]
        text = text[size:]
    arguments = ["stream", "--scenario", "my.toml", "--nu", NU, "--state"]
    outputs = []
    for name, raw in (("parts", Raw(parts)), ("whole", Raw([WHOLE.encode()]))):
        monkeypatch.setattr(sys, "stdin", Standard(raw))
        assert run(*arguments, name) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


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
        rounds = [f"{index}" for index in range(12)]
        assert rounds_of(done.stdout.splitlines()) == ["round", *rounds]
        with opened(tmp_path / "s", scenario=SMALL) as stream:
            assert stream.finished
    else:
        assert done.returncode == 2
        assert CLOSED[closed] in done.stderr
        assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_lines_may_end_as_on_windows(stream, ending):
    sent = "".join([HEADER, "# a comment\n", *lines(GAINS[:3]), "skip\n"])
    code, answered, _ = stream(sent.replace("\n", ending).encode())
    assert code == 0
    assert rounds_of(answered) == ["round", *"0123"]
