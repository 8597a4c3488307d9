"""``adascale stream``, killed at any moment: no round is lost or counted twice."""

import random
import signal
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from ..forks import Forks
from .streams import LONG, NU, lines, measured, write_inputs

COMMAND = ["stream", "--nu", NU, "--scenario", "long.toml", "--state", "s"]
KINDS = {
    "numberless": ["h2_1,h2_2\n", *lines(measured(LONG.num_rounds, 7))],
    "alike": ["round,h2_1,h2_2\n", *lines(np.full((LONG.num_rounds, 2), 2e-12), 1)],
}


@pytest.fixture(scope="module")
def forks():
    started = Forks("stream")
    yield started
    started.close()


def answers_of(result):
    return result["out"].splitlines()[1:]


def undisturbed(forks, folder, kind):
    """Lines, and what a run that nothing disturbs answers and leaves."""
    write_inputs(folder)
    header, *rounds = KINDS[kind]
    result = forks.run(COMMAND, folder, "".join(KINDS[kind]))
    assert result["code"] == 0
    answers, state = answers_of(result), (folder / "s").read_bytes()
    return SimpleNamespace(header=header, rounds=rounds, answers=answers, state=state)


def stage(path):
    """Where a kill has stopped a write, from what is in the state."""
    data = path.read_bytes() if path.exists() else b""
    rest = data.rpartition(b"\n")[2]
    if rest in (b"", b"."):
        return "before a line" if rest or not data else "behind a line"
    return "in a line"


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
        fault = {}
        if stages.total() < kills:
            after = rng.uniform(0, longest)
            fault = {"slow": 1, "signal": signal.SIGKILL, "after": after}
        result = forks.run(COMMAND, folder, text, **fault)
        if fault and result["code"] == -signal.SIGKILL:
            stages[stage(state)] += 1
        else:
            assert result["code"] == 0
        new = answers_of(result)
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
