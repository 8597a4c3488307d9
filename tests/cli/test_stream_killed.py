"""``adascale stream``, killed at any moment: no round is lost or counted twice."""

import random
import signal
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


def check_state(path, answers, sent):
    """The answers are those of a run that nothing disturbs, and at most one more was lost with the process."""
    assert answers == sent.answers[: len(answers)]
    data = path.read_bytes() if path.exists() else b""
    spent = max(data.count(b"\n") - 1, 0)
    assert sent.state.startswith(data[: data.rfind(b"\n") + 1])
    assert len(answers) <= spent <= len(answers) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_any_write_no_round_is_lost_or_spent_twice(forks, tmp_path, kind):
    """A client sends each line without an answer again."""
    sent = undisturbed(forks, tmp_path, kind)
    state, answers, rng, kills = tmp_path / "s", [], random.Random(3), 0
    state.write_bytes(b"")
    while len(answers) < len(sent.rounds):
        text = "".join([sent.header, *sent.rounds[len(answers) :]])
        size = state.stat().st_size + rng.randint(0, 3000)
        result = forks.run(COMMAND, tmp_path, text, at=1, torn=size)
        assert result["code"] in (0, -signal.SIGXFSZ)
        kills += result["code"] != 0
        answers += answers_of(result)
        check_state(state, answers, sent)
    assert state.read_bytes() == sent.state
    assert kills > 5
