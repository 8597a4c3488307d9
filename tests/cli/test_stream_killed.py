"""``adascale stream``, killed at any moment: no round is lost or counted twice."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from ..forks import Forks
from .streams import (
    HEADER,
    LONG,
    NU,
    lines,
    measured,
    opened,
    write_inputs,
)


@pytest.fixture(scope="module")
def forks():
    started = Forks("stream")
    yield started
    started.close()


COMMAND = ["stream", "--nu", NU, "--scenario", "long.toml", "--state", "s"]


@contextlib.contextmanager
def piped(forks, folder):
    """A command that runs: the pipes to it and from it, and a function that waits for its exit code."""
    write_inputs(folder)
    (read, sends), (answers, write) = os.pipe(), os.pipe()
    with open(folder / "err", "w") as err:
        pid = forks.begin(folder, COMMAND, [read, write, err.fileno()])
    os.close(read)
    os.close(write)
    with open(sends, "w") as driver, open(answers) as reader:
        yield driver, reader, lambda: forks.wait(pid)


KINDS = {
    "numberless": ["h2_1,h2_2\n", *lines(measured(LONG.num_rounds, 7))],
    "alike": ["round,h2_1,h2_2\n", *lines(np.full((LONG.num_rounds, 2), 2e-12), 1)],
}


def undisturbed(forks, folder, kind):
    """Lines, and what a run that nothing disturbs answers and leaves."""
    folder.mkdir(exist_ok=True)
    write_inputs(folder)
    assert forks.wait(forks.start(folder, COMMAND, "".join(KINDS[kind]))) == 0
    header, *rounds = KINDS[kind]
    answers, state = answers_in(folder), (folder / "s").read_bytes()
    return SimpleNamespace(header=header, rounds=rounds, answers=answers, state=state)


def answers_in(folder):
    return (folder / "out").read_text().splitlines()[1:]


@pytest.fixture(scope="module")
def unkilled(forks, tmp_path_factory):
    return undisturbed(forks, tmp_path_factory.mktemp("unkilled"), "numberless")


def stage(path):
    """Where a kill has stopped a write, from what is in the state."""
    data = path.read_bytes() if path.exists() else b""
    rest = data.rpartition(b"\n")[2]
    if rest in (b"", b"."):
        return "before a line" if rest or not data else "behind a line"
    return "in a line"


def killed_once(forks, folder, text, seconds):
    """Whether the command was killed before it had ended."""
    pid = forks.start(folder, COMMAND, text, slow=1)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    code = forks.wait(pid)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def check_state(path, answers, sent):
    """The answers are those of a run that nothing disturbs, and at most one more was lost with the process."""
    assert answers == sent.answers[: len(answers)]
    data = path.read_bytes() if path.exists() else b""
    spent = max(data.count(b"\n") - 1, 0)
    assert sent.state.startswith(data[: data.rfind(b"\n") + 1])
    assert len(answers) <= spent <= len(answers) + 1


def horizon(forks, folder, sent, kills, rng):
    """Kill the command until all rounds are answered, but not more often than that; where the kills came."""
    state, answers, longest, stages = folder / "s", [], 0.05, Counter()
    state.unlink()
    while len(answers) < len(sent.rounds):
        text = "".join([sent.header, *sent.rounds[len(answers) :]])
        if stages.total() >= kills:
            assert forks.wait(forks.start(folder, COMMAND, text)) == 0
        elif killed_once(forks, folder, text, rng.uniform(0, longest)):
            stages[stage(state)] += 1
        new = answers_in(folder)
        answers += new
        check_state(state, answers, sent)
        longest *= 0.64 if len(new) > 2 else 1.7  # however fast this machine is
    assert state.read_bytes() == sent.state
    return stages


LONG_RUN = [pytest.mark.fuzz, pytest.mark.slow]


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=LONG_RUN)])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_no_round_is_lost_or_spent_twice(forks, tmp_path, kind, kills):
    """A client sends each line without an answer again, and begins another horizon after each."""
    sent = undisturbed(forks, tmp_path, kind)
    rng, stages = random.Random(3 if kills == 12 else None), Counter()
    # on a busy machine many kills come before the first line
    while stages.total() < kills or (len(stages) == 1 and stages.total() < 9 * kills):
        most = max(kills - stages.total(), 3)
        stages += horizon(forks, tmp_path, sent, most, rng)
    assert len(stages) > 1  # the control


@pytest.mark.parametrize("count", [0, 5])
def test_an_answer_that_nobody_could_read_is_given_again(forks, tmp_path, count):
    """The client reads so many answers, closes their pipe, and sends one more line."""
    sent = lines(measured(40, 0))
    with piped(forks, tmp_path) as (driver, reader, ended):
        driver.write("h2_1,h2_2\n")
        assert reader.readline() == f"{HEADER}\n"  # before anything is sent
        for t, line in enumerate(sent[:count]):
            driver.write(line)
            driver.flush()
            assert reader.readline().startswith(f"{t},")
        reader.close()
        driver.write(sent[count])
        driver.close()
        assert ended() == 141
    with opened(tmp_path / "s") as stream:
        assert (stream.round, stream.pending) == (count + 1, True)
        gain = LONG.min_gain(measured(40, 0)[count][:, None])[0]
        assert stream.answer(gain).round == count


def test_a_disk_that_fills_up_under_way_ends_it_before_the_answer(
    forks, unkilled, tmp_path
):
    write_inputs(tmp_path)
    text = "".join([unkilled.header, *unkilled.rounds[:8]])
    assert forks.wait(forks.start(tmp_path, COMMAND, text, largest=1000)) == 2
    messages = (tmp_path / "err").read_text().splitlines()
    assert messages[-1] == "adascale stream: error: s: File too large"
    answers = answers_in(tmp_path)
    assert 0 < len(answers) < 8
    assert answers == unkilled.answers[: len(answers)]
    assert unkilled.state.startswith((tmp_path / "s").read_bytes())
