"""``adascale stream``, killed at any moment: no round is lost or counted twice."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .streams import GAINS, HEADER, LONG, NU, lines, measured, write_inputs


class Forks:
    """The process of ``forks.py``."""

    def __init__(self):
        self.here, there = socket.socketpair()
        script = Path(__file__).with_name("forks.py")
        self.process = subprocess.Popen([sys.executable, script, str(there.fileno())], pass_fds=[there.fileno()])
        there.close()
        assert self.here.recv(10) == b"ready"

    def start(self, folder, arguments, sent, **fault):
        """A run that reads these lines and writes ``out`` and ``err`` in the folder: its process id."""
        (folder / "in").write_text("".join(sent))
        with open(folder / "in") as read, open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            task = {"folder": str(folder), "arguments": [str(each) for each in arguments]} | fault
            socket.send_fds(self.here, [json.dumps(task).encode()], [each.fileno() for each in (read, out, err)])
        return int(self.here.recv(100))

    def wait(self, pid):
        self.here.send(json.dumps({"wait": pid}).encode())
        return int(self.here.recv(100))

    def close(self):
        self.here.close()
        self.process.wait()


@pytest.fixture(scope="module")
def forks():
    found = Forks()
    yield found
    found.close()


ALWAYS = ["stream", "--nu", NU, "--scenario", "long.toml"]


@pytest.fixture(scope="module")
def unkilled(forks, tmp_path_factory):
    """The lines that are sent, and what a run that nothing disturbed answers."""
    folder = tmp_path_factory.mktemp("unkilled")
    write_inputs(folder)
    sent = ["h2_1,h2_2\n", *lines(measured(LONG.num_rounds, 7))]
    assert forks.wait(forks.start(folder, [*ALWAYS, "--state", "s"], sent)) == 0
    return sent, (folder / "out").read_text().splitlines(), (folder / "s").read_bytes()


def test_killed_twenty_times_at_any_moment_the_joined_answers_are_those_of_one_run(forks, unkilled, tmp_path):
    sent, expected, state = unkilled
    write_inputs(tmp_path)
    rng, joined, kills, reached, most = random.Random(3), [HEADER], 0, {1}, 0.05
    while True:
        pid = forks.start(tmp_path, [*ALWAYS, "--state", "s"], [sent[0], *sent[len(joined) :]])
        if kills < 20:
            time.sleep(rng.uniform(0, most))
            os.kill(pid, signal.SIGKILL)
            assert forks.wait(pid) in (-signal.SIGKILL, 0)
            kills += 1
        else:
            assert forks.wait(pid) == 0
        joined += (tmp_path / "out").read_text().splitlines()[1:]
        most *= 0.8 if len(joined) > max(reached) else 1.3  # however fast this machine is
        reached.add(len(joined))
        if kills == 20 and len(joined) == len(expected):
            break
    assert joined == expected
    assert (tmp_path / "s").read_bytes() == state
    assert len(reached) > 3  # the control: the kills came at different rounds


MOMENTS = ["before the line", "in the line", "behind the line", "on the disk", "answered"]


@pytest.mark.parametrize(("moment", "number"), [(each, n) for n in (1, 2, 5) for each in MOMENTS[: 4 + (n > 1)]])
def test_killed_at_each_moment_of_a_write_no_round_is_lost_or_counted_twice(forks, unkilled, tmp_path, moment, number):
    sent, expected, _ = unkilled
    write_inputs(tmp_path)
    arguments = [*ALWAYS, "--state", "s"]
    assert forks.wait(forks.start(tmp_path, arguments, sent[:9], dies=(moment, number))) == -signal.SIGKILL
    before = (tmp_path / "out").read_text().splitlines() or [HEADER]
    if moment == "answered" and number > 1:
        assert len(before) == number
    else:
        assert len(before) == max(number - 1, 1)  # the first line written is the heading
    counted = moment in ("behind the line", "on the disk", "answered") and number > 1
    assert forks.wait(forks.start(tmp_path, arguments, [sent[0], *sent[len(before) : 9]])) == 0
    assert before + (tmp_path / "out").read_text().splitlines()[1:] == expected[:9]
    said = (tmp_path / "err").read_text()
    if counted:  # an answer that may have been lost is told, and its line brings it back
        assert said == (f"note: s goes on with round {number - 1}, or {number - 2} if its line comes again; "
                        f"the last answer was {expected[number - 1]}\n")  # fmt: skip
    else:
        assert (f"goes on with round {number - 2}" in said) == (number > 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_it_says_how_to_go_on(forks, tmp_path, number):
    write_inputs(tmp_path)
    os.mkfifo(tmp_path / "never")
    held = os.open(tmp_path / "never", os.O_RDWR)
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        task = {"folder": str(tmp_path), "arguments": [*map(str, ALWAYS), "--state", "s"]}
        socket.send_fds(forks.here, [json.dumps(task).encode()], [held, out.fileno(), err.fileno()])
    pid = int(forks.here.recv(100))
    os.write(held, "".join(["h2_1,h2_2\n", *lines(GAINS[:2])]).encode())
    until = time.monotonic() + 20
    while len((tmp_path / "out").read_text().splitlines()) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(pid, number)
    assert forks.wait(pid) == 128 + number
    os.close(held)
    assert (tmp_path / "err").read_text() == "adascale stream: stopped; the same command goes on from what s holds\n"


def test_a_disk_that_fills_up_under_way_ends_it_before_the_answer(forks, unkilled, tmp_path):
    sent, expected, state = unkilled
    write_inputs(tmp_path)
    arguments = [*ALWAYS, "--state", "s"]
    assert forks.wait(forks.start(tmp_path, arguments, sent[:9], largest=1000)) == 2
    answered = (tmp_path / "out").read_text().splitlines()
    assert (tmp_path / "err").read_text() == "adascale stream: error: s: File too large\n"
    assert 1 < len(answered) < 9
    assert (tmp_path / "s").read_bytes() == b"".join(state.splitlines(keepends=True)[: len(answered)])
    assert answered == expected[: len(answered)]


def test_each_answer_is_there_before_the_next_line_is_sent(place):
    """A driver that sends a line and waits for its answer, in a process of its own."""
    command = [sys.executable, "-m", "adascale", *map(str, ALWAYS), "--state", "s"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == f"{HEADER}\n"  # before anything is sent
        process.stdin.write("h2_1,h2_2\n")
        for t, line in enumerate(lines(GAINS)):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().startswith(f"{t},")
        process.stdin.close()
        assert process.wait() == 0
